"""mc-dropout: one network whose hidden units are dropped at random, in training and after."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from offmap.arrays import Array, Batch, Data, Float, Key
from offmap.artifact import storable
from offmap.families import DropoutMasks, dropout_gates
from offmap.inference.method import Density, Fit
from offmap.likelihood import gaussian_log_density
from offmap.model import Model
from offmap.optimize import Training, minimize


@storable
@dataclass(frozen=True)
class MCDropout:
    """Minimise the negative log-likelihood of a batch under dropout, plus an L2 penalty.

    The penalty is `decay / sqrt(n)` on theta^2 / 2: the value in the authors' code (the paper prints 10^(-1/sqrt n)).
    """

    training: Training
    rate: float = 0.05
    decay: float = 0.1

    density: ClassVar[Density] = "gaussian"
    may_be_smooth: ClassVar[bool] = False
    networks_at_once: ClassVar[int] = 6  # theta, its gradient, two averages, and copies

    def loss(
        self, key: Key, parameters: Float[Array, " p"], model: Model, batch: Batch, n_rows: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Negative log-likelihood, summed over the batch's rows, each with its own mask, plus the penalty."""
        gates = dropout_gates(key, model.network, self.rate, rows=(len(batch.y),))
        values = model.network.apply(parameters, batch.X, gates)[:, 0]
        log_density = gaussian_log_density(batch.y, values, model.noise_std)
        penalty = 0.5 * self.decay / jnp.sqrt(n_rows) * jnp.sum(parameters**2)
        return penalty - jnp.sum(batch.weight * log_density)

    def fit(self, key: Key, model: Model, data: Data) -> Fit:
        """The trained network with its random masks."""
        start_key, training_key = jax.random.split(key)
        minimum = minimize(training_key, self, model.network.initial(start_key), model, data)
        posterior = DropoutMasks(network=model.network, theta=minimum.parameters, rate=self.rate)
        return Fit(posterior=posterior, trace=minimum.trace)
