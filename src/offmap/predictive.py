"""From draws of the predictors to answers: mean, spread, density and U(x). Everything here sees draws, nothing else."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from offmap.arrays import Array, Float
from offmap.likelihood import gaussian_log_density
from offmap.network import Network

# Values held at once, in floats (16 MB): few enough to stay in a processor's cache, whatever the table's size.
FLOATS_AT_ONCE = 4_000_000
ROWS_AT_ONCE = 256


class Moments(NamedTuple):
    """Mean and unbiased variance over draws, per row."""

    mean: Float[Array, " n"]
    variance: Float[Array, " n"]


def moments(draws: Float[Array, "s n"]) -> Moments:
    """Mean and unbiased variance over the draws at every row; a single draw has no spread, so its variance is 0."""
    mean = jnp.mean(draws, axis=0)
    return Moments(mean=mean, variance=jnp.sum((draws - mean[None, :]) ** 2, axis=0) / max(len(draws) - 1, 1))


def epistemic_uncertainty(variance: np.ndarray) -> np.ndarray:
    """U(x) = 1/2 ln(2 pi e variance), in nats: the entropy of a Gaussian with the variance of the draws.

    -inf where all draws agree. The order of rows by U is their order by variance.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(0.5 * np.log(2 * math.pi * math.e * np.asarray(variance, np.float64)))


def mixture_log_density(
    draws: Float[Array, "s n"], y: Float[Array, " n"], noise_std: Float[Array, "*n"] | float
) -> Float[Array, " n"]:
    """ln of the mean over draws of N(y; draw, noise_std^2), in nats per row. One noise for all rows, or one each."""
    by_row = jnp.broadcast_to(noise_std, y.shape)[None, :]
    return logsumexp(gaussian_log_density(y[None, :], draws, by_row), axis=0) - math.log(len(draws))


def single_log_density(
    draws: Float[Array, "s n"], y: Float[Array, " n"], noise_std: Float[Array, "*n"] | float
) -> Float[Array, " n"]:
    """ln N(y; mean of the draws, variance of the draws + noise_std^2), in nats per row."""
    mean, variance = moments(draws)
    return gaussian_log_density(y, mean, jnp.sqrt(variance + noise_std**2))


LOG_DENSITIES = {"mixture": mixture_log_density, "gaussian": single_log_density}


@functools.partial(jax.jit, static_argnames=("network", "summary"))
def _summary_of_chunk(
    network: Network, summary: Callable[..., object], thetas: Float[Array, "s p"], X: Float[Array, "n d"], *extra: Array
) -> object:
    return summary(network.draws(thetas, X), *extra)


def in_chunks(
    network: Network,
    thetas: Float[Array, "s p"],
    X: np.ndarray,
    summary: Callable[..., object],
    *by_row: np.ndarray,
) -> Any:
    """`summary(draws, ...)` of all rows of X, computed over chunks of rows so that memory does not grow with them.

    `summary` maps draws (s, n), and the chunk of every array in `by_row`, to arrays whose last axis is the rows.
    The last chunk is padded. All chunks of all tables have one length, a power of two: one program serves them, and a
    row's numbers do not depend on the rows around it, to the last bit.
    """
    floats_per_draw = 1 if network.has_kernel else max((*network.hidden, 1))
    fitting = max(1, min(ROWS_AT_ONCE, FLOATS_AT_ONCE // (len(thetas) * floats_per_draw)))
    size = 1 << (fitting.bit_length() - 1)
    parts = []
    for first in range(0, len(X), size):
        chunk = [np.asarray(rows[first : first + size]) for rows in (X, *by_row)]
        padded = [np.pad(rows, [(0, size - len(rows))] + [(0, 0)] * (rows.ndim - 1), mode="edge") for rows in chunk]
        result = _summary_of_chunk(network, summary, thetas, *map(jnp.asarray, padded))
        parts.append(jax.tree.map(np.asarray, result))
    return jax.tree.map(lambda *values: np.concatenate(values, axis=-1)[..., : len(X)], *parts)
