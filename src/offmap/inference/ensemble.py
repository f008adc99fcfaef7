"""ensemble: the same network trained from many random starts."""

from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp

from offmap.arrays import Array, Batch, Data, Float, Key
from offmap.artifact import storable
from offmap.families import Empirical
from offmap.inference.method import SMALL_TABLE, Density, Fit
from offmap.likelihood import LITTLE_NOISE
from offmap.model import Model
from offmap.optimize import Training, minimize


@storable
@dataclass(frozen=True)
class Ensemble:
    """`members` networks that each minimise the mean squared error, all trained at once and apart.

    Neither prior nor noise takes part in the loss: the spread comes from the starts and the order of the rows alone.
    A small table with little noise leaves little to overfit: there the training is `longer_if_nearly_exact` times as
    long.
    """

    training: Training
    members: int = 10
    longer_if_nearly_exact: int = 1

    density: ClassVar[Density] = "gaussian"
    may_be_smooth: ClassVar[bool] = True

    @property
    def networks_at_once(self) -> int:
        """Of every member its theta, gradient, two averages, and copies."""
        return 6 * self.members

    def loss(
        self, key: Key, parameters: Float[Array, " p"], model: Model, batch: Batch, n_rows: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Mean squared error over the batch's rows."""
        squared = (batch.y - model.predict(parameters, batch.X)) ** 2
        return jnp.sum(batch.weight * squared) / jnp.sum(batch.weight)

    def fit(self, key: Key, model: Model, data: Data) -> Fit:
        """The trained members."""
        start_key, training_key = jax.random.split(key)
        starts = jax.vmap(model.network.initial)(jax.random.split(start_key, self.members))
        nearly_exact = float(model.noise_std) <= LITTLE_NOISE and len(data.y) <= SMALL_TABLE
        problem = replace(self, training=self.training.longer(self.longer_if_nearly_exact)) if nearly_exact else self
        minimum = minimize(training_key, problem, starts, model, data, many=True)
        return Fit(posterior=Empirical(thetas=minimum.parameters), trace=minimum.trace)
