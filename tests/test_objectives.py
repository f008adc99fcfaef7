"""The terms of the evidence lower bound against loops, closed forms and the estimators they are made of."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from offmap.arrays import Batch
from offmap.divergences import kl_knn
from offmap.families import Hypernet, MeanField
from offmap.inputs import UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.objectives import FLOOR, Comparison, expected_log_likelihood, parameter_divergence, predictor_divergence
from offmap.prior import GaussianPrior, GaussianProcessPrior, Prior

X_KEY, Y_KEY, Q_KEY, KEY = jax.random.split(jax.random.key(0), 4)
BATCH = Batch(
    X=jax.random.normal(X_KEY, (6, 2)), y=jax.random.normal(Y_KEY, (6,)), weight=jnp.array([1.0, 1, 1, 1, 0, 0])
)
BOX = UniformBox(low=jnp.full(2, -2.0), high=jnp.full(2, 2.0))
MODEL = Model(network=Network(n_inputs=2, hidden=(4,)), prior=GaussianPrior(), noise_std=0.5, inputs=BOX)
LINEAR = dataclasses.replace(MODEL, network=Network(n_inputs=2, hidden=()))
HYPERNET = Hypernet.initial(Q_KEY, MODEL.network, latent=2)


def test_expected_log_likelihood_is_a_loop_over_draws_and_rows_without_padding() -> None:
    thetas = HYPERNET.sample(KEY, 5)
    total = 0.0
    for theta in thetas:
        predicted = np.asarray(MODEL.network.apply(theta, BATCH.X)[:, 0], np.float64)
        total += np.sum(stats.norm(predicted, 0.5).logpdf(np.asarray(BATCH.y, np.float64))[:4]) / 5
    np.testing.assert_allclose(expected_log_likelihood(MODEL, thetas, BATCH), total, rtol=1e-5)


def test_expected_log_likelihood_of_gaussian_weights_has_a_closed_form() -> None:
    """f(x) ~ N(mean, var) makes E ln N(y; f, s^2) = ln N(y; mean, s^2) - var / (2 s^2)."""
    q = MeanField(mean=jnp.array([0.5, -1.0, 0.2]), rho=jnp.array([-1.0, 0.0, -2.0]))
    features = np.column_stack([BATCH.X, np.ones(6)]).astype(np.float64)[:4]
    mean, variance = features @ np.asarray(q.mean), features**2 @ np.asarray(q.std, np.float64) ** 2
    closed = np.sum(stats.norm(mean, 0.5).logpdf(np.asarray(BATCH.y[:4])) - variance / (2 * 0.25))
    thetas = q.sample(KEY, 4000)
    each = np.asarray(
        jax.vmap(lambda theta: expected_log_likelihood(LINEAR, theta[None, :], BATCH))(thetas), np.float64
    )
    assert abs(each.mean() - closed) / (each.std(ddof=1) / np.sqrt(4000)) < 4


def test_divergence_of_mean_field_is_the_mean_log_ratio() -> None:
    q = MeanField(mean=jnp.array([0.5, -1.0, 0.2]), rho=jnp.array([-1.0, 0.0, -2.0]))
    draws = np.asarray(q.sample(KEY, 20_000), np.float64)
    log_ratio = np.sum(stats.norm(q.mean, q.std).logpdf(draws) - stats.norm(0, np.sqrt(0.5)).logpdf(draws), axis=1)
    divergence = float(parameter_divergence(KEY, LINEAR, q, n_draws=2))
    assert abs(log_ratio.mean() - divergence) / (log_ratio.std(ddof=1) / np.sqrt(20_000)) < 4


def test_divergence_of_a_hypernet_is_equation_3_at_fresh_draws() -> None:
    q_key, prior_key = jax.random.split(KEY)
    expected = kl_knn(HYPERNET.sample(q_key, 20), GaussianPrior().sample(prior_key, 20, MODEL.network), k=2)
    np.testing.assert_allclose(parameter_divergence(KEY, MODEL, HYPERNET, 20, k=2), expected, rtol=1e-5)


def test_a_prior_on_predictors_has_no_divergence_of_parameters() -> None:
    with pytest.raises(ValueError, match="prior on predictors"):
        parameter_divergence(KEY, dataclasses.replace(MODEL, prior=GaussianProcessPrior()), HYPERNET, 5)


@pytest.mark.parametrize(("prior", "equal_inputs"), [(GaussianPrior(), True), (GaussianProcessPrior(), False)])
def test_divergence_of_predictors_is_equation_5_at_one_set_of_inputs(prior: Prior, equal_inputs: bool) -> None:
    """The spread that equalises inputs is a constant to the gradient: a wider q must not hide behind it."""
    model = dataclasses.replace(MODEL, prior=prior)
    q_key, prior_key, input_key = jax.random.split(KEY, 3)
    X = BOX.sample(input_key, 7)
    spread = np.ones((1, 7), np.float32)
    if equal_inputs:
        spread = 1e-4 + np.std(model.predict_draws(HYPERNET.sample(q_key, 20), X), axis=0, keepdims=True)

    def equation_5(q: Hypernet) -> jax.Array:
        values, prior_values = (
            model.predict_draws(q.sample(q_key, 20), X),
            prior.sample_predictors(prior_key, 20, model.network, X),
        )
        return kl_knn(values / spread, prior_values / spread, k=2)

    def divergence(q: Hypernet) -> jax.Array:
        return predictor_divergence(KEY, model, q, 20, Comparison(n_inputs=7, equal_inputs=equal_inputs, k=2))

    (value, gradient), (expected, slope) = (jax.jit(jax.value_and_grad(f))(HYPERNET) for f in (divergence, equation_5))
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    np.testing.assert_allclose(gradient.weights, slope.weights, rtol=1e-3, atol=1e-3 * np.max(np.abs(slope.weights)))


def test_a_collapsed_q_costs_the_floor_and_pulls_no_gradient_by_its_copies() -> None:
    """All draws of q are one theta: every r_i is the floor, and KL = ln(m / (n - 1)) + d mean ln(s_i / floor)."""
    q = Hypernet(generator=HYPERNET.generator, weights=jnp.zeros_like(HYPERNET.weights))
    prior = np.asarray(GaussianPrior().sample(jax.random.split(KEY)[1], 20, MODEL.network), np.float64)
    nearest = np.min(np.linalg.norm(prior, axis=1))
    n_parameters = MODEL.network.n_parameters
    value, gradient = jax.value_and_grad(lambda q: parameter_divergence(KEY, MODEL, q, 20))(q)
    np.testing.assert_allclose(value, np.log(20 / 19) + n_parameters * np.log(nearest / FLOOR), rtol=1e-5)
    # What is left pulls the common theta to the nearest draw of the prior: d ln|theta - p| / d theta = -p / |p|^2.
    bias = q.generator.layers(gradient.weights)[-1].bias
    expected = -n_parameters * prior[np.argmin(np.linalg.norm(prior, axis=1))] / nearest**2
    np.testing.assert_allclose(bias, expected, rtol=1e-4)
