"""Odd and wrong input: the right answer, or one error that says what, where and what to do."""

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from offmap import METHODS, DiverseRegressor, GaussianProcessPrior, OODDetector
from offmap.inference.ensemble import Ensemble
from offmap.network import Network
from offmap.optimize import Training
from offmap.schedules import Cosine

QUICK = Ensemble(members=4, training=Training(learning_rate=0.03, batch_size=100, schedule=Cosine(steps=200)))
N_ROWS = 40
X = np.random.default_rng(0).normal(size=(N_ROWS, 2))
Y = X[:, 0] - X[:, 1]
FRAME = pd.DataFrame(X, columns=["age", "dose"])

Frame = Callable[[dict[str, Any]], Any]


def regressor(**settings: Any) -> DiverseRegressor:
    return DiverseRegressor(QUICK, noise_std=0.1, hidden=(8,), random_state=0).set_params(**settings)


@contextlib.contextmanager
def refused(*words: str) -> Iterator[None]:
    """One ValueError whose message holds all of these words."""
    with pytest.raises(ValueError, match=re.escape(words[0])) as error:
        yield
    assert [word for word in words if word not in str(error.value)] == []


def with_value(values: np.ndarray, where: tuple[int, ...], value: float) -> np.ndarray:
    changed = values.copy()
    changed[where] = value
    return changed


@pytest.fixture(scope="module")
def fitted() -> DiverseRegressor:
    return regressor().fit(X, Y)


@pytest.fixture(scope="module")
def fitted_on_frame() -> DiverseRegressor:
    return regressor().fit(FRAME, Y)


# --- odd, but right ---


def test_one_column() -> None:
    model = regressor().fit(X[:, :1], 3 * X[:, 0])
    assert model.score(X[:, :1], 3 * X[:, 0]) > 0.95


def test_constant_columns_do_no_harm() -> None:
    table = np.column_stack([X, np.zeros(N_ROWS), np.full(N_ROWS, 0.1)])
    assert regressor().fit(table, Y).score(table, Y) > 0.95


def test_nothing_but_constant_columns_predicts_the_mean() -> None:
    table = np.full((N_ROWS, 2), 7.0)
    prediction = regressor().fit(table, Y).predict(table)
    np.testing.assert_allclose(prediction, Y.mean(), atol=0.1 * Y.std())


@pytest.mark.parametrize("value", [0.0, -12.5, 1e9])
def test_constant_target_is_predicted(value: float) -> None:
    mean, std = regressor().fit(X, np.full(N_ROWS, value)).predict(X, return_std=True)
    np.testing.assert_allclose(mean, value, atol=0.2)  # of a scale that has to be made up: 1
    assert (std >= 0.1).all()


def test_duplicated_rows() -> None:
    twice = np.repeat(np.arange(N_ROWS // 2), 2)
    model = regressor().fit(X[twice], Y[twice])
    assert model.score(X[twice], Y[twice]) > 0.95
    np.testing.assert_array_equal(model.predict(X[[3, 3]]), model.predict(X[[3]]).repeat(2))


def test_two_rows() -> None:
    assert regressor().fit(X[:2], Y[:2]).predict(X[:2]) == pytest.approx(Y[:2], abs=0.3)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float32, object])
