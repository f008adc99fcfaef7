"""OODDetector: its answers are one decision, and real tables are taken as they come."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from offmap import DiverseRegressor, OODDetector, load
from offmap.inference.ensemble import Ensemble
from offmap.novelty import learn_reference, novelty
from offmap.ood import Evidences, cross_p_values
from offmap.optimize import Training
from offmap.schedules import Cosine
from tests.linear import LINEAR, NOISE_STD, simulated
from tests.small_models import tiny_detector

assert_close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)  # what float32 keeps
QUICK = Ensemble(members=5, training=Training(learning_rate=0.02, batch_size=100, schedule=Cosine(steps=60)))
ANSWERS = [
    "prediction",
    "std_epistemic",
    "std_total",
    "ood_score",
    "p_disagreement",
    "p_novelty",
    "p_value",
    "is_ood",
    "reason",
]


@pytest.fixture(scope="module", params=["held-out", "cross-fit"])
def detector(request: pytest.FixtureRequest) -> OODDetector:
    return OODDetector(LINEAR, false_alarm_rate=0.1, calibration=request.param, random_state=0).fit(*simulated(200))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """From the middle of the training rows to far outside."""
    return simulated(100, seed=2)[0] * np.linspace(0, 5, 100)[:, None]


def with_evidence(detector: OODDetector, evidence: str) -> OODDetector:
    """The same fit, asked for another kind of evidence."""
    other = clone(detector)
    other.__dict__.update(detector.__dict__, evidence=evidence)
    return other


# --- answers ---


def test_answers_are_one_decision(detector: OODDetector, rows: np.ndarray) -> None:
    verdicts = detector.verdicts(rows)
    assert list(verdicts) == ANSWERS
    flagged = detector.predict(rows) == -1
    assert set(detector.predict(rows)) == {-1, 1}
    np.testing.assert_array_equal(flagged, detector.p_values(rows) <= detector.false_alarm_rate)
    np.testing.assert_array_equal(verdicts["is_ood"], flagged)
    np.testing.assert_array_equal(verdicts["p_value"], detector.p_values(rows))
    np.testing.assert_array_equal(verdicts["ood_score"], -detector.score_samples(rows))
    np.testing.assert_array_equal(verdicts["reason"] != "", flagged)
    np.testing.assert_array_equal(detector.decision_function(rows), detector.score_samples(rows) - detector.offset_)


def test_another_rate_moves_the_line_and_nothing_else(detector: OODDetector, rows: np.ndarray) -> None:
    usual, strict = detector.verdicts(rows), detector.verdicts(rows, false_alarm_rate=0.03)
    np.testing.assert_array_equal(strict["is_ood"], usual["p_value"] <= 0.03)
    np.testing.assert_array_equal(strict["reason"] != "", strict["is_ood"])
    for name in ANSWERS[:-2]:
        np.testing.assert_array_equal(strict[name], usual[name])
    with pytest.raises(ValueError, match="false_alarm_rate is 2, but it must lie between 0 and 1"):
        detector.verdicts(rows, false_alarm_rate=2)


def test_the_offset_is_that_of_disagreement_alone(rows: np.ndarray) -> None:
    """Held-out, the sign of the decision function is the verdict of disagreement alone; novelty is not in it."""
    detector = OODDetector(LINEAR, false_alarm_rate=0.1, calibration="held-out", random_state=0).fit(*simulated(200))
    by_sign = detector.decision_function(rows) < 0
    np.testing.assert_array_equal(by_sign, with_evidence(detector, "disagreement").predict(rows) == -1)
    assert (by_sign != (detector.predict(rows) == -1)).any()


@pytest.mark.parametrize("evidence", ["disagreement", "novelty"])
def test_one_kind_of_evidence_is_its_own_p_value(detector: OODDetector, rows: np.ndarray, evidence: str) -> None:
    verdicts = with_evidence(detector, evidence).verdicts(rows)
    np.testing.assert_array_equal(verdicts["p_value"], verdicts[f"p_{evidence}"])
    phrases = {"disagreement": "the predictors disagree", "novelty": "far from every training row"}
    spoken = {reason[reason.rindex("(") :] for reason in verdicts["reason"] if reason}
    assert spoken == {f"({phrases[evidence]})"}


def test_p_values_come_from_the_rows_that_each_fold_did_not_see(detector: OODDetector, rows: np.ndarray) -> None:
    """Everything again by hand: each fold's regressor fitted anew, its reference, and its rows kept back."""
    X, y = simulated(200)
    held_out = detector.held_out_
    new: list[Evidences] = []
    known: list[Evidences] = []
    for number in range(len(detector.estimators_)):
        kept_back = held_out["row"][held_out["fold"] == number]
        learned = np.setdiff1d(np.arange(200), kept_back)
        model, reference = clone(LINEAR).fit(X[learned], y[learned]), learn_reference(X[learned], np.ones(3))
        for table, scores in ((rows, new), (X[kept_back], known)):
            scores.append(Evidences(model.uncertainty(table), novelty(reference, table, np.zeros(len(table), int))))
    expected, verdicts = cross_p_values(new, known), detector.verdicts(rows)
    np.testing.assert_array_equal(verdicts["p_value"], expected.both)
    np.testing.assert_array_equal(verdicts["p_disagreement"], expected.disagreement)
    np.testing.assert_array_equal(verdicts["p_novelty"], expected.novelty)


