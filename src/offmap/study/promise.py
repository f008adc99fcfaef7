"""What the false-alarm promise rests on, by simulation: `python -m offmap.study.promise docs/promise.png`.

The promise needs new rows that are exchangeable with the training rows. Here they are, and then they are not: rows that
drift, rows that stand in the table several times, and rows that come in groups.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge

from offmap.detector import OODDetector
from offmap.figures import BLUE, GREY, ORANGE, write_figure
from offmap.inference.ensemble import Ensemble
from offmap.optimize import Training
from offmap.regressor import DiverseRegressor
from offmap.schedules import Constant

ROWS, NEW_ROWS, COLUMNS, RATE = 1000, 500, 4, 0.05
COPIES, GROUPS = 5, 20
REPEATS = {"novelty": 200, "disagreement": 20}

Random = np.random.Generator


class Tables(NamedTuple):
    """Rows to learn from, and new ones, none of which should count as off the map."""

    training: np.ndarray
    new: np.ndarray


def same(random: Random) -> Tables:
    """New rows of the same kind."""
    return Tables(_rows(random, ROWS), _rows(random, NEW_ROWS))


def drifted(random: Random, stds: float) -> Tables:
    """New rows whose columns have all moved by so many standard deviations."""
    return Tables(_rows(random, ROWS), _rows(random, NEW_ROWS) + stds)


def copied(random: Random) -> Tables:
    """Every training row stands in the table five times; new rows are new."""
    return Tables(np.repeat(_rows(random, ROWS // COPIES), COPIES, axis=0), _rows(random, NEW_ROWS))


def known_groups(random: Random) -> Tables:
    """Rows of twenty groups, each around a centre of its own; new rows of the same groups."""
    centres = 2 * _rows(random, GROUPS)
    return Tables(_around(random, centres, ROWS), _around(random, centres, NEW_ROWS))


def new_groups(random: Random) -> Tables:
    """The same, but new rows come from groups that the table does not have."""
    return Tables(
        _around(random, 2 * _rows(random, GROUPS), ROWS), _around(random, 2 * _rows(random, GROUPS), NEW_ROWS)
    )


def _rows(random: Random, n: int) -> np.ndarray:
    return random.normal(size=(n, COLUMNS))


def _around(random: Random, centres: np.ndarray, n: int) -> np.ndarray:
    return centres[random.integers(len(centres), size=n)] + 0.3 * _rows(random, n)


DRIFTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
SCENARIOS: dict[str, Callable[[Random], Tables]] = {
    "new rows of the same kind": same,
    "every training row five times in the table": copied,
    "twenty groups, new rows of the same groups": known_groups,
    "twenty groups, new rows of other groups": new_groups,
}


def flagged(tables: Tables, evidence: str, seed: int) -> float:
    """The share of new rows that a detector of a small table flags."""
    target = np.sin(tables.training).sum(axis=1) + np.random.default_rng(seed).normal(0, 0.1, len(tables.training))
    training = Training(learning_rate=0.01, batch_size=100, schedule=Constant(epochs=100))
    small = DiverseRegressor(Ensemble(training=training), noise_std=0.1, random_state=seed)
    regressor = Ridge() if evidence == "novelty" else small
    detector = OODDetector(regressor, false_alarm_rate=RATE, evidence=evidence, random_state=seed)  # type: ignore[arg-type]
    detector.fit(tables.training, target)
    return float(np.mean(detector.predict(tables.new) == -1))


def shares(scenario: Callable[[Random], Tables], evidence: str, repeats: int) -> np.ndarray:
    """The share of flagged rows in every repetition."""
    return np.array([flagged(scenario(np.random.default_rng(seed)), evidence, seed) for seed in range(repeats)])


def draw(path: Path, by_drift: Mapping[str, Sequence[np.ndarray]]) -> None:
    """How the share of flagged rows grows as the rows drift."""
    figure = Figure(figsize=(6.5, 3.2), layout="constrained")
    axes = figure.subplots()
    for (evidence, found), colour in zip(by_drift.items(), (BLUE, ORANGE), strict=True):
        axes.plot(DRIFTS, [100 * each.mean() for each in found], "o-", color=colour, label=evidence)
    axes.axhline(100 * RATE, color=GREY, linestyle="--", linewidth=1, label="promised")
    axes.set_xlabel("how far every column has moved since training, in standard deviations")
    axes.set_ylabel("rows flagged, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    write_figure(figure, path)


def main(picture: Path) -> None:
    """Print the table, and draw the picture."""
    print(f"| promised: {RATE:g} | " + " | ".join(REPEATS) + " |\n" + "|---" * (1 + len(REPEATS)) + "|")
    for name, scenario in SCENARIOS.items():
        found = [shares(scenario, evidence, repeats) for evidence, repeats in REPEATS.items()]
        print(f"| {name} | " + " | ".join(f"{each.mean():.3f}" for each in found) + " |", flush=True)
    by_drift = {
        evidence: [shares(partial(drifted, stds=stds), evidence, max(5, repeats // 10)) for stds in DRIFTS]
        for evidence, repeats in REPEATS.items()
    }
    for evidence, found in by_drift.items():
        print(
            f"drift, {evidence}: "
            + ", ".join(f"{stds:g}: {each.mean():.3f}" for stds, each in zip(DRIFTS, found, strict=True))
        )
    draw(picture, by_drift)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "promise.png"))
