"""Whole cells: what a record says, and what it leaves out."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import KFold, train_test_split
from sklearn.neighbors import NearestNeighbors

from offmap.datasets import load_dataset
from offmap.detector import OODDetector
from offmap.metrics import auc, rmse
from offmap.study.alarms import alarm_of_detector, rung
from offmap.study.cell import run_cell
from offmap.study.measure import Split
from offmap.study.protocol import PROTOCOLS
from offmap.study.record import FALSE_POSITIVE_RATES, KEYS, QUANTILE_LEVELS, Cell, as_line


def record_of(*cell: Any) -> dict[str, Any]:
    """A cell's record, as it is read back from the file."""
    return dict(json.loads(as_line(run_cell(Cell(*cell)))))


ALWAYS_NULL = {"shifts", "alarms"}
HMC_ONLY = {"rhat", "ess"}


@pytest.mark.parametrize(
    ("method", "null"),
    [
        ("ensemble", HMC_ONLY),
        ("mc-dropout", {*HMC_ONLY, "lpp_variance_only", "entropy_parameter"}),
        ("nn-hyvi", {*HMC_ONLY, "lpp_variance_only"}),
        ("hmc", {"lpp_variance_only"}),
    ],
)
def test_a_record_has_a_number_wherever_it_applies(method: str, null: set[str]) -> None:
    record = record_of("quick", "wave", method, 0)
    assert list(record) == list(KEYS)
    assert {key for key, value in record.items() if value is None} == {*null, *ALWAYS_NULL}
    assert (record["n_train"], record["n_test"], record["n_features"]) == (108, 12, 1)
    assert len(record["u_train"]) == len(record["u_test"]) == len(record["u_ood"]) == len(QUANTILE_LEVELS)
    assert len(record["roc"]) == len(FALSE_POSITIVE_RATES)
    assert record["bands"]["x"][0] == -4
    assert record["bands"]["x"][-1] == 2
    value = PROTOCOLS["quick"].setups["wave"].methods[method]
    assert record["settings"]["method"].keys() == {"class", *(field.name for field in fields(value))}
    if method != "hmc":
        assert record["settings"]["method"]["training"]["schedule"] == {"class": "Constant", "epochs": 2}
    assert record["versions"]["numpy"] == np.__version__
    described = Path("/proc/cpuinfo")
    if described.exists():
        assert record["versions"]["processor"].partition(",")[0] in described.read_text()
    assert record["activation"] == "relu"
    # The box of wave is wider than its rows, so its U reaches further than that of any row.
    assert record["u_ood"][-1] > record["u_train"][-1]


def test_a_shifts_record_has_every_rule_and_only_that() -> None:
    record = record_of("shifts", "diabetes", "gaussian-process", 0)
    assert {key for key, value in record.items() if value is not None} == {
        *Cell._fields,
        *("seconds", "cpu_seconds", "peak_memory_mb", "cores", "settings", "versions"),
        *("n_features", "shifts", "warnings", "command"),
    }
    table = load_dataset("diabetes")
    X = (table.X - table.X.mean(axis=0)) / table.X.std(axis=0)
    along = X @ np.linalg.svd(X, full_matrices=False)[2][0]
    out = (along < np.quantile(along, 0.25)) | (along > np.quantile(along, 0.75))
    found = record["shifts"]["outer half"]
    assert found["n_out"] == out.sum()
    # The same by scikit-learn alone.
    X_train, X_test, y_train, y_test = train_test_split(table.X[~out], table.y[~out], test_size=0.1, random_state=42)
    mean, std = X_train.mean(axis=0), X_train.std(axis=0)
    process = GaussianProcessRegressor(
        ConstantKernel() * RBF(np.ones(10)) + WhiteKernel(), normalize_y=True, random_state=0
    ).fit((X_train - mean) / std, y_train)
    inside, std_in = process.predict((X_test - mean) / std, return_std=True)
    outside, std_out = process.predict((table.X[out] - mean) / std, return_std=True)
    assert found["auc"] == pytest.approx(auc(std_in, std_out), abs=0.02)
    assert found["rmse_in"] == pytest.approx(rmse(y_test, inside), rel=0.02)
    assert found["rmse_out"] == pytest.approx(rmse(table.y[out], outside), rel=0.02)
    assert found["aurc_oracle"] < found["aurc"]


@pytest.mark.parametrize("seed", [0, 1])
def test_an_alarms_record_counts_what_a_calibrated_score_flags(seed: int) -> None:
    record = record_of("alarms", "diabetes", "knn-distance", seed)
    table = load_dataset("diabetes")
    X_train, X_test, _, _ = train_test_split(table.X, table.y, test_size=0.2, random_state=seed)
    assert (record["n_train"], record["n_test"]) == (353, 89)
    # The same by hand: five folds, and one loop over all pairs of a new row and a calibration row.
    counts = np.zeros(len(X_test))
    for learned, kept_back in KFold(5, shuffle=True, random_state=np.random.RandomState(seed)).split(X_train):
        known = X_train[learned]
        mean, std = known.mean(axis=0), known.std(axis=0)
        index = NearestNeighbors(n_neighbors=5).fit((known - mean) / std)
        ordinary, new = (index.kneighbors((rows - mean) / std)[0][:, -1] for rows in (X_train[kept_back], X_test))
        counts += [sum(one >= score for one in ordinary) for score in new]
    p_values = (1 + counts) / (1 + len(X_train))
    by_hand = [float(np.mean(p_values <= rate)) for rate in (0.01, 0.05, 0.1)]
    found = record["alarms"]["score"]
    assert found["false_alarms"] == pytest.approx(by_hand, abs=1.5 / len(X_test))  # float32 may decide a tie
    # Rows of the box around ten correlated columns: most lie far from all rows.
    assert found["power"][1] > 0.5
    assert found["power"] == sorted(found["power"])
    assert found["auc"] > 0.9


def test_the_detectors_alarm_is_measured_for_each_kind_of_evidence() -> None:
    table = load_dataset("diabetes")
    split = Split.at_random(table.X[:200], table.y[:200], seed=0)
    quick = PROTOCOLS["quick"].setups["diabetes"]
    alarm = alarm_of_detector(quick.regressor("ensemble", split.y_train, 0), split, 0)
    found = rung(alarm, split, quick, 0)
    assert list(found) == ["disagreement", "novelty", "both"]
    detector = OODDetector(quick.regressor("ensemble", split.y_train, 0), random_state=0)
    p_values = detector.fit(split.X_train, split.y_train).p_values(split.X_test)
    assert found["both"]["false_alarms"] == [float(np.mean(p_values <= rate)) for rate in (0.01, 0.05, 0.1)]