def test_held_out_rows_are_judged_by_what_never_saw_them(detector: OODDetector) -> None:
    X, y = simulated(200)
    held_out = detector.held_out_
    n_expected = 40 if detector.calibration == "held-out" else 200
    assert len(set(held_out["row"])) == len(held_out["row"]) == n_expected
    np.testing.assert_array_equal(held_out["y"], y[held_out["row"]])
    for number, model in enumerate(detector.estimators_):
        chosen = held_out["fold"] == number
        kept_back = held_out["row"][chosen]
        learned = np.setdiff1d(np.arange(200), kept_back)
        twin = clone(LINEAR).fit(X[learned], y[learned])
        mean, std = twin.predict(X[kept_back], return_std=True)
        np.testing.assert_array_equal(model.predict(X), twin.predict(X))
        np.testing.assert_array_equal(held_out["prediction"][chosen], mean)
        np.testing.assert_allclose(held_out["std_total"][chosen], std)
        np.testing.assert_array_equal(held_out["std_epistemic"][chosen], twin.epistemic_std(X[kept_back]))
        np.testing.assert_array_equal(held_out["ood_score"][chosen], twin.uncertainty(X[kept_back]))
    np.testing.assert_array_equal(detector.calibration_scores_, np.sort(held_out["ood_score"]))


def test_rows_far_out_are_flagged_and_rows_in_the_middle_are_not(detector: OODDetector) -> None:
    directions = np.eye(3)
    assert (detector.predict(20 * directions) == -1).all()
    assert (detector.predict(0.01 * directions) == 1).all()
    # Numbers at the end of what a float holds are as far out as can be.
    assert (detector.predict(1e300 * directions) == -1).all()


@pytest.mark.parametrize("calibration", ["held-out", "cross-fit"])
@pytest.mark.parametrize("value", [1e-6, 7.0, 1e6])
def test_a_number_that_never_varied_is_evidence_when_it_does(value: float, calibration: Any) -> None:
    X, y = simulated(200)
    always, other = np.full((len(X), 1), value), np.full((len(X), 1), 1.01 * value)
    detector = OODDetector(LINEAR, false_alarm_rate=0.1, calibration=calibration, random_state=0)
    detector.fit(np.hstack([X, always]), y)
    assert np.mean(detector.predict(np.hstack([X, always])) == -1) < 0.2
    verdicts = detector.verdicts(np.hstack([X, other]))
    assert np.mean(verdicts["is_ood"]) > 0.9
    assert all(", and was always " in reason for reason in verdicts["reason"][verdicts["is_ood"]])


