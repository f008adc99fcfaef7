"""Time to quality: the default funn-hyvi against the paper's protocol of it, same rows, same seed, one run."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from offmap.bench.figure import Figure
from offmap.bench.tables import real
from offmap.regressor import DiverseRegressor
from offmap.study.measure import Split, accuracy, entropies, separation
from offmap.study.protocol import PROTOCOLS, SMALL, Setup


class Quality(NamedTuple):
    """What a fit gave, and the seconds that it took with everything still to compile."""

    seconds: float
    auc: float
    rmse: float
    entropy: float


def measure(data_dir: Path | None) -> Iterator[Figure]:
    """The figures of time to quality, where the tables are."""
    total = {"paper": 0.0, "default": 0.0}
    for table in real(list(SMALL), data_dir):
        key, split = table.key, Split.of(table.X, table.y)
        setups = {protocol: PROTOCOLS[protocol].setups[key] for protocol in total}
        with nothing_compiled():
            paper = quality_of(setups["paper"], split)
            default = quality_of(setups["default"], split)
            _, again = _fitted(setups["default"], split)
        total["default"] += default.seconds
        total["paper"] += paper.seconds
        yield _ratio(f"default / paper, seconds, {key}", default.seconds, paper.seconds)
        yield _ratio(f"default again / paper, seconds, {key}", again, paper.seconds)
        yield Figure(f"default - paper, AUC, {key}", default.auc - paper.auc, "", default.auc, paper.auc, ">= 0")
        yield Figure(f"default / paper, RMSE, {key}", default.rmse / paper.rmse, "", default.rmse, paper.rmse, "<= 1")
        entropy = default.entropy - paper.entropy
        yield Figure(f"default - paper, predictor entropy, {key}", entropy, "nats", default.entropy, paper.entropy)
    if total["paper"]:
        yield _ratio("default / paper, seconds, all five", total["default"], total["paper"])


def _ratio(name: str, default: float, paper: float) -> Figure:
    return Figure(name, default / paper, "times", default, paper, "<= 0.1")


@contextlib.contextmanager
def nothing_compiled() -> Iterator[None]:
    """Forget every compiled program, this process's and those kept on disk, as if it were the first time."""
    kept_in = jax.config.values["jax_compilation_cache_dir"]
    with tempfile.TemporaryDirectory() as empty:
        _keep_programs_in(empty)
        try:
            yield
        finally:
            _keep_programs_in(kept_in)


def _keep_programs_in(folder: str | None) -> None:
    jax.config.update("jax_compilation_cache_dir", folder)
    reset_cache()
    jax.clear_caches()


def _fitted(setup: Setup, split: Split, seed: int = 0) -> tuple[DiverseRegressor, float]:
    started = time.perf_counter()
    model = setup.regressor("funn-hyvi", split.y_train, seed).fit(split.X_train, split.y_train)
    return model, time.perf_counter() - started


def quality_of(setup: Setup, split: Split, seed: int = 0) -> Quality:
    """What funn-hyvi gives under a setup."""
    model, seconds = _fitted(setup, split, seed)
    auc = separation(model, split, setup.nu(split.X_train), seed)["auc"]
    entropy = entropies(model, setup.n_inputs, seed)["entropy_predictor"]
    return Quality(seconds=seconds, auc=auc, rmse=accuracy(model, split)["rmse"], entropy=entropy)
