"""Runs one cell of the study: from a table's raw rows to its record."""

import platform
import resource
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

from offmap.artifact import LIBRARIES
from offmap.cores import kind_of_processor, n_cores
from offmap.datasets import Dataset, load_dataset
from offmap.regressor import DiverseRegressor
from offmap.study.alarms import Alarm, alarm_of_baseline, alarm_of_detector, rung
from offmap.study.baselines import BASELINES, Scorer
from offmap.study.measure import Split, accuracy, bands, entropies, fitted, separation, shift
from offmap.study.protocol import Setup
from offmap.study.record import KEYS, Cell, Record
from offmap.study.settings import settings_of
from offmap.study.shifts import SHIFTS
from offmap.study.variants import protocol_named


def run_cell(cell: Cell, data_dir: Path | None = None) -> Record:
    """Fit and measure one cell. All but its costs depends on the cell, the kind of processors, and their number."""
    protocol = protocol_named(cell.protocol)
    setup, table = protocol.setups[cell.dataset], load_dataset(cell.dataset, data_dir)
    record = dict.fromkeys(KEYS) | cell._asdict()
    record |= MEASUREMENTS[protocol.measured](cell, setup, table)
    cores = n_cores()
    return record | {
        "settings": settings_of(cell),
        "versions": _versions(),
        "n_features": table.X.shape[1],
        "peak_memory_mb": _peak_memory_mb(),
        "cores": cores,
        "command": cell.command(cores),
    }


def _fit(cell: Cell, setup: Setup, X: np.ndarray, y: np.ndarray) -> Scorer:
    if cell.method in BASELINES:
        return BASELINES[cell.method].fit(X, y, cell.seed)
    return setup.regressor(cell.method, y, cell.seed).fit(X, y)


def _under_nu(cell: Cell, setup: Setup, table: Dataset) -> Record:
    """The paper's measurements: rows of nu are off the map."""
    split = Split.of(table.X, table.y)
    scorer, record = fitted(lambda X, y: _fit(cell, setup, X, y), split)
    record |= {"n_train": len(split.y_train), "n_test": len(split.y_test)}
    record |= separation(scorer, split, setup.nu(split.X_train), cell.seed) | accuracy(scorer, split)
    if isinstance(scorer, DiverseRegressor):
        record |= entropies(scorer, setup.n_inputs, cell.seed)
        record |= {"prior_std": setup.prior(cell.method).std, "activation": scorer.network_.activation}
        record |= {} if setup.box is None else {"bands": bands(scorer, setup.box)}
    return record


def _under_shifts(cell: Cell, setup: Setup, table: Dataset) -> Record:
    """One fit per rule of the table: the rows that the rule holds out are off the map."""
    costs, shifts = [], {}
    for name, rule in SHIFTS[cell.dataset].items():
        out = rule(table.X, table.feature_names)
        split = Split.of(table.X[~out], table.y[~out])
        scorer, cost = fitted(lambda X, y: _fit(cell, setup, X, y), split)
        costs.append(cost)
        shifts[name] = shift(scorer, split, table.X[out], table.y[out])
    mixed = costs[0]["rhat"] is not None
    return {
        "shifts": shifts,
        "seconds": sum(cost["seconds"] for cost in costs),
        "cpu_seconds": sum(cost["cpu_seconds"] for cost in costs),
        "warnings": [text for cost in costs for text in cost["warnings"]],
        "rhat": max(cost["rhat"] for cost in costs) if mixed else None,
        "ess": min(cost["ess"] for cost in costs) if mixed else None,
    }


def _of_alarms(cell: Cell, setup: Setup, table: Dataset) -> Record:
    """A split of its own for every seed. Scores in input space are calibrated as the detector is."""
    split = Split.at_random(table.X, table.y, cell.seed)

    def fit(X: np.ndarray, y: np.ndarray) -> Alarm:
        if cell.method in BASELINES:
            return alarm_of_baseline(BASELINES[cell.method], split, cell.seed)
        return alarm_of_detector(setup.regressor(cell.method, y, cell.seed), split, cell.seed)

    alarm, record = fitted(fit, split)
    record |= {"n_train": len(split.y_train), "n_test": len(split.y_test)}
    return record | {"alarms": rung(alarm, split, setup, cell.seed)}


MEASUREMENTS: dict[str, Callable[[Cell, Setup, Dataset], Record]] = {
    "nu": _under_nu,
    "shifts": _under_shifts,
    "alarms": _of_alarms,
}


def _versions() -> Record:
    """What the numbers may depend on besides the cell. Processors round sums differently, which long runs amplify."""
    libraries = {name: version(name) for name in LIBRARIES}
    return {"python": platform.python_version()} | libraries | {"processor": kind_of_processor()}


def _peak_memory_mb() -> float:
    """The most memory that this process ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
