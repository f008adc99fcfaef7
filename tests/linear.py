"""A regressor in closed form, so that a detector can be fitted a thousand times, and rows for it."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from offmap import DiverseRegressor
from offmap.arrays import Data, Key
from offmap.families import Empirical
from offmap.inference import Fit
from offmap.inference.method import Density
from offmap.model import Model

NOISE_STD = 0.3


@dataclass(frozen=True)
class WeightedLeastSquares:
    """Linear members, each the least-squares fit to the rows under random weights (the Bayesian bootstrap)."""

    members: int = 20

    density: ClassVar[Density] = "gaussian"
    may_be_smooth: ClassVar[bool] = False
    networks_at_once: ClassVar[int] = 20

    def fit(self, key: Key, model: Model, data: Data) -> Fit:
        random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        columns = np.column_stack([data.X, np.ones(len(data.y))])
        weights = random.exponential(size=(self.members, len(data.y)))
        gram = np.einsum("mn,ni,nj->mij", weights, columns, columns) + 1e-6 * np.eye(columns.shape[1])
        thetas = np.linalg.solve(gram, np.einsum("mn,ni,n->mi", weights, columns, data.y)[..., None])[..., 0]
        return Fit(posterior=Empirical(thetas=jnp.asarray(thetas, jnp.float32)), trace={})


LINEAR = DiverseRegressor(WeightedLeastSquares(), noise_std=NOISE_STD, hidden=(), random_state=0)


def simulated(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + NOISE_STD * random.normal(size=n_rows)
