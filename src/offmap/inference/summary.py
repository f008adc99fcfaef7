"""A table in few rows: what guides trajectories where going through all rows at every step would take hours."""

import jax.numpy as jnp
import numpy as np
from sklearn.cluster import MiniBatchKMeans

from offmap.arrays import Batch, Data

LEAST_STD = 0.05  # of the target's and the columns' stds: directions in which rows vary less hardly separate them


def summarised(data: Data, n_rows: int) -> Batch:
    """The means of at most `n_rows` groups of rows that are alike, each with the number of rows that it stands for.

    Rows are alike when their targets and their inputs' principal components are, each component in units of its own
    std: where columns nearly depend on each other, what tells the target is often in the components that vary least.
    The same rows give the same groups.
    """
    X, y = np.asarray(data.X, np.float64), np.asarray(data.y, np.float64)
    if n_rows >= len(y):
        return Batch(X=data.X, y=data.y, weight=jnp.ones_like(data.y))
    groups = MiniBatchKMeans(n_rows, n_init=1, batch_size=4096, random_state=0).fit_predict(_coordinates(X, y))
    _, groups, counts = np.unique(groups, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), X.shape[1] + 1))
    np.add.at(sums, groups, np.column_stack([X, y]))
    means = jnp.asarray(sums / counts[:, None], data.X.dtype)
    return Batch(X=means[:, :-1], y=means[:, -1], weight=jnp.asarray(counts, data.y.dtype))


def _coordinates(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where rows are, for the purpose of telling which are alike."""
    centred = X - X.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    stds = sizes / np.sqrt(len(X))
    return np.column_stack([centred @ directions.T / np.maximum(stds, LEAST_STD), y])
