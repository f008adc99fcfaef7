"""Summaries of draws against numpy and scipy in float64, whole and in chunks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from offmap import predictive
from offmap.network import Network
from offmap.predictive import (
    epistemic_uncertainty,
    in_chunks,
    mixture_log_density,
    moments,
    single_log_density,
)

DRAWS = np.random.default_rng(0).normal(size=(40, 7)).astype(np.float32)
Y = np.linspace(-30, 30, 7, dtype=np.float32)  # far out, where the densities of single draws underflow
BY_ROW = np.linspace(0.2, 2.0, 7, dtype=np.float32)


def test_moments_are_numpys() -> None:
    mean, variance = moments(jnp.asarray(DRAWS))
    np.testing.assert_allclose(mean, DRAWS.astype(np.float64).mean(axis=0), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(variance, DRAWS.astype(np.float64).var(axis=0, ddof=1), rtol=1e-5)


def test_draws_that_agree_far_from_zero_have_their_small_variance() -> None:
    """The mean of squares minus the square of the mean would lose it in float32."""
    draws = 1000 + DRAWS
    np.testing.assert_allclose(moments(jnp.asarray(draws)).variance, draws.astype(np.float64).var(0, ddof=1), rtol=1e-4)


def test_a_single_draw_has_no_spread() -> None:
    mean, variance = moments(jnp.asarray(DRAWS[:1]))
    np.testing.assert_array_equal(mean, DRAWS[0])
    np.testing.assert_array_equal(variance, 0.0)


def test_uncertainty_is_the_entropy_of_a_gaussian() -> None:
    variance = np.array([1e-12, 0.3, 1.0, 1e6])
    np.testing.assert_allclose(epistemic_uncertainty(variance), stats.norm(0, np.sqrt(variance)).entropy(), rtol=1e-12)
    assert epistemic_uncertainty(np.zeros(1))[0] == -np.inf


@pytest.mark.parametrize("noise_std", [0.5, BY_ROW])
def test_mixture_density_is_scipys(noise_std: float | np.ndarray) -> None:
    each = stats.norm(DRAWS.astype(np.float64), noise_std).logpdf(Y)
    expected = special.logsumexp(each, axis=0) - np.log(40)
    noise = noise_std if isinstance(noise_std, float) else jnp.asarray(noise_std)
    np.testing.assert_allclose(mixture_log_density(jnp.asarray(DRAWS), jnp.asarray(Y), noise), expected, rtol=1e-5)


@pytest.mark.parametrize("noise_std", [0.5, BY_ROW])
def test_single_density_is_scipys(noise_std: float | np.ndarray) -> None:
    exact = DRAWS.astype(np.float64)
    std = np.sqrt(exact.var(axis=0, ddof=1) + np.asarray(noise_std, np.float64) ** 2)
    noise = noise_std if isinstance(noise_std, float) else jnp.asarray(noise_std)
    actual = single_log_density(jnp.asarray(DRAWS), jnp.asarray(Y), noise)
    np.testing.assert_allclose(actual, stats.norm(exact.mean(axis=0), std).logpdf(Y), rtol=1e-5)


NETWORK = Network(n_inputs=3, hidden=(5,))
THETAS = jax.random.normal(jax.random.key(0), (6, NETWORK.n_parameters))
X = np.random.default_rng(1).normal(size=(13, 3)).astype(np.float32)


def one_by_one() -> np.ndarray:
    """The forward pass of every theta, shape (draws, rows)."""
    return np.stack([NETWORK.apply(theta, jnp.asarray(X))[:, 0] for theta in THETAS])


@pytest.mark.parametrize("floats", [1, 6 * 5 * 3, 6 * 5 * 8, 10**6])  # chunks of 1, 2, 8 and all rows
@pytest.mark.parametrize("n_rows", [1, 8, 13])
def test_chunks_make_the_whole(n_rows: int, floats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictive, "FLOATS_AT_ONCE", floats)
    draws, y = one_by_one().astype(np.float64)[:, :n_rows], np.linspace(-2, 2, n_rows)
    mean, variance = in_chunks(NETWORK, THETAS, X[:n_rows], moments)
    np.testing.assert_allclose(mean, draws.mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, draws.var(axis=0, ddof=1), rtol=1e-4)
    noise_std = np.linspace(0.5, 1, n_rows)
    density = in_chunks(NETWORK, THETAS, X[:n_rows], mixture_log_density, y, noise_std)
    expected = special.logsumexp(stats.norm(draws, noise_std).logpdf(y), axis=0) - np.log(6)
    np.testing.assert_allclose(density, expected, rtol=1e-4)
