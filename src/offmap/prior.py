"""What is believed of predictors before any data: a Gaussian on theta, or a Gaussian process on f itself."""

import math
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from offmap.arrays import Array, Float, Key
from offmap.artifact import storable
from offmap.kernels import standard_normal
from offmap.network import Network


class Prior(Protocol):
    """Anything whose predictors can be sampled at given inputs: all that the FuNN methods need."""

    def sample_predictors(self, key: Key, n: int, network: Network, X: Float[Array, "t d"]) -> Float[Array, "n t"]:
        """`n` independent predictors, each evaluated at every row of X."""


@storable
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GaussianPrior:
    """theta ~ N(0, std^2 I). The paper's covariance 0.5 I is `std = sqrt(0.5)`."""

    std: float = math.sqrt(0.5)

    def log_density(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """ln p(theta), in nats."""
        return jnp.sum(norm.logpdf(theta, scale=self.std))

    def sample(self, key: Key, n: int, network: Network) -> Float[Array, "n p"]:
        """`n` independent thetas."""
        return self.std * standard_normal(key, (n, network.n_parameters))

    def sample_predictors(self, key: Key, n: int, network: Network, X: Float[Array, "t d"]) -> Float[Array, "n t"]:
        """f_theta(X) for `n` thetas of the prior."""
        return network.draws(self.sample(key, n, network), X)


@storable
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GaussianProcessPrior:
    """f ~ GP(0, variance * exp(-|x - x'|^2 / (2 length_scale^2))), in standardised units.

    A prior on predictors only: no theta has a density under it, so it serves the FuNN methods alone.
    """

    length_scale: float = 1.0
    variance: float = 1.0

    def covariance(self, X: Float[Array, "t d"]) -> Float[Array, "t t"]:
        """k(x, x') at every pair of rows."""
        squared = jnp.sum((X[:, None, :] - X[None, :, :]) ** 2, axis=-1)
        return self.variance * jnp.exp(-0.5 * squared / self.length_scale**2)

    def sample_predictors(self, key: Key, n: int, network: Network, X: Float[Array, "t d"]) -> Float[Array, "n t"]:
        """`n` independent functions at the rows of X; `network` plays no part."""
        # In float32 an RBF matrix is singular beyond a few close rows; this nugget is 1% of the prior's std.
        nugget = 1e-4 * self.variance * jnp.eye(len(X))
        root = jnp.linalg.cholesky(self.covariance(X) + nugget)
        return jax.random.normal(key, (n, len(X))) @ root.T
