"""scikit-learn's contract: its own conformance checks, and the tools that people combine estimators with."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from mapie.conformity_scores import StdConformityScore
from mapie.regression import SplitConformalRegressor
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from offmap import DiverseRegressor, OODDetector
from offmap.inference.ensemble import Ensemble
from offmap.optimize import Training
from offmap.schedules import Cosine

QUICK = Ensemble(members=4, training=Training(learning_rate=0.02, batch_size=200, schedule=Cosine(steps=150)))
REGRESSOR = DiverseRegressor(QUICK, noise_std=0.1, hidden=(10,))
DETECTOR = OODDetector(REGRESSOR, false_alarm_rate=0.25)


@pytest.fixture(autouse=True, scope="module")
def quick_compilation() -> Iterator[None]:
    """Nearly every check has shapes of its own, so compiling is what takes the time here."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(loc=5.0, scale=3.0, size=(60, 3))
    return X, X[:, 0] - np.sin(X[:, 1])


def expected_failures(estimator: Any) -> dict[str, str]:
    if not isinstance(estimator, OODDetector):
        return {}
    reason = "calls fit without a target; the detector judges a regressor's predictions, which cannot be learned so"
    return {"check_outliers_train": reason, "check_outliers_fit_predict": reason}


@parametrize_with_checks([REGRESSOR, DETECTOR], expected_failed_checks=expected_failures)  # type: ignore[untyped-decorator]
def test_conformance(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_pipeline_with_a_scaler_changes_nothing(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    alone = clone(REGRESSOR).set_params(random_state=0).fit(X, y)
    scaled = make_pipeline(StandardScaler(), clone(alone)).fit(X, y)
    np.testing.assert_allclose(scaled.predict(X), alone.predict(X), atol=1e-3 * y.std())
    detector = clone(DETECTOR).set_params(estimator__random_state=0, random_state=0)
    piped = make_pipeline(StandardScaler(), detector).fit(X, y)
    np.testing.assert_allclose(piped.decision_function(X), detector.fit(X, y).decision_function(X), atol=0.05)


def test_cross_val_score_is_r2_of_each_left_out_fold(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    model = clone(REGRESSOR).set_params(random_state=0)
    by_hand = [
        r2_score(y[left_out], clone(model).fit(X[kept], y[kept]).predict(X[left_out]))
        for kept, left_out in KFold(3).split(X)
    ]
    np.testing.assert_allclose(cross_val_score(model, X, y, cv=KFold(3)), by_hand)


@pytest.mark.parametrize("estimator", [REGRESSOR, DETECTOR], ids=["regressor", "detector"])
def test_clone_has_the_settings_and_not_the_fit(estimator: Any, table: tuple[np.ndarray, np.ndarray]) -> None:
    fitted = clone(estimator).set_params(random_state=3).fit(*table)
    copy = clone(fitted)
    assert repr(copy) == repr(fitted)
    assert not [name for name in vars(copy) if name.endswith("_")]
    np.testing.assert_array_equal(copy.fit(*table).predict(table[0]), fitted.predict(table[0]))


def test_settings_reach_through_the_detector() -> None:
    detector = clone(DETECTOR).set_params(estimator__n_draws=7, false_alarm_rate=0.1)
    assert detector.estimator.n_draws == 7
    assert detector.get_params()["estimator__noise_std"] == 0.1


def test_fit_predict_is_fit_then_predict(table: tuple[np.ndarray, np.ndarray]) -> None:
    detector = clone(DETECTOR).set_params(random_state=0)
    np.testing.assert_array_equal(detector.fit_predict(*table), clone(detector).fit(*table).predict(table[0]))


def test_a_pipeline_that_encodes_a_frame_ends_in_either(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    frame = pd.DataFrame({"size": X[:, 0], "ward": np.where(X[:, 1] > 5, "north", "south"), "age": X[:, 2]})
    by_hand = np.column_stack([X[:, 1] > 5, X[:, 1] <= 5, X[:, 0], X[:, 2]]).astype(float)
    encoder = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
    for estimator in (REGRESSOR, DETECTOR):
        last = clone(estimator).set_params(random_state=0)
        piped = make_pipeline(encoder, last).fit(frame, y)
        np.testing.assert_array_equal(piped.predict(frame), clone(last).fit(by_hand, y).predict(by_hand))


def test_mapie_scales_its_intervals_by_the_regressors_std() -> None:
    """StdConformityScore divides residuals by the total std: the interval is mean +- quantile x std."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = X[:, 0] - np.sin(X[:, 1]) + 0.1 * np.random.default_rng(1).normal(size=300)
    model = clone(REGRESSOR).set_params(random_state=0).fit(X[:150], y[:150])
    conformal = SplitConformalRegressor(model, confidence_level=0.9, conformity_score=StdConformityScore(), prefit=True)
    centre, interval = conformal.conformalize(X[150:249], y[150:249]).predict_interval(X[249:])
    mean, std = model.predict(X[150:249], return_std=True)
    quantile = np.sort(np.abs(y[150:249] - mean) / std)[89]  # the ceil(0.9 x 100)-th of 99
    new_mean, new_std = model.predict(X[249:], return_std=True)
    np.testing.assert_allclose(centre, new_mean)
    np.testing.assert_allclose(interval[:, 0, 0], new_mean - quantile * new_std)
    np.testing.assert_allclose(interval[:, 1, 0], new_mean + quantile * new_std)
