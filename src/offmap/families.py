"""q(theta): distributions over flat parameter vectors. Each holds arrays only and has `.sample(key, n)`."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import jax
import jax.numpy as jnp

from offmap.arrays import Array, Float, Key
from offmap.artifact import storable
from offmap.kernels import standard_normal
from offmap.network import Layer, Network

MOST_STATES = 8000  # of chains that a posterior keeps


class Posterior(Protocol):
    """A distribution over flat parameter vectors: all that the rest of the package asks of a fit."""

    def sample(self, key: Key, n: int) -> Float[Array, "n p"]:
        """`n` thetas."""

    @property
    def n_members(self) -> int | None:
        """How many different thetas there are, or None when they never run out."""


@storable
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Hypernet:
    """theta = h_lambda(epsilon), epsilon ~ N(0, I_l): a network that generates networks. Its density is unknown."""

    generator: Network = field(metadata={"static": True})
    weights: Float[Array, " lambda"]

    n_members = None

    @classmethod
    def initial(cls, key: Key, network: Network, latent: int = 5, hidden: tuple[int, ...] | None = None) -> "Hypernet":
        """A random generator l -> 4l -> 8l -> p (other widths by `hidden`) for the parameters of `network`."""
        widths = (4 * latent, 8 * latent) if hidden is None else hidden
        generator = Network(n_inputs=latent, hidden=widths, n_outputs=network.n_parameters)
        return cls(generator=generator, weights=generator.initial(key))

    @property
    def layers(self) -> list[Layer]:
        """The generator's weights and biases as matrices and vectors."""
        return self.generator.layers(self.weights)

    def with_layers(self, layers: Sequence[Layer]) -> "Hypernet":
        """The same generator with these weights and biases."""
        return replace(self, weights=self.generator.flatten(layers))

    def sample(self, key: Key, n: int) -> Float[Array, "n p"]:
        """`n` independent thetas."""
        return self.generator.apply(self.weights, jax.random.normal(key, (n, self.generator.n_inputs)))


@storable
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MeanField:
    """theta ~ N(mean, diag std^2), with std = softplus(rho) so that it stays positive while rho is free."""

    mean: Float[Array, " p"]
    rho: Float[Array, " p"]

    n_members = None

    @classmethod
    def initial(cls, key: Key, network: Network, mean_std: float = 1.0, std: float = 0.001) -> "MeanField":
        """Means drawn from N(0, mean_std^2), every coordinate's own std equal to `std`."""
        mean = mean_std * jax.random.normal(key, (network.n_parameters,))
        return cls(mean=mean, rho=jnp.full_like(mean, jnp.log(jnp.expm1(std))))

    @property
    def std(self) -> Float[Array, " p"]:
        """The standard deviation of every coordinate."""
        return jax.nn.softplus(self.rho)

    def sample(self, key: Key, n: int) -> Float[Array, "n p"]:
        """`n` independent thetas."""
        return self.mean[None, :] + self.std[None, :] * standard_normal(key, (n, len(self.mean)))


@storable
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Empirical:
    """A finite set of thetas: the members of an ensemble, or the states of a Markov chain."""

    thetas: Float[Array, "m p"]

    @classmethod
    def of_chains(cls, thetas: Float[Array, "c s p"]) -> "Empirical":
        """The states of chains; where there are very many, some at even distances, for more only say the same again."""
        every = thetas.reshape(-1, thetas.shape[-1])
        return cls(thetas=every[:: -(-len(every) // MOST_STATES)])

    @property
    def n_members(self) -> int:
        """The number of thetas in the set."""
        return len(self.thetas)

    def sample(self, key: Key, n: int) -> Float[Array, "n p"]:
        """`n` different members. Asking for more than there are would only repeat some, so it is an error."""
        if n > self.n_members:
            raise ValueError(
                f"{n} draws were asked for, but this posterior has {self.n_members} members and repeating some adds "
                f"nothing. Ask for at most {self.n_members}, or fit with more members."
            )
        return self.thetas[jax.random.permutation(key, self.n_members)[:n]]


@storable
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DropoutMasks:
    """One theta whose hidden units are dropped at random: each draw keeps its own units for every input.

    Keeping the mask through all inputs makes a draw a function, so its entropy as a predictor means something; at any
    single input its distribution is that of a fresh mask.
    """

    network: Network = field(metadata={"static": True})
    theta: Float[Array, " p"]
    rate: float = field(metadata={"static": True})

    n_members = None

    def sample(self, key: Key, n: int) -> Float[Array, "n p"]:
        """`n` independently masked thetas."""

        def masked(key: Key) -> Float[Array, " p"]:
            return self.network.fold_gates(self.theta, dropout_gates(key, self.network, self.rate))

        return jax.vmap(masked)(jax.random.split(key, n))

    def with_fresh_masks(self, keys: Key, X: Float[Array, "t d"]) -> Float[Array, "n t"]:
        """Values at the rows of X, as many as there are keys, every value with a mask of its own: the paper's draws."""

        def values(key: Key) -> Float[Array, " t"]:
            gates = dropout_gates(key, self.network, self.rate, rows=(len(X),))
            return self.network.apply(self.theta, X, gates)[:, 0]

        return jax.lax.map(values, keys)


def dropout_gates(key: Key, network: Network, rate: float, rows: tuple[int, ...] = ()) -> list[Array]:
    """Gates for every hidden layer: 0 with probability `rate`, else 1 / (1 - rate), so that the mean gate is 1."""
    keys = jax.random.split(key, max(len(network.hidden), 1))
    return [
        jax.random.bernoulli(layer_key, 1 - rate, (*rows, width)).astype(float) / (1 - rate)
        for layer_key, width in zip(keys, network.hidden, strict=False)
    ]
