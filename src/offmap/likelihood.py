"""p(y | f, sigma): Gaussian noise of a known standard deviation around the predictor."""

import math

import jax.numpy as jnp

from offmap.arrays import Array, Float

LITTLE_NOISE = 0.1  # of the target's std. A target with no more is known nearly exactly: there is little to overfit


def gaussian_log_density(
    y: Float[Array, "*shape"], mean: Float[Array, "*shape"], std: Float[Array, ""] | float
) -> Float[Array, "*shape"]:
    """ln N(y; mean, std^2), in nats per row.

    >>> float(gaussian_log_density(jnp.array(1.0), jnp.array(0.0), 1.0))
    -1.418...
    """
    return -0.5 * ((y - mean) / std) ** 2 - jnp.log(std) - 0.5 * math.log(2 * math.pi)
