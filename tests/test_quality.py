"""How good a detector is said to be, against other ways to count it."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from offmap.encoding import box_rows
from offmap.ood import conformal_p_values
from offmap.quality import (
    FLAT,
    Quality,
    chance_spread,
    describe_quality,
    doubts,
    measured_false_alarms,
    quality_of,
    simple_predictions,
)
from tests.small_models import tiny_detector

GOOD = Quality(
    rows=400,
    rmse=1.0,
    rmse_of_mean=5.0,
    rmse_of_ridge=2.0,
    auc=0.98,
    spread=9.0,
    chance_spread=1.1,
    promised=0.05,
    measured=0.05,
)


def held_out(
    scores: np.ndarray, novelty: np.ndarray | None = None, rows: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    rows = np.arange(len(scores)) if rows is None else rows
    return {"row": rows, "ood_score": scores, "novelty": np.zeros(len(scores)) if novelty is None else novelty}


def test_ridge_on_a_plane_is_least_squares_and_the_mean_is_that_of_the_other_rows() -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 3)) * [1.0, 10.0, 0.1]
    y = X @ [3.0, 0.5, -20.0] + 7
    held = np.array([50, 3, 20])
    mean, ridge = simple_predictions(X, y, held)
    others = np.delete(np.arange(60), held)
    np.testing.assert_allclose(mean, np.full(3, y[others].mean()))
    np.testing.assert_allclose(ridge, LinearRegression().fit(X[others], y[others]).predict(X[held]), atol=1e-2)


def test_where_all_rows_are_held_back_none_is_predicted_from_itself() -> None:
    X, y = np.arange(20.0)[:, None], np.zeros(20)
    y[7] = 1e6
    order = np.random.default_rng(0).permutation(20)
    mean, _ = simple_predictions(X, y, order)
    fold_mates = mean < 1  # they were left out together with row 7
    assert fold_mates[order == 7].all()
    assert fold_mates.sum() == 4
    np.testing.assert_allclose(mean[~fold_mates], 1e6 / 16)


def test_ordinary_rows_in_the_box_are_told_from_held_out_ones_as_by_a_coin() -> None:
    """Where the rows fill the box, rows of it are ordinary: AUC 0.5, though the folds' levels differ."""
    X = np.random.default_rng(0).uniform(size=(300, 2))
    detector = tiny_detector(calibration="cross-fit").fit(X, X[:, 0])
    level = np.array([10.0, 0.0, -10.0, 5.0, 3.0])
    detector.held_out_["ood_score"] = X[detector.held_out_["row"], 0] + level[detector.held_out_["fold"]]
    box = box_rows(detector.columns_)
    for fold, regressor in enumerate(detector.estimators_):
        regressor.uncertainty = lambda rows, fold=fold: rows[:, 0] + level[fold]
    quality = quality_of(detector, X, X[:, 0])
    assert quality.auc == pytest.approx(0.5, abs=0.03)
    pooled = np.concatenate([detector.held_out_["ood_score"], *(box[:, 0] + shift for shift in level)])
    assert np.log(quality.spread) == pytest.approx(np.subtract(*np.quantile(pooled, [0.95, 0.05])))


@pytest.mark.parametrize("kind", ["disagreement", "novelty"])
def test_measured_false_alarms_are_conformal_p_values_of_each_fifth_against_the_rest(kind: str) -> None:
    scores, other = np.random.default_rng(1).standard_normal((2, 103))
    order = np.random.default_rng(2).permutation(103)
    flagged = 0
    for part in np.array_split(np.argsort(order), 5):
        rest = np.setdiff1d(np.arange(103), part)
        flagged += int(np.sum(conformal_p_values(scores[part], scores[rest]) <= 0.1))
    rows = held_out(scores, other, order) if kind == "disagreement" else held_out(other, scores, order)
    assert measured_false_alarms(rows, kind, 0.1) == flagged / 103


def test_exchangeable_rows_keep_the_promise_and_drifting_ones_do_not() -> None:
    """By simulation: the share that is measured, within 4 standard errors of the promise, and far above it."""
    random = np.random.default_rng(3)
    shares = [measured_false_alarms(held_out(*random.standard_normal((2, 200))), "both", 0.05) for _ in range(50)]
    assert np.mean(shares) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / (50 * 200))
    assert np.mean(shares) > 0.03
    drift = np.linspace(0, 6, 400) + random.standard_normal(400)
    measured = measured_false_alarms(held_out(drift, drift), "disagreement", 0.05)
    assert measured > 0.1
    assert any("drift" in line for line in doubts(GOOD._replace(measured=measured)))


def test_the_spread_by_chance_is_that_of_simulated_draws() -> None:
    stds = np.random.default_rng(4).standard_normal((20_000, 10)).std(axis=1, ddof=1)
    low, high = np.quantile(stds, [0.05, 0.95])
    assert abs(np.log(chance_spread(10) / (high / low))) < 0.02


def test_nothing_is_doubted_about_a_good_model() -> None:
    assert doubts(GOOD) == []
    assert doubts(GOOD._replace(measured=0.05 + 2 * GOOD.standard_error)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rmse": 5.0}, "no better than the mean"),
        ({"rmse": 2.0}, "no better than a ridge regression"),
        ({"spread": FLAT * 1.1 - 0.01}, "nearly constant"),
        ({"measured": 0.05 + 3.1 * GOOD.standard_error}, "more false alarms than promised"),
    ],
)
def test_each_doubt_is_said_alone(change: dict[str, float], said: str) -> None:
    (line,) = doubts(GOOD._replace(**change))  # type: ignore[arg-type]
    assert said in line


def test_the_figures_are_in_the_lines() -> None:
    lines = describe_quality(GOOD._replace(rmse=1.2345, auc=0.9876, measured=0.0432))
    assert "on 400 rows held back: 1.234; ridge regression: 2; always the mean: 5" in lines[0]
    assert lines[1].endswith("0.988")
    assert "5% promised, 4.3% measured" in lines[2]
    assert "+- 1.1%" in lines[2]  # sqrt(0.05 * 0.95 / 400)
