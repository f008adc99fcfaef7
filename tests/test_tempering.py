"""Exchanges between levels against the joint density, and where levels go."""

import numpy as np
import pytest

from offmap.inference.tempering import Densities, exchange, respaced

RANDOM = np.random.default_rng(0)
# Of five levels and 200 ladders: by level and network, the log density there of the network that starts at a level.
LOG_DENSITIES = RANDOM.normal(-5.0, 4.0, (5, 5, 200))


def densities(at: np.ndarray) -> Densities:
    """Of the networks that started at the levels `at`, on every ladder."""
    levels = np.arange(5)[:, None]
    every = LOG_DENSITIES[levels, at, np.arange(200)]
    above = LOG_DENSITIES[levels[1:], at[:-1], np.arange(200)]
    below = LOG_DENSITIES[levels[:-1], at[1:], np.arange(200)]
    return Densities(own=every, above=above, below=below)


START = np.tile(np.arange(5)[:, None], 200)


@pytest.mark.parametrize("first", [0, 1])
def test_exchanges_and_their_reverse_are_in_the_ratio_of_the_joint_densities(first: int) -> None:
    always = exchange(np.zeros((4, 200)), densities(START), first)
    back = exchange(np.zeros((4, 200)), densities(always.places), first)
    offered = slice(first, None, 2)
    gained = np.sum(densities(always.places).own - densities(START).own, axis=0)
    ratio = np.sum(np.log(always.rates[offered]) - np.log(back.rates[offered]), axis=0)
    np.testing.assert_allclose(ratio, gained, rtol=1e-10)
    np.testing.assert_array_equal(np.take_along_axis(always.places, back.places, axis=0), START)


def test_every_second_pair_is_offered_and_exchanges_at_its_rate() -> None:
    uniforms = RANDOM.uniform(size=(4, 200))
    for first in (0, 1):
        places, rates = exchange(uniforms, densities(START), first)
        for pair in range(4):
            swapped = (places[pair] == pair + 1) & (places[pair + 1] == pair)
            expected = (uniforms[pair] < rates[pair]) if pair % 2 == first else np.zeros(200, bool)
            np.testing.assert_array_equal(swapped, expected)
        np.testing.assert_array_equal(np.sort(places, axis=0), START)


def test_respaced_levels_refuse_equally_often() -> None:
    """Where refusals between two levels are in proportion to ln(b / a), levels in equal ratios refuse alike."""
    rising = np.array([0.001, 0.002, 0.005, 0.2, 0.6, 1.0])
    for levels in (rising, rising[::-1]):
        refusals = np.abs(np.diff(np.log(levels))) / 10
        assert respaced(levels, 1 - refusals) == pytest.approx(np.geomspace(levels[0], levels[-1], 6))
    assert respaced(rising, np.full(5, 0.4)) == pytest.approx(rising)