def test_verdicts_pool_the_draws_of_all_regressors(detector: OODDetector, rows: np.ndarray) -> None:
    draws = np.array([regressor.predict_draws(rows) for regressor in detector.estimators_])
    verdicts = detector.verdicts(rows)
    assert_close(verdicts["prediction"], draws.mean(axis=(0, 1)))
    # The law of total variance: within the regressors, and between them.
    epistemic = draws.var(axis=1, ddof=1).mean(axis=0) + draws.mean(axis=1).var(axis=0)
    assert_close(verdicts["std_epistemic"], np.sqrt(epistemic))
    assert_close(verdicts["std_total"], np.sqrt(epistemic + NOISE_STD**2))
    assert_close(verdicts["ood_score"], norm.entropy(0, draws.std(axis=1, ddof=1)).min(axis=0))


@pytest.mark.parametrize(
    ("n_rows", "rate", "chosen"),
    [(995, 0.05, "cross-fit"), (1000, 0.05, "held-out"), (1000, 0.01, "cross-fit"), (5000, 0.01, "held-out")],
)
def test_a_fifth_is_held_out_when_that_is_enough_rows(n_rows: int, rate: float, chosen: str) -> None:
    detector = OODDetector(LINEAR, false_alarm_rate=rate, random_state=0).fit(*simulated(n_rows))
    assert detector.calibration_ == chosen
    assert len(detector.calibration_scores_) == (n_rows if chosen == "cross-fit" else n_rows // 5)


def test_at_most_ten_thousand_training_rows_are_kept_and_none_that_calibrates() -> None:
    X, y = simulated(15_000)
    detector = OODDetector(LINEAR, random_state=0).fit(X, y)
    training = detector.training_
    assert len(set(training.row)) == len(training.row) == 10_000
    assert not set(training.row) & set(detector.held_out_["row"])
    np.testing.assert_array_equal(training.features, X[training.row])
    np.testing.assert_array_equal(training.y, y[training.row])


def test_the_given_regressor_is_left_as_it_was() -> None:
    X, y = simulated(50)
    regressor = clone(LINEAR).fit(X, y)
    before, prediction = dict(vars(regressor)), regressor.predict(X)
    detector = OODDetector(regressor, random_state=0).fit(X + 1, 2 * y)
    assert vars(regressor) == before
    np.testing.assert_array_equal(regressor.predict(X), prediction)
    assert detector.estimator is regressor
    assert regressor not in detector.estimators_


def test_the_detectors_seed_is_enough() -> None:
    X, y = simulated(50)
    unseeded = OODDetector(clone(LINEAR).set_params(random_state=None), false_alarm_rate=0.1)
    first, again, other = (
        clone(unseeded).set_params(random_state=seed).fit(X, y).score_samples(X) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first, other).any()


# --- tables ---


def patients(n_rows: int, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 91, n_rows).astype(float),
            "ward": random.choice(["north", "south", "east"], n_rows),
            "admitted": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 900, n_rows), unit="D"),
            "smoker": random.random(n_rows) < 0.5,
            "bmi": random.normal(25, 3, n_rows).round(1),
        }
    )
    frame.loc[5:8, "bmi"] = np.nan
    return frame


def days_in_hospital(frame: pd.DataFrame) -> np.ndarray:
    return np.asarray(frame["age"] / 10 + 5 * (frame["ward"] == "north") + frame["smoker"])


@pytest.fixture(scope="module")
def on_patients() -> OODDetector:
    frame = patients(200)
    model = DiverseRegressor(QUICK, noise_std=1.0, hidden=(10,), random_state=0)
    return OODDetector(model, random_state=0).fit(frame, days_in_hospital(frame))


