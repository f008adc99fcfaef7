"""The cache folder, and that what one process compiled the next one need not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from offmap.cache import cache_folder

FIT = """
import jax, numpy as np
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if name.endswith("cache_hits") else None)
from dataclasses import replace
from offmap import METHODS, DiverseRegressor
from offmap.schedules import Constant
method = METHODS["mfvi"]
method = replace(method, training=replace(method.training, schedule=Constant(epochs=2)))
X = np.arange(20.0)[:, None]
model = DiverseRegressor(method, noise_std=1.0, random_state=0).fit(X, X[:, 0])
print(len(hits), float(model.predict(X)[0]))
"""


def test_folder_is_the_users_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OFFMAP_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("OFFMAP_CACHE", "off")
    assert cache_folder() is None
    monkeypatch.delenv("OFFMAP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "offmap"


def test_a_second_process_finds_what_the_first_compiled(tmp_path: Path) -> None:
    environment = os.environ | {"OFFMAP_CACHE": str(tmp_path), "OFFMAP_KERNELS": "off"}

    def run() -> list[str]:
        return subprocess.run(
            [sys.executable, "-c", FIT], env=environment, check=True, capture_output=True, text=True
        ).stdout.split()

    first, second = run(), run()
    assert int(first[0]) == 0
    assert int(second[0]) > 0
    assert first[1] == second[1]
