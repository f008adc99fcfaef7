"""Exchanges between levels against the joint density, and where levels go."""

import numpy as np
import pytest

from offmap.inference.tempering import exchange, respaced

SHARES = np.array([0.01, 0.1, 0.3, 0.7, 1.0])
LOG_LIKELIHOODS = np.random.default_rng(0).normal(-5.0, 4.0, (5, 200))


@pytest.mark.parametrize("first", [0, 1])
def test_exchanges_and_their_reverse_are_in_the_ratio_of_the_joint_densities(first: int) -> None:
    always = exchange(np.zeros((4, 200)), SHARES, LOG_LIKELIHOODS, first)
    after = np.take_along_axis(LOG_LIKELIHOODS, always.places, axis=0)
    back = exchange(np.zeros((4, 200)), SHARES, after, first)
    offered = slice(first, None, 2)
    gained = np.sum(SHARES[:, None] * (after - LOG_LIKELIHOODS), axis=0)
    ratio = np.sum(np.log(always.rates[offered]) - np.log(back.rates[offered]), axis=0)
    np.testing.assert_allclose(ratio, gained, rtol=1e-10)
    np.testing.assert_array_equal(np.take_along_axis(after, back.places, axis=0), LOG_LIKELIHOODS)


def test_every_second_pair_is_offered_and_exchanges_at_its_rate() -> None:
    uniforms = np.random.default_rng(1).uniform(size=(4, 200))
    for first in (0, 1):
        places, rates = exchange(uniforms, SHARES, LOG_LIKELIHOODS, first)
        for pair in range(4):
            swapped = (places[pair] == pair + 1) & (places[pair + 1] == pair)
            expected = (uniforms[pair] < rates[pair]) if pair % 2 == first else np.zeros(200, bool)
            np.testing.assert_array_equal(swapped, expected)
        np.testing.assert_array_equal(np.sort(places, axis=0), np.tile(np.arange(5)[:, None], 200))


def test_respaced_levels_refuse_equally_often() -> None:
    """Where refusals between two shares are in proportion to ln(b / a), levels in equal ratios refuse alike."""
    shares = np.array([0.001, 0.002, 0.005, 0.2, 0.6, 1.0])
    refusals = np.diff(np.log(shares)) / 10
    assert respaced(shares, 1 - refusals) == pytest.approx(np.geomspace(0.001, 1.0, 6))
    assert respaced(SHARES, np.full(4, 0.4)) == pytest.approx(SHARES)
