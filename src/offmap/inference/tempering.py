"""Exchanges between networks on the levels of a ladder: parallel tempering, without the networks."""

from typing import NamedTuple

import numpy as np


class Densities(NamedTuple):
    """Log densities of the networks on ladders, a row for every level and a column for every ladder.

    `own[l]` are those of the networks at level l there, `above[l]` those of the same networks at level l + 1, and
    `below[l]` those of the networks at level l + 1 at level l.
    """

    own: np.ndarray
    above: np.ndarray
    below: np.ndarray


class Exchange(NamedTuple):
    """What neighbours on ladders do: `places[l, c]` is the level whose network ladder c has at level l from now on.

    `rates` are the probabilities of an exchange of every level with the next, whether or not it was tried.
    """

    places: np.ndarray
    rates: np.ndarray


def exchange(uniforms: np.ndarray, densities: Densities, first: int) -> Exchange:
    """Whether levels l and l + 1 exchange their networks, for l = first, first + 2, first + 4 and so on.

        min(1, exp(above[l] + below[l] - own[l] - own[l + 1]))

    is the probability, which leaves the density of every level as it is. `uniforms` has a number in [0, 1) for every
    pair of neighbours. With `first` 0 and 1 by turns a network that was exchanged is offered to the next level at once,
    so it travels instead of diffusing.
    """
    own, above, below = densities
    rates = np.exp(np.minimum(0.0, above + below - own[:-1] - own[1:]))
    offered = np.arange(len(rates)) % 2 == first
    swapped = offered[:, None] & (uniforms < rates)
    places = np.tile(np.arange(len(own))[:, None], own.shape[1])
    places[:-1] += swapped
    places[1:] -= swapped
    return Exchange(places=places, rates=rates)


def respaced(levels: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Levels between the same ends at which all neighbours exchange about as often, given how often they do now.

    What the refusals between two of them add up to hardly depends on how many there are between them, so the new
    ones divide that sum evenly.

    >>> respaced(np.array([0.01, 0.1, 1.0]), np.array([1.0, 0.4])).round(3)
    array([0.01 , 0.316, 1.   ])
    """
    refused = np.concatenate([[0.0], np.cumsum(np.maximum(1 - rates, 1e-6))])
    return np.exp(np.interp(np.linspace(0.0, refused[-1], len(levels)), refused, np.log(levels)))