@pytest.fixture(scope="module")
def strange_patients() -> pd.DataFrame:
    frame = patients(40, seed=1)
    frame.loc[0, "age"] = 970.0
    frame.loc[1, "ward"] = "moon"
    frame.loc[2, "admitted"] = pd.NaT
    frame["bmi"] = frame["bmi"].astype(object)
    frame.loc[3, "bmi"] = "heavy"
    return frame


def test_strange_cells_are_evidence_and_never_a_crash(on_patients: OODDetector, strange_patients: pd.DataFrame) -> None:
    verdicts = on_patients.verdicts(strange_patients)
    assert list(verdicts["is_ood"][:3]) == [True] * 3
    assert "age 970 is beyond the training range 18 to 90" in verdicts["reason"][0]
    assert "ward 'moon' was never seen in training" in verdicts["reason"][1]
    assert "admitted is missing, which it never was in training" in verdicts["reason"][2]
    assert "bmi 'heavy' is not a number" in [item.text for item in on_patients.explain(strange_patients)[3].evidence]
    for name in ANSWERS[:-2]:
        assert np.isfinite(verdicts[name]).all()
    assert ((verdicts["p_value"] > 0) & (verdicts["p_value"] <= 1)).all()


def test_every_library_gives_the_same_answers(on_patients: OODDetector) -> None:
    frame = patients(60, seed=2)
    expected = on_patients.verdicts(frame)
    as_text = pa.table({name: [None if pd.isna(v) else str(v) for v in frame[name]] for name in frame})
    for other in (pl.from_pandas(frame), pa.Table.from_pandas(frame), as_text, frame[frame.columns[::-1]]):
        for name, values in on_patients.verdicts(other).items():
            np.testing.assert_array_equal(values, expected[name], err_msg=name)


@settings(deadline=None, derandomize=True, max_examples=15)
@given(size=st.integers(1, 40))
def test_answers_do_not_depend_on_the_size_of_the_chunks(
    on_patients: OODDetector, strange_patients: pd.DataFrame, size: int
) -> None:
    whole = on_patients.verdicts(strange_patients)
    parts = [on_patients.verdicts(strange_patients.iloc[i : i + size]) for i in range(0, 40, size)]
    for name, values in whole.items():
        np.testing.assert_array_equal(np.concatenate([one[name] for one in parts]), values, err_msg=name)


def test_columns_of_a_frame_may_be_more_but_not_fewer(on_patients: OODDetector) -> None:
    frame = patients(10, seed=3)
    expected = on_patients.p_values(frame)
    np.testing.assert_array_equal(on_patients.p_values(frame.assign(note="x")), expected)
    with pytest.raises(ValueError, match=r"lacks 2 columns that the model learned from: 'ward', 'bmi'\."):
        on_patients.predict(frame.drop(columns=["bmi", "ward"]))
    with pytest.raises(TypeError, match="ndarray is not a pandas, polars or pyarrow table"):
        on_patients.predict(np.ones((3, 5)))
    with pytest.raises(ValueError, match="no rows"):
        on_patients.predict(frame.iloc[:0])


def test_schema_and_names_are_there(on_patients: OODDetector, detector: OODDetector) -> None:
    assert on_patients.schema_ is not None
    assert [column.name for column in on_patients.schema_.columns] == list(on_patients.feature_names_in_)
    assert on_patients.n_features_in_ == 5
    assert detector.schema_ is None


def test_a_frame_of_numbers_may_have_holes_once_fitted() -> None:
    X, y = simulated(200)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    detector = OODDetector(LINEAR, random_state=0).fit(frame, y)
    assert detector.schema_ is None
    np.testing.assert_array_equal(detector.p_values(frame), OODDetector(LINEAR, random_state=0).fit(X, y).p_values(X))
    holes = frame.iloc[:10].copy()
    holes.loc[0, "b"] = np.nan
    verdicts = detector.verdicts(holes)
    assert verdicts["is_ood"][0]
    assert "b is missing, which it never was in training" in verdicts["reason"][0]
    np.testing.assert_array_equal(verdicts["p_value"][1:], detector.p_values(frame.iloc[1:10]))


