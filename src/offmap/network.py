"""f_theta(x): a fully connected network whose weights and biases are one flat vector theta."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from offmap import kernels
from offmap.arrays import Array, Float, Key
from offmap.artifact import storable

Activation = Literal["relu", "gelu", "tanh"]
ACTIVATIONS = kernels.ACTIVATIONS | {"tanh": jnp.tanh}


class Layer(NamedTuple):
    """One affine map, `x @ weight + bias`."""

    weight: Float[Array, "fan_in fan_out"]
    bias: Float[Array, " fan_out"]


@storable
@dataclass(frozen=True)
class Network:
    """The shape of a network: theta is not in it, so one `Network` serves every draw of theta.

    `hidden=()` is a linear map. Theta lists, layer by layer, the weights (row by row) and then the biases.

    >>> Network(n_inputs=13, hidden=(50,)).n_parameters
    751
    """

    n_inputs: int
    hidden: tuple[int, ...] = (50,)
    activation: Activation = "relu"
    n_outputs: int = 1

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is {self.activation!r}, but it must be one of: {', '.join(ACTIVATIONS)}.")
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"hidden is {self.hidden}, but every hidden layer needs at least one unit.")

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(fan_in, fan_out) of each layer."""
        return list(pairwise((self.n_inputs, *self.hidden, self.n_outputs)))

    @property
    def n_parameters(self) -> int:
        """The length of theta."""
        return sum((fan_in + 1) * fan_out for fan_in, fan_out in self.shapes)

    def layers(self, theta: Float[Array, " p"]) -> list[Layer]:
        """Cut theta into its layers."""
        layers, start = [], 0
        for fan_in, fan_out in self.shapes:
            middle, stop = start + fan_in * fan_out, start + (fan_in + 1) * fan_out
            layers.append(Layer(weight=theta[start:middle].reshape(fan_in, fan_out), bias=theta[middle:stop]))
            start = stop
        return layers

    def flatten(self, layers: Sequence[Layer]) -> Float[Array, " p"]:
        """The inverse of `layers`."""
        return jnp.concatenate([part.ravel() for layer in layers for part in layer])

    @functools.partial(jax.jit, static_argnames=("self",))
    def initial(self, key: Key) -> Float[Array, " p"]:
        """A random start for training: weights and biases uniform on (-1/sqrt(fan_in), 1/sqrt(fan_in))."""
        bounds = [jnp.full(((fan_in + 1) * fan_out,), 1 / math.sqrt(fan_in)) for fan_in, fan_out in self.shapes]
        return jnp.concatenate(bounds) * jax.random.uniform(key, (self.n_parameters,), minval=-1.0)

    def apply(
        self, theta: Float[Array, " p"], X: Float[Array, "n d"], gates: Sequence[Array] | None = None
    ) -> Float[Array, "n o"]:
        """The outputs at every row of X. `gates`, one array a hidden layer, multiply the hidden units (dropout)."""
        last = self.layers(theta)[-1]
        return self.features(theta, X, gates) @ last.weight + last.bias[None, :]

    def features(
        self, theta: Float[Array, " p"], X: Float[Array, "n d"], gates: Sequence[Array] | None = None
    ) -> Float[Array, "n h"]:
        """The last hidden layer's values at every row of X: what the output layer sees."""
        *hidden, _ = self.layers(theta)
        values = X
        for depth, layer in enumerate(hidden):
            values = ACTIVATIONS[self.activation](values @ layer.weight + layer.bias[None, :])
            if gates is not None:
                values = values * gates[depth]
        return values

    @property
    def has_kernel(self) -> bool:
        """Whether compiled code does `draws`, with hidden values that never leave the registers."""
        one_layer = len(self.hidden) == 1 and self.activation in kernels.ACTIVATIONS and self.n_outputs == 1
        return one_layer and kernels.are_here()

    def draws(self, thetas: Float[Array, "s p"], X: Float[Array, "n d"]) -> Float[Array, "s n"]:
        """The single output at every row of X, for every theta: the innermost loop of everything here."""
        if thetas.dtype == X.dtype == jnp.float32 and self.has_kernel:
            return kernels.one_layer_draws(thetas, X, self.activation)
        return self.plain_draws(thetas, X)

    def plain_draws(self, thetas: Float[Array, "s p"], X: Float[Array, "n d"]) -> Float[Array, "s n"]:
        """`draws` without a compiled kernel: its fallback, and its test."""
        return jax.vmap(lambda theta: self.apply(theta, X)[:, 0])(thetas)

    def fold_gates(self, theta: Float[Array, " p"], gates: Sequence[Float[Array, " h"]]) -> Float[Array, " p"]:
        """The theta whose plain network equals `apply(theta, X, gates)`: a gate scales its unit's outgoing weights."""
        first, *rest = self.layers(theta)
        gated = [layer._replace(weight=layer.weight * gate[:, None]) for layer, gate in zip(rest, gates, strict=True)]
        return self.flatten([first, *gated])
