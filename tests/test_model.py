"""The joint density of a model against scipy and, where the network is linear, against its closed-form gradient."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from offmap.arrays import Batch, Data
from offmap.inputs import GivenRows
from offmap.likelihood import gaussian_log_density
from offmap.model import Model
from offmap.network import Network
from offmap.prior import GaussianPrior, GaussianProcessPrior

X = jax.random.normal(jax.random.key(0), (20, 3))
DATA = Data(X=X, y=jax.random.normal(jax.random.key(1), (20,)))
MODEL = Model(
    network=Network(n_inputs=3, hidden=(8,)), prior=GaussianPrior(std=0.7), noise_std=0.3, inputs=GivenRows(rows=X)
)
LINEAR = dataclasses.replace(MODEL, network=Network(n_inputs=3, hidden=()))


def test_gaussian_log_density_is_scipys() -> None:
    y, mean = np.linspace(-5, 5, 11, dtype=np.float32), np.linspace(3, 2, 11, dtype=np.float32)
    expected = stats.norm(mean.astype(np.float64), 0.3).logpdf(y)
    np.testing.assert_allclose(gaussian_log_density(jnp.asarray(y), jnp.asarray(mean), 0.3), expected, rtol=1e-5)


def test_log_joint_is_scipys() -> None:
    theta = MODEL.network.initial(jax.random.key(2))
    predicted = np.asarray(MODEL.network.apply(theta, X)[:, 0], np.float64)
    likelihood = stats.norm(predicted, 0.3).logpdf(np.asarray(DATA.y, np.float64)).sum()
    prior = stats.norm(0, 0.7).logpdf(np.asarray(theta, np.float64)).sum()
    np.testing.assert_allclose(MODEL.log_joint(theta, DATA), likelihood + prior, rtol=1e-5)


def test_a_row_of_weight_three_counts_as_three_copies_of_it() -> None:
    theta = MODEL.network.initial(jax.random.key(2))
    weights = np.arange(20) % 4
    copies = np.repeat(np.arange(20), weights)
    weighted = Batch(X=X, y=DATA.y, weight=jnp.asarray(weights, jnp.float32))
    expected = MODEL.log_likelihood(theta, Data(X=X[copies], y=DATA.y[copies]))
    np.testing.assert_allclose(MODEL.log_likelihood(theta, weighted), expected, rtol=1e-5)


def test_gradient_of_a_linear_models_log_joint() -> None:
    """Phi^T (y - Phi theta) / noise^2 - theta / std^2, with Phi = (X, 1)."""
    theta = jax.random.normal(jax.random.key(3), (4,))
    features = np.column_stack([X, np.ones(20)]).astype(np.float64)
    residual = np.asarray(DATA.y, np.float64) - features @ np.asarray(theta, np.float64)
    expected = features.T @ residual / 0.3**2 - np.asarray(theta, np.float64) / 0.7**2
    np.testing.assert_allclose(jax.grad(LINEAR.log_joint)(theta, DATA), expected, rtol=1e-4)


def test_draws_are_predictions_one_by_one() -> None:
    thetas = MODEL.parameter_prior.sample(jax.random.key(4), 5, MODEL.network)
    one_by_one = np.stack([MODEL.predict(theta, X) for theta in thetas])
    np.testing.assert_allclose(MODEL.predict_draws(thetas, X), one_by_one, rtol=1e-5, atol=1e-6)
    same = MODEL.sample_prior_predictors(jax.random.key(4), 5, X)
    np.testing.assert_allclose(same, one_by_one, rtol=1e-5, atol=1e-6)


def test_other_numbers_do_not_recompile() -> None:
    traced = []

    @jax.jit
    def noise(model: Model) -> jax.Array:
        traced.append(model.network)
        return jnp.asarray(model.noise_std)

    other = dataclasses.replace(MODEL, noise_std=0.5, prior=GaussianPrior(std=1.0), inputs=GivenRows(rows=X + 1))
    np.testing.assert_allclose([noise(MODEL), noise(other)], [0.3, 0.5], rtol=1e-6)
    assert len(traced) == 1


def test_a_prior_on_predictors_has_no_density_of_theta() -> None:
    model = dataclasses.replace(MODEL, prior=GaussianProcessPrior())
    with pytest.raises(ValueError, match=r"GaussianProcessPrior is a prior on predictors.*funn-hyvi"):
        model.log_joint(jnp.zeros(41), DATA)
