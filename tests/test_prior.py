"""Priors against scipy's densities, scikit-learn's kernel and the covariances that they state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from offmap.network import Network
from offmap.prior import GaussianPrior, GaussianProcessPrior, Prior

X = jnp.array([[0.0, 0.0], [0.3, -0.2], [1.0, 1.0], [-2.0, 0.5]])
LINEAR = Network(n_inputs=2, hidden=())


def assert_covariance(samples: jax.Array, expected: np.ndarray) -> None:
    """Of zero-mean Gaussians, the mean of f_i f_j has the standard error sqrt((k_ii k_jj + k_ij^2) / n)."""
    values, variance = np.asarray(samples, np.float64), np.diag(expected)
    error = np.sqrt((variance[:, None] * variance + expected**2) / len(values))
    assert np.max(np.abs(values.T @ values / len(values) - expected) / error) < 4
    assert np.max(np.abs(values.mean(axis=0)) / np.sqrt(variance / len(values))) < 4


def test_log_density_is_scipys() -> None:
    theta = jax.random.normal(jax.random.key(0), (30,))
    expected = stats.multivariate_normal(np.zeros(30), 0.7**2).logpdf(np.asarray(theta, np.float64))
    np.testing.assert_allclose(GaussianPrior(std=0.7).log_density(theta), expected, rtol=1e-6)


def test_the_papers_covariance_is_one_half() -> None:
    thetas = GaussianPrior().sample(jax.random.key(1), 20_000, LINEAR)
    assert_covariance(thetas, 0.5 * np.eye(3))


def test_predictors_of_a_linear_network_have_a_linear_kernel() -> None:
    """f(x) = theta . (x, 1), so Cov(f(x), f(x')) = std^2 (x . x' + 1)."""
    samples = GaussianPrior(std=0.7).sample_predictors(jax.random.key(2), 20_000, LINEAR, X)
    rows = np.asarray(X, np.float64)
    assert_covariance(samples, 0.49 * (rows @ rows.T + 1))


def test_covariance_is_sklearns_kernel() -> None:
    prior = GaussianProcessPrior(length_scale=0.8, variance=2.5)
    np.testing.assert_allclose(prior.covariance(X), 2.5 * RBF(0.8)(np.asarray(X, np.float64)), rtol=1e-5, atol=1e-8)


def test_process_samples_have_the_kernels_covariance() -> None:
    prior = GaussianProcessPrior(length_scale=0.8, variance=2.5)
    samples = prior.sample_predictors(jax.random.key(3), 20_000, LINEAR, X)
    assert_covariance(samples, 2.5 * (RBF(0.8)(np.asarray(X, np.float64)) + 1e-4 * np.eye(4)))


def test_process_samples_repeat_at_repeated_rows() -> None:
    """A singular covariance: only the nugget, 1% of the prior's std, tells copies of a row apart."""
    samples = GaussianProcessPrior().sample_predictors(jax.random.key(4), 5000, LINEAR, jnp.tile(X[:1], (50, 1)))
    apart = np.asarray(samples[:, 0] - samples[:, -1], np.float64)
    z = (np.mean(apart**2) / 2e-4 - 1) / np.sqrt(2 / len(apart))
    assert abs(z) < 4


@pytest.mark.parametrize("prior", [GaussianPrior(), GaussianProcessPrior()])
def test_a_prior_is_a_pytree_of_its_numbers(prior: Prior) -> None:
    doubled = jax.tree.map(lambda number: 2 * number, prior)
    narrow, wide = (p.sample_predictors(jax.random.key(5), 3, LINEAR, X[:1]) for p in (prior, doubled))
    scale = 2.0 if isinstance(prior, GaussianPrior) else 2**0.5  # a standard deviation, or a variance
    np.testing.assert_allclose(wide, scale * narrow, rtol=1e-5)
