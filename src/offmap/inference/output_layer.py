"""The output layer, integrated out: given its hidden layers a network is a linear model, whose posterior is known."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from offmap.arrays import Array, Data, Float, Key
from offmap.model import Model


class OutputLayer(NamedTuple):
    """What rows and hidden layers leave open of the output layer w: a Gaussian.

        w | y, H ~ N(mean, std^2 A^-1),   A = I + (std / noise_std)^2 H' H

    `H` has a column for every unit of the last hidden layer and one of ones, `std` is the prior's, `root` the Cholesky
    factor of A, and `log_marginal` is ln p(y | H) in nats, but for what does not depend on H.
    """

    mean: Float[Array, " o"]
    root: Float[Array, "o o"]
    log_marginal: Float[Array, ""]


def given_hidden(
    model: Model, data: Data, hidden: Float[Array, " q"], slope_std: Float[Array, ""] | float = 0.0
) -> OutputLayer:
    """The output layer beside hidden layers, which are theta without its end.

    With a `slope_std` above 0 the network may add a linear function of the columns, whose slopes are N(0, slope_std^2):
    then the last entries of w are these slopes, in units of `slope_std / std`.
    """
    std = model.parameter_prior.std
    columns = slope_std / std * data.X
    H = jnp.concatenate([features(model, hidden, data.X), columns], axis=1)
    gain = (std / model.noise_std) ** 2
    root = jnp.linalg.cholesky(jnp.eye(H.shape[1], dtype=H.dtype) + gain * (H.T @ H))
    mean = cho_solve((root, True), gain * (H.T @ data.y))
    # The density's exponent is the least of these squares, so what rounding does to the mean hardly matters.
    squares = jnp.sum(((data.y - H @ mean) / model.noise_std) ** 2) + jnp.sum((mean / std) ** 2)
    return OutputLayer(mean=mean, root=root, log_marginal=-0.5 * squares - jnp.sum(jnp.log(jnp.diagonal(root))))


def features(model: Model, hidden: Float[Array, " q"], X: Float[Array, "n d"]) -> Float[Array, "n h"]:
    """What the output layer sees: the last hidden layer at every row of X, and ones."""
    unused = jnp.zeros(model.network.n_parameters - len(hidden), hidden.dtype)
    values = model.network.features(jnp.concatenate([hidden, unused]), X)
    return jnp.concatenate([values, jnp.ones((len(X), 1), X.dtype)], axis=1)


def completed(key: Key, model: Model, data: Data, hidden: Float[Array, " q"]) -> Float[Array, " p"]:
    """The hidden layers with a draw of their output layer: theta."""
    layer = given_hidden(model, data, hidden)
    z = jax.random.normal(key, layer.mean.shape, layer.mean.dtype)
    w = layer.mean + model.parameter_prior.std * solve_triangular(layer.root.T, z, lower=False)
    return jnp.concatenate([hidden, w[: model.network.n_parameters - len(hidden)]])


def mirrored(model: Model, hidden: Float[Array, " q"], unit: Array) -> Float[Array, " q"]:
    """The hidden layers with one unit of the last one on where it was off: its weights and its bias change their sign.

    It is as likely as before under the prior. As relu(z) - relu(-z) = z, what fits changes by a linear function.
    """
    width = model.network.hidden[-1]
    sign = 1 - 2 * jax.nn.one_hot(unit, width, dtype=hidden.dtype)
    start = len(hidden) - width * (model.network.shapes[-2][0] + 1)
    last = hidden[start:].reshape(-1, width) * sign[None, :]
    return jnp.concatenate([hidden[:start], last.ravel()])
