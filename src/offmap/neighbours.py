"""Euclidean distance to the k-th nearest neighbour: exact, differentiable, and in n x m memory for any dimension."""

import jax
import jax.numpy as jnp

from offmap import kernels
from offmap.arrays import Array, Float, Int

# Columns handled per pass over the n x m matrix: enough arithmetic to hide the memory traffic.
BLOCK = 16


def squared_distances(A: Float[Array, "n d"], B: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """|a - b|^2 for every pair of rows, from the differences themselves.

    The usual |a|^2 + |b|^2 - 2ab loses all digits when rows are close to each other and far from the origin; this sums
    squared differences, block of columns by block of columns, so the n x m x d array never exists.
    """
    padding = -A.shape[1] % BLOCK
    columns_a, columns_b = (jnp.pad(rows, ((0, 0), (0, padding))).T.reshape(-1, BLOCK, len(rows)) for rows in (A, B))

    def add_block(
        total: Float[Array, "n m"], block: tuple[Float[Array, "b n"], Float[Array, "b m"]]
    ) -> tuple[Float[Array, "n m"], None]:
        for a, b in zip(*block, strict=True):
            total = total + (a[:, None] - b[None, :]) ** 2
        return total, None

    return jax.lax.scan(add_block, jnp.zeros((len(A), len(B)), A.dtype), (columns_a, columns_b))[0]


def nearest(
    queries: Float[Array, "n d"], points: Float[Array, "m d"], k: int, skip_self: bool = False
) -> Int[Array, " n"]:
    """The index of each query's k-th nearest point. `skip_self`: query i is point i, and not its own neighbour."""
    if k == 1 and queries.dtype == points.dtype == jnp.float32 and kernels.are_here():
        return kernels.nearest(queries, points, skip_self)
    squared = squared_distances(queries, points)
    if skip_self:
        squared = jnp.where(jnp.eye(len(queries), dtype=bool), jnp.inf, squared)
    if k == 1:
        return jnp.argmin(squared, axis=1)
    return jax.lax.top_k(-squared, k)[1][:, k - 1]


def log_neighbour_distance(
    queries: Float[Array, "n d"], points: Float[Array, "m d"], k: int, floor: float, skip_self: bool = False
) -> Float[Array, " n"]:
    """ln of the distance from each query to its k-th nearest point, the distance being at least `floor`.

    Which point is nearest is piecewise constant, so the gradient flows through the chosen pair alone. Where the floor
    holds, or the pair coincides, the value does not depend on the rows and the gradient is zero.
    """
    chosen = nearest(*jax.lax.stop_gradient((queries, points)), k, skip_self)
    squared = jnp.sum((queries - points[chosen]) ** 2, axis=1)
    apart = ~(squared <= floor**2)  # NaN is not under the floor: it stays, and is seen
    # The inner `where` keeps the gradient of log finite on the branch that the outer one drops.
    free = 0.5 * jnp.log(jnp.where(apart, squared, 1.0))
    return jnp.where(apart, free, jnp.log(jnp.asarray(floor, squared.dtype)))