def test_the_type_of_the_numbers_does_not_matter(dtype: type) -> None:
    table, target = np.round(10 * X), np.round(10 * Y)
    expected = regressor().fit(table, target).predict(table)
    model = regressor().fit(table.astype(dtype), target.astype(dtype))
    np.testing.assert_array_equal(model.predict(table.astype(dtype)), expected)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_give_the_numbers_of_arrays_and_keep_names(frame: Frame, fitted: DiverseRegressor) -> None:
    table = frame({"age": X[:, 0], "dose": X[:, 1]})
    model = regressor().fit(table, table["age"] - table["dose"])
    assert list(model.feature_names_in_) == ["age", "dose"]
    np.testing.assert_array_equal(model.predict(table), fitted.predict(X))
    detector = OODDetector(regressor(), false_alarm_rate=0.1, random_state=0).fit(table, Y)
    assert list(detector.feature_names_in_) == ["age", "dose"]
    on_arrays = OODDetector(regressor(), false_alarm_rate=0.1, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(detector.p_values(table), on_arrays.p_values(X))


def test_numbers_beyond_float32_get_an_answer(fitted: DiverseRegressor) -> None:
    assert np.isfinite(fitted.predict([[1e300, 0.0]])).all()
    assert fitted.uncertainty([[1e300, 0.0]]) > fitted.uncertainty([[1e3, 0.0]])


# --- wrong tables ---

GAPS = "Drop these rows, or fill the gaps."
TEXT = "Encode or drop such columns first."
NOT_PER_ROW = "Pass one target per row."


@pytest.mark.parametrize(
    ("table", "target", "words"),
    [
        (with_value(X, (3, 1), math.nan), Y, ["X has missing values (NaN) in column 1: 1 row", "row 3", GAPS]),
        (with_value(X, (3, 1), math.inf), Y, ["X has infinite values (inf) in column 1: 1 row", "row 3", GAPS]),
        (X, with_value(Y, (5,), math.nan), ["y has missing values (NaN): 1 row", "row 5", GAPS]),
        (X, with_value(Y, (5,), -math.inf), ["y has infinite values (inf): 1 row", "row 5", GAPS]),
        (X, pd.Series([None, *Y[1:]], dtype="Float64"), ["y has missing values (NaN): 1 row", "row 0", GAPS]),
        (X[:1], Y[:1], ["1 sample", "minimum of 2 is required"]),
        (np.array([[1.0, "red"]] * N_ROWS, dtype=object), Y, ["convert X to numbers", "in column 1", TEXT]),
        (pl.DataFrame(X).lazy(), Y, ["X is a lazy frame", "X.collect()"]),
        (X[:, 0], Y, ["Expected 2D array, got 1D array", "array.reshape(-1, 1)"]),
        (X, np.column_stack([Y, Y]), ["y has shape (40, 2), but X has 40 rows", NOT_PER_ROW]),
        (X, Y[:-1], ["y has shape (39,), but X has 40 rows", NOT_PER_ROW]),
        (X, ["low", "high"] * (N_ROWS // 2), ["could not convert y to numbers", "Pass one number per row of X"]),
        (X, None, ["requires y to be passed"]),
    ],
)
@pytest.mark.parametrize("estimator", [regressor(), OODDetector(regressor())], ids=["regressor", "detector"])
def test_wrong_training_rows(estimator: Any, table: Any, target: Any, words: list[str]) -> None:
    if isinstance(estimator, OODDetector):
        words = [word.replace("minimum of 2", "minimum of 3") for word in words]
    with refused(*words):
        estimator.fit(table, target)
    assert not [name for name in vars(estimator) if name.endswith("_")]


# The detector learns from such frames; the regressor is for numbers.
@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pd.DataFrame(with_value(X, (3, 1), math.nan), columns=["age", "dose"]), ["column 'dose'", "row 3", GAPS]),
        (pl.DataFrame({"age": X[:, 0], "dose": [None] * N_ROWS}), ["column 'dose': 40 rows", "row 0", GAPS]),
        (FRAME.assign(color="red", day=pd.Timestamp("2020-01-01")), ["text or dates in columns 'color', 'day'", TEXT]),
        (pl.DataFrame({"age": X[:, 0], "color": ["red"] * N_ROWS}), ["text or dates in column 'color'", TEXT]),
    ],
)
def test_frames_that_are_not_numbers_are_not_for_the_regressor(table: Any, words: list[str]) -> None:
    model = regressor()
    with refused(*words):
        model.fit(table, Y)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (X[:, :1], ["X has 1 features", "expecting 2 features", "Pass the columns of the fit, in the same order"]),
        (with_value(X, (0, 0), math.nan), ["X has missing values (NaN) in column 0: 1 row", GAPS]),
        (X[0], ["Expected 2D array, got 1D array", "array.reshape(1, -1)"]),
        (X[:0], ["0 sample(s)", "minimum of 1 is required"]),
    ],
)
def test_wrong_new_rows(fitted: DiverseRegressor, rows: np.ndarray, words: list[str]) -> None:
    with refused(*words):
        fitted.predict(rows)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["dose", "age"], ["should match those that were passed during fit", "must be in the same order"]),
        (["age"], ["seen at fit time, yet now missing", "dose"]),
        (["age", "dose", "age2"], ["unseen at fit time", "age2"]),
    ],
)
def test_other_columns_than_those_of_the_fit(
    fitted_on_frame: DiverseRegressor, columns: list[str], words: list[str]
) -> None:
    with refused(*words):
        fitted_on_frame.predict(FRAME.assign(age2=1.0)[columns])


