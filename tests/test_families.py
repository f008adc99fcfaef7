"""Families of q(theta) against the moments that they state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offmap.families import DropoutMasks, Empirical, Hypernet, MeanField, dropout_gates
from offmap.network import Network

NETWORK = Network(n_inputs=2, hidden=(5, 3))
KEY = jax.random.key(0)


def test_mean_field_samples_have_its_mean_and_std() -> None:
    q = MeanField(mean=jnp.linspace(-2.0, 2.0, 9), rho=jnp.linspace(-5.0, 3.0, 9))
    draws = np.asarray(q.sample(KEY, 10_000), np.float64)
    std = np.log1p(np.exp(np.linspace(-5.0, 3.0, 9)))
    np.testing.assert_allclose(q.std, std, rtol=1e-5)
    assert np.max(np.abs(draws.mean(axis=0) - q.mean) / (std / 100)) < 4
    # The variance of n Gaussian draws has the relative standard error sqrt(2 / (n - 1)).
    assert np.max(np.abs(draws.var(axis=0, ddof=1) / std**2 - 1)) / np.sqrt(2 / 9999) < 4
    assert np.max(np.abs(np.corrcoef(draws.T) - np.eye(9))) * 100 < 4


def test_mean_field_starts_at_the_asked_spreads() -> None:
    network = Network(n_inputs=100, hidden=(30,))
    q = MeanField.initial(KEY, network, mean_std=0.5, std=0.001)
    np.testing.assert_allclose(q.std, 0.001, rtol=1e-5)
    n = network.n_parameters
    assert abs(np.var(np.asarray(q.mean, np.float64)) / 0.25 - 1) / np.sqrt(2 / n) < 4


def test_a_linear_generator_gives_a_gaussian_of_known_covariance() -> None:
    """theta = epsilon W + b with epsilon ~ N(0, I), so theta ~ N(b, W^T W)."""
    q = Hypernet.initial(KEY, Network(n_inputs=3, hidden=()), latent=2, hidden=())
    (layer,) = q.layers
    weight, n = np.asarray(layer.weight, np.float64), 20_000
    centred = np.asarray(q.sample(jax.random.key(1), n), np.float64) - np.asarray(layer.bias, np.float64)
    expected = weight.T @ weight
    variance = np.diag(expected)
    assert np.max(np.abs(centred.mean(axis=0)) / np.sqrt(variance / n)) < 4
    error = np.sqrt((variance[:, None] * variance + expected**2) / n)
    assert np.max(np.abs(centred.T @ centred / n - expected) / error) < 4


def test_the_papers_generator_widens_fourfold_and_eightfold() -> None:
    q = Hypernet.initial(KEY, NETWORK)
    assert q.generator.shapes == [(5, 20), (20, 40), (40, NETWORK.n_parameters)]
    epsilon = jax.random.normal(jax.random.key(1), (4, 5))
    np.testing.assert_array_equal(q.sample(jax.random.key(1), 4), q.generator.apply(q.weights, epsilon))


def test_empirical_draws_are_different_members() -> None:
    members = Empirical(thetas=jnp.arange(10.0).reshape(10, 1))
    np.testing.assert_array_equal(np.sort(members.sample(KEY, 10)[:, 0]), np.arange(10.0))
    few = np.asarray(jax.vmap(lambda key: members.sample(key, 3)[:, 0])(jax.random.split(KEY, 400)))
    assert all(len(set(draw)) == 3 for draw in few)
    # Each member is one of 3 in 10 with probability 0.3.
    counts = np.bincount(few.ravel().astype(int), minlength=10)
    assert np.max(np.abs(counts - 120) / np.sqrt(400 * 0.3 * 0.7)) < 4


def test_more_draws_than_members_is_an_error() -> None:
    with pytest.raises(ValueError, match="11 draws were asked for, but this posterior has 10 members"):
        Empirical(thetas=jnp.zeros((10, 1))).sample(KEY, 11)


def test_masks_scale_outgoing_weights_and_keep_their_mean() -> None:
    """A gate is 0 or 1 / (1 - rate), with mean 1 and variance rate / (1 - rate), on weights out of hidden units."""
    theta, rate, n = NETWORK.initial(KEY), 0.3, 5000
    draws = DropoutMasks(network=NETWORK, theta=theta, rate=rate).sample(jax.random.key(1), n)
    first, *rest = jax.vmap(NETWORK.layers)(draws / theta[None, :])
    for part in (first.weight, *(layer.bias for layer in (first, *rest))):
        np.testing.assert_allclose(part, 1.0, rtol=1e-6)
    for layer in rest:
        gates = np.asarray(layer.weight[:, :, 0], np.float64)
        np.testing.assert_allclose(gates, np.where(gates > 0, 1 / 0.7, 0), rtol=1e-5)
        np.testing.assert_allclose(layer.weight, np.tile(gates[:, :, None], layer.weight.shape[2]), rtol=1e-5)
        assert np.max(np.abs(gates.mean(axis=0) - 1)) / np.sqrt(rate / (1 - rate) / n) < 4


def test_fresh_masks_are_independent_from_value_to_value() -> None:
    """One row twice: f = sum_h v_h a_h g_h + c, where a gate g is 1 / (1 - rate) or 0, so its variance is known."""
    network, rate, n = Network(n_inputs=2, hidden=(9,)), 0.3, 20_000
    theta, x = network.initial(jax.random.key(3)), jnp.array([[0.5, -1.0]])
    first, last = network.layers(theta)
    parts = np.asarray(jax.nn.relu(x[0] @ first.weight + first.bias) * last.weight[:, 0], np.float64)
    variance = np.sum(parts**2) * rate / (1 - rate)
    q = DropoutMasks(network=network, theta=theta, rate=rate)
    values = np.asarray(q.with_fresh_masks(jax.random.split(KEY, n), jnp.repeat(x, 2, axis=0)), np.float64)
    assert np.max(np.abs(values.mean(axis=0) - float(network.apply(theta, x)[0, 0]))) / np.sqrt(variance / n) < 4
    kurtosis = np.mean((values - values.mean(axis=0)) ** 4) / variance**2
    assert np.max(np.abs(values.var(axis=0) / variance - 1)) / np.sqrt((kurtosis - 1) / n) < 4
    assert abs(np.corrcoef(values[:, 0], values[:, 1])[0, 1]) * np.sqrt(n) < 4


def test_without_dropout_every_draw_is_theta() -> None:
    theta = NETWORK.initial(KEY)
    draws = DropoutMasks(network=NETWORK, theta=theta, rate=0.0).sample(KEY, 3)
    np.testing.assert_array_equal(draws, np.tile(theta, (3, 1)))


def test_gates_of_rows_are_independent() -> None:
    first, second = dropout_gates(KEY, NETWORK, 0.5, rows=(4000,))
    assert (first.shape, second.shape) == ((4000, 5), (4000, 3))
    kept = np.asarray(jnp.concatenate([first, second], axis=1)) > 0
    assert np.max(np.abs(kept.mean(axis=0) - 0.5)) / np.sqrt(0.25 / 4000) < 4
    assert np.max(np.abs(np.corrcoef(kept.T) - np.eye(8))) * np.sqrt(4000) < 4