def test_a_model_directory_keeps_it_all(
    on_patients: OODDetector, strange_patients: pd.DataFrame, tmp_path: Path
) -> None:
    on_patients.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    for name, values in on_patients.verdicts(strange_patients).items():
        np.testing.assert_array_equal(loaded.verdicts(strange_patients)[name], values, err_msg=name)
    assert loaded.explain(strange_patients) == on_patients.explain(strange_patients)
    assert loaded.schema_ == on_patients.schema_
    for name, values in on_patients.held_out_.items():
        np.testing.assert_array_equal(loaded.held_out_[name], values)
    np.testing.assert_array_equal(loaded.training_.features, on_patients.training_.features)


def test_tables_that_cannot_be_learned_from() -> None:
    frame = patients(30)
    with pytest.raises(ValueError, match="requires y to be passed"):
        OODDetector(LINEAR).fit(frame, None)
    with pytest.raises(ValueError, match="2 rows, but a minimum of 3"):
        OODDetector(LINEAR).fit(frame[:2], [1.0, 2.0])
    with pytest.raises(ValueError, match="no column to learn from"):
        OODDetector(LINEAR).fit(pd.DataFrame({"name": [f"n{i}" for i in range(9)]}), np.arange(9.0))
    with pytest.raises(ValueError, match="evidence is 'all', but it must be both, disagreement or novelty"):
        OODDetector(LINEAR, evidence="all").fit(frame, np.ones(30))  # type: ignore[arg-type]


# --- regressors without predictors that could disagree ---


@pytest.mark.parametrize(
    "model", [LinearRegression(), make_pipeline(StandardScaler(), Ridge())], ids=["one", "pipeline"]
)
@pytest.mark.parametrize("calibration", ["held-out", "cross-fit"])
def test_any_regressor_gives_novelty_alone_and_says_so(model: Any, calibration: Any, rows: np.ndarray) -> None:
    X, y = simulated(200)
    settings_: dict[str, Any] = {"false_alarm_rate": 0.1, "calibration": calibration, "random_state": 0}
    with pytest.warns(UserWarning, match="no predictors that could disagree, so novelty alone decides"):
        plain = OODDetector(model, **settings_).fit(X, y)
    verdicts = plain.verdicts(rows)
    # Novelty does not depend on the regressor, nor on whether it was asked for.
    diverse = OODDetector(LINEAR, evidence="novelty", **settings_).fit(X, y)
    silent = OODDetector(model, evidence="novelty", **settings_).fit(X, y)
    for other in (diverse, silent):
        np.testing.assert_array_equal(verdicts["p_value"], other.p_values(rows))
    np.testing.assert_array_equal(verdicts["p_value"], verdicts["p_novelty"])
    for name in ("std_epistemic", "std_total", "ood_score", "p_disagreement"):
        assert np.isnan(verdicts[name]).all()
    predictions = [each.predict(rows) for each in plain.estimators_]
    np.testing.assert_allclose(verdicts["prediction"], np.mean(predictions, axis=0))
    assert all("far from every training row" in reason for reason in verdicts["reason"] if reason)
    assert {each.spoke for each in plain.explain(rows)} == {(), ("novelty",)}
    assert plain.evidence_ == "novelty"
    if calibration == "held-out":
        np.testing.assert_array_equal(plain.decision_function(rows) < 0, verdicts["is_ood"])


def test_disagreement_of_one_predictor_is_refused() -> None:
    with pytest.raises(ValueError, match=r"LinearRegression has no predictors that could disagree\. Use a Diverse"):
        OODDetector(LinearRegression(), evidence="disagreement").fit(*simulated(50))


def test_another_fit_forgets_what_was_told_of_the_one_before() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    detector = tiny_detector().fit(X, X[:, 0])
    detector.quality_, detector.target_name_ = {"auc": 0.9}, "cost"
    detector.fit(X, X[:, 1])
    assert not {"quality_", "target_name_"} & set(vars(detector))
