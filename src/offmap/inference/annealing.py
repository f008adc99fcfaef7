"""From the prior to the posterior by degrees: weighted populations of networks, and how they are weighted anew."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.smc.resampling import systematic

from offmap.arrays import Array, Float, Key, default_promotion


class Populations(NamedTuple):
    """Networks distributed as prior * likelihood^share, once they are weighted.

    Populations know nothing of each other. In each, copies of one network are neighbours.
    """

    thetas: Float[Array, "c s p"]
    log_likelihoods: Float[np.ndarray, "c s"]
    log_weights: Float[np.ndarray, "c s"]
    share: float


def effective_share(log_weights: Float[np.ndarray, "c s"]) -> Float[np.ndarray, " c"]:
    """The effective number of weighted draws over their number, (sum w)^2 / (s * sum w^2), of each population.

    >>> effective_share(np.log([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1e-9, 1e-9]]))
    array([1. , 0.5])
    """
    weights = _normalised(log_weights)
    return 1 / (weights.shape[1] * np.sum(weights**2, axis=1))


def kept(now: Populations, share: float) -> float:
    """How much of its effective number the population that suffers most keeps if the likelihood gets this share.

    (sum W u)^2 / sum W u^2 with the present weights W, which sum to 1, and the factors u by which they would change.
    """
    weights = _normalised(now.log_weights)
    change = (share - now.share) * now.log_likelihoods
    change = np.exp(change - np.max(change, axis=1, keepdims=True))
    return float(np.min(np.sum(weights * change, axis=1) ** 2 / np.sum(weights * change**2, axis=1)))


def next_share(now: Populations, keep: float) -> float:
    """The largest share, at most 1, that every population keeps so much under."""
    if kept(now, 1.0) >= keep:
        return 1.0
    low, high = 0.0, 1.0 - now.share
    while (middle := (low + high) / 2) not in (low, high) and high > low * (1 + 1e-6):
        low, high = (middle, high) if kept(now, now.share + middle) >= keep else (low, middle)
    if now.share + low == now.share:
        raise ValueError(
            "The sampler cannot start: under the prior, the networks' errors differ by more than its numbers can tell. "
            "Use a larger noise_std."
        )
    return now.share + low


def reweighted(now: Populations, share: float) -> Populations:
    """The same networks, weighted for another share of the likelihood."""
    log_weights = now.log_weights + (share - now.share) * now.log_likelihoods
    return now._replace(share=share, log_weights=log_weights - np.max(log_weights, axis=1, keepdims=True))


def resampled(key: Key, now: Populations, at_least: float) -> Populations:
    """Populations that are worth less than `at_least` of their number, with networks in proportion to their weights."""
    chosen = np.arange(now.log_weights.size).reshape(now.log_weights.shape)
    log_weights = now.log_weights.copy()
    for number, one_key in enumerate(jax.random.split(key, len(chosen))):
        if effective_share(log_weights[[number]])[0] < at_least:
            weights = jnp.asarray(_normalised(log_weights[[number]])[0], jnp.float32)
            with default_promotion():
                chosen[number] = chosen[number][np.asarray(systematic(one_key, weights, len(weights)))]
            log_weights[number] = 0.0
    return now._replace(
        thetas=now.thetas.reshape(chosen.size, -1)[chosen],
        log_likelihoods=now.log_likelihoods.ravel()[chosen],
        log_weights=log_weights,
    )


def _normalised(log_weights: Float[np.ndarray, "c s"]) -> Float[np.ndarray, "c s"]:
    weights = np.exp(log_weights - np.max(log_weights, axis=1, keepdims=True))
    return weights / np.sum(weights, axis=1, keepdims=True)


def levels_left(before: float, share: float) -> int:
    """How many more rises like the last one it takes to a share of 1, about: shares rise in proportion."""
    return math.ceil(math.log(share) / math.log(before / share)) if 0 < before < share < 1 else int(share < 1)
