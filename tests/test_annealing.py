"""Weights, shares and resampling, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offmap.inference.annealing import (
    Populations,
    effective_share,
    kept,
    levels_left,
    next_share,
    resampled,
    reweighted,
)


def populations(log_likelihoods: np.ndarray, log_weights: np.ndarray | None = None, share: float = 0.0) -> Populations:
    """Networks of one parameter, which numbers them."""
    numbers = np.arange(log_likelihoods.size, dtype=np.float32).reshape(*log_likelihoods.shape, 1)
    weights = np.zeros(log_likelihoods.shape) if log_weights is None else log_weights
    return Populations(jnp.asarray(numbers), log_likelihoods, weights, share)


def test_what_is_kept_of_normal_log_likelihoods_is_known() -> None:
    """E[u]^2 / E[u^2] = exp(-(d s)^2) for u = exp(d l), l ~ N(m, s^2)."""
    n, std, rise = 200_000, 3.0, 0.1
    now = populations(np.random.default_rng(0).normal(-50.0, std, (1, n)), share=0.2)
    expected = np.exp(-((rise * std) ** 2))
    # The variance of ln of the estimate, by the delta method, for u lognormal with variance v = (d s)^2.
    v = (rise * std) ** 2
    spread = np.sqrt((4 * np.expm1(v) + np.expm1(4 * v) - 4 * np.expm1(2 * v)) / n)
    assert abs(np.log(kept(now, 0.2 + rise)) - np.log(expected)) < 4 * spread


def test_weighted_networks_keep_what_as_many_copies_of_them_would() -> None:
    values = np.array([[0.0, -1.0, -5.0]])
    weighted = populations(values, np.log([[1.0, 2.0, 3.0]]))
    copied = populations(np.repeat(values, [1, 2, 3], axis=1))
    np.testing.assert_allclose(kept(weighted, 0.7), kept(copied, 0.7))


@pytest.mark.parametrize("keep", [0.5, 0.8, 0.95])
def test_the_next_share_keeps_just_so_much_of_the_population_that_suffers_most(keep: float) -> None:
    random = np.random.default_rng(1)
    now = populations(random.normal(size=(3, 500)) * np.array([[10.0], [40.0], [20.0]]), share=0.1)
    share = next_share(now, keep)
    assert 0.1 < share < 1
    np.testing.assert_allclose(kept(now, share), keep, rtol=1e-4)
    alone = [effective_share((share - 0.1) * now.log_likelihoods[[one]])[0] for one in range(3)]
    np.testing.assert_allclose(min(alone), keep, rtol=1e-4)


def test_the_last_share_is_one() -> None:
    assert next_share(populations(np.zeros((2, 9)), share=0.4), 0.99) == 1.0


def test_likelihoods_that_are_no_numbers_end_in_words() -> None:
    with pytest.raises(ValueError, match=r"cannot start.*Use a larger noise_std"):
        next_share(populations(np.array([[0.0, np.nan]])), 0.5)


def test_weights_are_the_likelihood_to_the_power_of_the_rise() -> None:
    values = np.array([[-3.0, -1.0, -2.0]])
    now = reweighted(reweighted(populations(values), 0.3), 0.8)
    assert now.share == 0.8
    np.testing.assert_allclose(now.log_weights - now.log_weights[0, 0], 0.8 * (values - values[0, 0]))


def test_resampling_takes_every_network_as_often_as_its_weight_says_and_keeps_copies_together() -> None:
    random = np.random.default_rng(2)
    weights = random.dirichlet(np.full(40, 0.3), size=2)
    weights[1] = 1 / 40  # worth all of its number: left alone
    now = populations(random.normal(size=(2, 40)), np.log(weights))
    after = resampled(jax.random.key(0), now, at_least=0.5)
    first, second = np.asarray(after.thetas[..., 0], int)
    counts = np.bincount(first, minlength=40)
    assert np.all(np.abs(counts - 40 * weights[0]) < 1 + 1e-4)  # systematic: rounded up or down
    assert np.all(np.diff(first) >= 0)
    np.testing.assert_array_equal(second, np.arange(40, 80))
    np.testing.assert_array_equal(after.log_likelihoods, now.log_likelihoods.ravel()[[first, second]])
    np.testing.assert_array_equal(after.log_weights, [np.zeros(40), np.log(weights[1])])


@pytest.mark.parametrize(("before", "share", "left"), [(0.1, 0.2, 3), (0.5, 1.0, 0), (0.0, 0.01, 1)])
def test_levels_that_are_left_if_shares_go_on_rising_as_they_did(before: float, share: float, left: int) -> None:
    """0.2, 0.4, 0.8, 1."""
    assert levels_left(before, share) == left