def test_number_of_columns_comes_with_their_names(fitted_on_frame: DiverseRegressor) -> None:
    with refused("X has 3 features", "expecting 2 features as input: 'age', 'dose'. Pass the columns of the fit"):
        fitted_on_frame.predict(np.ones((5, 3)))


def test_wrong_targets_to_judge(fitted: DiverseRegressor) -> None:
    with refused("y has shape (39,), but X has 40 rows", NOT_PER_ROW):
        fitted.log_predictive_density(X, Y[:-1])
    with refused("y has missing values (NaN): 1 row, the first is row 7", GAPS):
        fitted.log_predictive_density(X, with_value(Y, (7,), math.nan))


@pytest.mark.parametrize(
    "ask",
    [
        lambda: regressor().predict(X),
        lambda: regressor().predict(X, return_std=True),
        lambda: regressor().predict_draws(X),
        lambda: regressor().epistemic_std(X),
        lambda: regressor().uncertainty(X),
        lambda: regressor().log_predictive_density(X, Y),
        lambda: OODDetector().predict(X),
        lambda: OODDetector().p_values(X),
        lambda: OODDetector().verdicts(X),
    ],
)
def test_asked_before_fit(ask: Callable[[], object]) -> None:
    with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'"):
        ask()


# --- wrong settings ---


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "bagging"}, ["method is 'bagging', but it must be one of", *METHODS]),
        ({"method": None}, ["method is None, but it must be one of", *METHODS]),
        ({"noise_std": 0}, ["noise_std is 0, but it must be 'auto' or a positive number"]),
        ({"noise_std": -0.5}, ["noise_std is -0.5, but it must be 'auto' or a positive number"]),
        ({"noise_std": math.nan}, ["noise_std is nan, but it must be 'auto' or a positive number"]),
        ({"noise_std": "low"}, ["noise_std is 'low', but it must be 'auto' or a positive number"]),
        ({"noise_std": None}, ["noise_std is None, but it must be 'auto' or a positive number"]),
        ({"hidden": (50, 0)}, ["hidden is (50, 0), but every hidden layer needs at least one unit"]),
        ({"hidden": 50}, ["hidden is 50, but it must list the widths of the layers, such as (50,)"]),
        ({"activation": "selu"}, ["activation is 'selu', but it must be one of: auto, relu, gelu, tanh"]),
        ({"prior": "gp"}, ["prior is 'gp', but it must be None, a GaussianPrior or a GaussianProcessPrior"]),
        ({"ood_inputs": "ball"}, ["ood_inputs is 'ball', but it must be one of: box, permuted"]),
        ({"ood_inputs": -1.0}, ["ood_inputs is -1", "widened by a positive number"]),
        ({"ood_inputs": np.ones((5, 3))}, ["ood_inputs has shape (5, 3)", "must be rows with the 2 columns of X"]),
        ({"ood_inputs": with_value(X, (2, 0), math.nan)}, ["ood_inputs has missing values (NaN) in column 0", GAPS]),
        ({"ood_inputs": FRAME.assign(dose="high")}, ["convert ood_inputs to numbers", "column 'dose'", TEXT]),
        ({"n_draws": 1}, ["n_draws is 1, but disagreement needs a whole number of at least 2"]),
        ({"n_draws": 2.5}, ["n_draws is 2.5, but disagreement needs a whole number of at least 2"]),
    ],
    ids=str,
)
def test_wrong_settings(settings: dict[str, Any], words: list[str]) -> None:
    model = regressor(**settings)
    with refused(*words):
        model.fit(X, Y)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("method", ["hmc", "mfvi", "nn-hyvi"])
