"""nu(x): the inputs on which predictors should differ, and which stand for rows off the map."""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from offmap.arrays import Array, Float, Key
from offmap.artifact import storable


class InputDistribution(Protocol):
    """A distribution over rows of inputs, nu in the paper."""

    def sample(self, key: Key, n: int) -> Float[Array, "n d"]:
        """`n` independent rows."""


@storable
class UniformBox(NamedTuple):
    """Every column uniform on its own [low, high], independently: the paper's nu. Constant columns stay constant."""

    low: Float[Array, " d"]
    high: Float[Array, " d"]

    @classmethod
    def around(cls, X: Float[Array, "n d"], widen: float = 1.0) -> "UniformBox":
        """The box of the rows of X, its sides multiplied by `widen` about its centre.

        >>> UniformBox.around(jnp.array([[0.0], [2.0]]), widen=2.0)
        UniformBox(low=Array([-1.], dtype=float32), high=Array([3.], dtype=float32))
        """
        low, high = jnp.min(X, axis=0), jnp.max(X, axis=0)
        margin = (widen - 1.0) * (high - low) / 2
        return cls(low=low - margin, high=high + margin)

    def sample(self, key: Key, n: int) -> Float[Array, "n d"]:
        """`n` rows of the box."""
        return jax.random.uniform(key, (n, len(self.low)), minval=self.low[None, :], maxval=self.high[None, :])


@storable
class PermutedColumns(NamedTuple):
    """Each column drawn from the rows on its own: marginals kept, joint broken."""

    rows: Float[Array, "m d"]

    def sample(self, key: Key, n: int) -> Float[Array, "n d"]:
        """`n` rows whose columns come from different rows."""
        m, d = self.rows.shape
        chosen = jax.random.randint(key, (n, d), 0, m)
        return jnp.take_along_axis(self.rows, chosen, axis=0)


@storable
class GivenRows(NamedTuple):
    """Rows that the user gives, drawn with replacement."""

    rows: Float[Array, "m d"]

    def sample(self, key: Key, n: int) -> Float[Array, "n d"]:
        """`n` of the given rows."""
        return self.rows[jax.random.randint(key, (n,), 0, len(self.rows))]
