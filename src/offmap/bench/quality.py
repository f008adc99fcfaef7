"""Time to quality: the default funn-hyvi against the paper's protocol of it, same rows, same seed, one run."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from offmap.bench.figure import Figure
from offmap.bench.tables import real
from offmap.study.measure import Split, accuracy, entropies, separation
from offmap.study.protocol import PROTOCOLS, SMALL, Setup


class Quality(NamedTuple):
    """What a fit gave, and the seconds that it took, compilation included."""

    seconds: float
    auc: float
    rmse: float
    entropy: float


def measure(data_dir: Path | None) -> Iterator[Figure]:
    """The figures of time to quality, where the tables are."""
    total = {"paper": 0.0, "default": 0.0}
    for table in real(list(SMALL), data_dir):
        split = Split.of(table.X, table.y)
        default, paper = (_quality(PROTOCOLS[protocol].setups[table.key], split) for protocol in ("default", "paper"))
        total["default"] += default.seconds
        total["paper"] += paper.seconds
        ratio = default.seconds / paper.seconds
        key = table.key
        yield Figure(f"default / paper, seconds, {key}", ratio, "times", default.seconds, paper.seconds, "<= 0.1")
        yield Figure(f"default - paper, AUC, {key}", default.auc - paper.auc, "", default.auc, paper.auc, ">= 0")
        yield Figure(f"default / paper, RMSE, {key}", default.rmse / paper.rmse, "", default.rmse, paper.rmse, "<= 1")
        entropy = default.entropy - paper.entropy
        yield Figure(f"default - paper, predictor entropy, {key}", entropy, "nats", default.entropy, paper.entropy)
    if total["paper"]:
        ratio = total["default"] / total["paper"]
        yield Figure("default / paper, seconds, all five", ratio, "times", total["default"], total["paper"], "<= 0.1")


def _quality(setup: Setup, split: Split, seed: int = 0) -> Quality:
    started = time.perf_counter()
    model = setup.regressor("funn-hyvi", split.y_train, seed).fit(split.X_train, split.y_train)
    seconds = time.perf_counter() - started
    auc = separation(model, split, setup.nu(split.X_train), seed)["auc"]
    entropy = entropies(model, setup.n_inputs, seed)["entropy_predictor"]
    return Quality(seconds=seconds, auc=auc, rmse=accuracy(model, split)["rmse"], entropy=entropy)