def test_prior_on_predictors_with_a_method_in_parameter_space(method: str) -> None:
    model = regressor(method=method, prior=GaussianProcessPrior())
    with refused("this method needs one on parameters. Use method 'funn-hyvi' or 'funn-mfvi'"):
        model.fit(X, Y)


def test_more_draws_than_members(fitted: DiverseRegressor) -> None:
    with refused("5 draws were asked for, but this posterior has 4 members", "Ask for at most 4"):
        fitted.predict_draws(X, n_draws=5)
    with refused("n_draws is 0, but it must be at least 1"):
        fitted.predict_draws(X, n_draws=0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"false_alarm_rate": 0}, "false_alarm_rate is 0, but it must lie between 0 and 1"),
        ({"false_alarm_rate": 1.0}, "false_alarm_rate is 1.0, but it must lie between 0 and 1"),
        ({"false_alarm_rate": 5}, "false_alarm_rate is 5, but it must lie between 0 and 1"),
        ({"false_alarm_rate": "5%"}, "false_alarm_rate is '5%', but it must lie between 0 and 1"),
        ({"calibration": "none"}, "calibration is 'none', but it must be auto, held-out or cross-fit"),
        ({"estimator": "hmc"}, "estimator is 'hmc', but it must be a DiverseRegressor"),
        ({"estimator__method": Ensemble(members=1, training=QUICK.training)}, "Use a method with at least 2 members"),
    ],
    ids=str,
)
def test_wrong_detector_settings(settings: dict[str, Any], words: str) -> None:
    with refused(words):
        OODDetector(regressor()).set_params(**settings).fit(X, Y)


def test_too_few_rows_for_the_rate_is_said_and_flags_nothing() -> None:
    with pytest.warns(
        UserWarning, match=r"Nothing can be flagged: 40 calibration rows .* 0\.01\. It takes at least 99"
    ):
        detector = OODDetector(regressor(), false_alarm_rate=0.01, random_state=0).fit(X, Y)
    assert (detector.predict(100 * X) == 1).all()
    assert (detector.p_values(100 * X) > 0.01).all()


class Greedy:
    """A method that asks XLA for more memory than there is."""

    networks_at_once = 1

    def fit(self, *_: object) -> None:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 65616400164 bytes.")


def test_a_network_that_does_not_fit_into_memory_is_told_in_words() -> None:
    X = np.ones((20, 2)) * np.arange(20)[:, None]
    with pytest.raises(MemoryError, match=r"2 columns.*400,100,001 parameters.*65616400164 bytes.*Use fewer hidden"):
        DiverseRegressor(Greedy(), hidden=(20_000, 20_000), noise_std=0.3).fit(X, X[:, 0])  # type: ignore[arg-type]


def test_a_fit_that_would_end_the_process_is_refused_at_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offmap.regressor.free_bytes", lambda: 3 * 2**30)
    network = Network(n_inputs=2, hidden=(1000, 1000))
    assert network.n_parameters == 1_005_001
    with pytest.raises(MemoryError, match=r"about 5 GB are needed, and 3 GB are free.*'ensemble', which holds ten"):
        regressor(method="funn-hyvi", hidden=(1000, 1000)).fit(X, Y)
    monkeypatch.setattr("offmap.regressor.free_bytes", lambda: None)  # a system that does not say
    regressor().fit(X, Y)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_how_much_it_holds(name: str) -> None:
    assert METHODS[name].networks_at_once >= 6
