"""Strictness for every test: no silent change of dtype or rank. The UCI tables, an empty cache, and Ctrl-C."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from offmap.datasets import load_dataset

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


class Split(NamedTuple):
    """A table under the paper's fixed split: a tenth of the rows is for testing."""

    X: np.ndarray
    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray


@pytest.fixture
def uci() -> Callable[[str], Split]:
    """A function from a key such as "yacht" to that table's split."""
    if not os.environ.get("OFFMAP_DATA"):
        pytest.skip("OFFMAP_DATA is not set: the UCI tables are not here")

    def read(name: str) -> Split:
        table = load_dataset(name)
        return Split(table.X, *train_test_split(table.X, table.y, test_size=0.1, random_state=42))

    return read


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, no data folder, no proxy between us and the loopback."""
    monkeypatch.setenv("OFFMAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OFFMAP_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


@pytest.fixture(autouse=True, scope="module")
def forgets_programs() -> Iterator[None]:
    """Linux lets a process have 65,530 pieces of memory, and the compiled programs of all tests together need more."""
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True)
def heeds_ctrl_c() -> Iterator[None]:
    """Shells have their background jobs ignore Ctrl-C, and so would tests that run in one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
