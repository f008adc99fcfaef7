"""DiverseRegressor: its answers agree with its draws, and do not depend on units."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import clone

from offmap import METHODS, DiverseRegressor, optimize, predictive
from offmap.inference import Method
from offmap.inference.ensemble import Ensemble
from offmap.inference.variational import MeanFieldStart, Variational
from offmap.optimize import Training
from offmap.schedules import Cosine
from tests.linear import LINEAR, NOISE_STD, simulated

SHORT = Training(learning_rate=0.02, batch_size=100, schedule=Cosine(steps=100))
QUICK: dict[str, Method] = {
    "ensemble": Ensemble(members=5, training=SHORT),
    "mfvi": Variational(family=MeanFieldStart(), space="parameter", training=SHORT, n_likelihood_draws=10),
}
assert_close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)  # what float32 keeps


@dataclass(frozen=True)
class Table:
    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray


@pytest.fixture(scope="module")
def table() -> Table:
    (X, y), (X_new, y_new) = simulated(60), simulated(25, seed=1)
    return Table(X=X, y=y, X_new=2 * X_new, y_new=y_new)


@pytest.fixture(scope="module", params=QUICK)
def model(request: pytest.FixtureRequest, table: Table) -> DiverseRegressor:
    return quick(request.param).fit(table.X, table.y)


def quick(method: str = "ensemble", **settings: Any) -> DiverseRegressor:
    model = DiverseRegressor(QUICK[method], noise_std=NOISE_STD, hidden=(10,), n_draws=50, random_state=0)
    return model.set_params(**settings)


# --- the regressor's answers ---


def test_every_answer_agrees_with_the_draws(model: DiverseRegressor, table: Table) -> None:
    draws = model.predict_draws(table.X_new)
    assert draws.shape == (5 if model.method_ == QUICK["ensemble"] else 50, len(table.X_new))
    mean, variance = draws.mean(axis=0), draws.var(axis=0, ddof=1)
    prediction, std = model.predict(table.X_new, return_std=True)
    assert_close(prediction, mean)
    np.testing.assert_array_equal(prediction, model.predict(table.X_new))
    assert_close(std, np.sqrt(variance + NOISE_STD**2))
    assert_close(model.epistemic_std(table.X_new), np.sqrt(variance))
    assert_close(model.uncertainty(table.X_new), norm.entropy(0, np.sqrt(variance)))


def test_log_predictive_density_is_that_of_the_draws(model: DiverseRegressor, table: Table) -> None:
    draws = model.predict_draws(table.X_new)
    if model.method_.density == "mixture":
        expected = logsumexp(norm.logpdf(table.y_new, draws, NOISE_STD), axis=0) - math.log(len(draws))
    else:
        total_std = np.sqrt(draws.var(axis=0, ddof=1) + NOISE_STD**2)
        expected = norm.logpdf(table.y_new, draws.mean(axis=0), total_std)
    assert_close(model.log_predictive_density(table.X_new, table.y_new), expected)


def test_which_methods_are_a_mixture_and_which_one_gaussian() -> None:
    gaussian = {name for name, method in METHODS.items() if method.density == "gaussian"}
    assert gaussian == {"ensemble", "mc-dropout"}


def test_the_regressor_learns(table: Table) -> None:
    # The noise alone leaves 1 - 0.3^2 / var(y) of the variance to explain.
    attainable = 1 - NOISE_STD**2 / table.y.var()
    assert quick().fit(table.X, table.y).score(table.X, table.y) > 0.9 * attainable


def test_units_of_the_target_do_not_matter(model: DiverseRegressor, table: Table) -> None:
    # A power of two changes no digit, so nothing may change but the unit.
    scale = 8.0
    other = clone(model).set_params(noise_std=scale * NOISE_STD).fit(table.X, scale * table.y)
    np.testing.assert_array_equal(other.predict_draws(table.X_new), scale * model.predict_draws(table.X_new))
    np.testing.assert_array_equal(other.predict(table.X_new), scale * model.predict(table.X_new))
    assert other.noise_std_ == pytest.approx(scale * NOISE_STD)
    shift = math.log(scale)
    np.testing.assert_allclose(other.uncertainty(table.X_new), model.uncertainty(table.X_new) + shift, atol=1e-12)
    density = other.log_predictive_density(table.X_new, scale * table.y_new)
    assert_close(density, model.log_predictive_density(table.X_new, table.y_new) - shift)


@pytest.mark.parametrize(
    ("column_scale", "column_shift", "scale", "shift"),
    [
        pytest.param((3.0, 1e-3, 700.0), (1.0, -2.0, 40.0), 5.0, -3.0, id="other units"),
        pytest.param((1.0, 1.0, 1.0), (1e9, 1e9, 1e9), 1.0, 1e9, id="large offsets"),
    ],
)
def test_affine_maps_of_columns_and_target_carry_over(
    table: Table, column_scale: tuple[float, ...], column_shift: tuple[float, ...], scale: float, shift: float
) -> None:
    model = quick().fit(table.X, table.y)
    other = quick(noise_std=scale * NOISE_STD).fit(table.X * column_scale + column_shift, scale * table.y + shift)
    X_other = table.X_new * column_scale + column_shift
    # Beside 1e9 a float64 keeps 7 digits after the point; training in float32 then loses two more.
    np.testing.assert_allclose((other.predict(X_other) - shift) / scale, model.predict(table.X_new), atol=1e-4)
    expected = model.uncertainty(table.X_new) + math.log(scale)
    np.testing.assert_allclose(other.uncertainty(X_other), expected, atol=1e-2)


def test_automatic_noise_is_in_target_units(table: Table) -> None:
    model = quick(noise_std="auto").fit(table.X, table.y)
    other = quick(noise_std="auto").fit(table.X, 8 * table.y)
    assert other.noise_std_ == 8 * model.noise_std_
    # About 60 residuals of a model that is still learning: at least the noise, and less than the target's spread.
    assert NOISE_STD * (1 - 4 / math.sqrt(2 * 60)) < model.noise_std_ < table.y.std()


def test_noise_takes_part_in_learning(table: Table) -> None:
    precise, vague = (quick("mfvi", noise_std=std).fit(table.X, table.y) for std in (0.1, 10.0))
    error_precise, error_vague = (np.mean((model.predict(table.X) - table.y) ** 2) for model in (precise, vague))
    assert error_precise < error_vague


def test_the_seed_decides_all(model: DiverseRegressor, table: Table) -> None:
    draws = model.predict_draws(table.X_new)
    np.testing.assert_array_equal(clone(model).fit(table.X, table.y).predict_draws(table.X_new), draws)
    other = clone(model).set_params(random_state=1).fit(table.X, table.y).predict_draws(table.X_new)
    assert not np.isclose(other, draws).any()


def test_same_shapes_are_not_compiled_again(model: DiverseRegressor, table: Table) -> None:
    compiled: Any = optimize._run
    programs = compiled._cache_size()
    clone(model).set_params(noise_std=0.7, random_state=5).fit(3 * table.X + 1, table.y**2)
    assert compiled._cache_size() == programs > 0


def test_value_of_a_constant_column_does_not_matter(table: Table) -> None:
    answers = []
    for value in (0.0, 0.1, 1e9):
        X, X_new = (np.column_stack([rows, np.full(len(rows), value)]) for rows in (table.X, table.X_new))
        answers.append(quick().fit(X, table.y).predict_draws(X_new))
    np.testing.assert_array_equal(answers[1], answers[0])
    np.testing.assert_array_equal(answers[2], answers[0])


def test_a_row_is_answered_alike_whatever_the_chunk(
    model: DiverseRegressor, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.tile(table.X_new, (30, 1))  # more rows than one chunk holds
    mean, std = model.predict(X, return_std=True)
    for repeat in np.split(mean, 30):
        np.testing.assert_array_equal(repeat, model.predict(table.X_new))
    np.testing.assert_array_equal(model.predict(table.X_new[3:4]), model.predict(table.X_new)[3:4])
    monkeypatch.setattr(predictive, "FLOATS_AT_ONCE", 1)
    assert_close(model.predict(X[:40]), mean[:40])
    assert_close(model.predict(X[:40], return_std=True)[1], std[:40])


@pytest.mark.parametrize(("n_rows", "units"), [(1500, 50), (1501, 100)])
def test_large_tables_have_a_wider_network_unless_told_otherwise(n_rows: int, units: int) -> None:
    X, y = simulated(n_rows)
    assert quick(hidden=None).fit(X, y).network_.hidden == (units,)
    assert quick(hidden=(7, 3)).fit(X, y).network_.hidden == (7, 3)


def test_number_of_draws(table: Table) -> None:
    ensemble, mfvi = (quick(name).fit(table.X, table.y) for name in QUICK)
    assert mfvi.predict_draws(table.X_new, n_draws=7).shape == (7, len(table.X_new))
    assert mfvi.set_params(n_draws=9).predict_draws(table.X_new).shape == (9, len(table.X_new))
    members, some = ensemble.predict_draws(table.X_new), ensemble.predict_draws(table.X_new, n_draws=3)
    assert [int(np.isclose(members, draw, atol=1e-5).all(axis=1).sum()) for draw in some] == [1, 1, 1]


def test_where_predictors_are_told_to_differ(table: Table) -> None:
    def sampled(where: Any) -> np.ndarray:
        model = clone(LINEAR).set_params(ood_inputs=where).fit(table.X, table.y)
        standardised = np.asarray(model.inputs_.sample(jax.random.key(0), 2000))
        return model.x_scale_.restore(standardised)

    low, high, rounding = table.X.min(axis=0), table.X.max(axis=0), 1e-6
    box, permuted, given = sampled("box"), sampled("permuted"), sampled(table.X_new)
    assert ((low - rounding < box) & (box < high + rounding)).all()
    assert (np.ptp(box, axis=0) > 0.99 * (high - low)).all()
    wide, middle = sampled(2.0), (low + high) / 2
    assert (np.abs(wide - middle) < (high - low) + rounding).all()
    assert (np.ptp(wide, axis=0) > 1.99 * (high - low)).all()
    for column in range(3):
        assert np.abs(permuted[:, None, column] - table.X[None, :, column]).min(axis=1).max() < rounding
    distances = np.abs(given[:, None] - table.X_new[None]).max(axis=-1)
    assert distances.min(axis=1).max() < rounding  # nothing but the given rows
    assert distances.min(axis=0).max() < rounding  # and all of them
