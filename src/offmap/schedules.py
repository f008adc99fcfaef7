"""How the learning rate falls while a problem is minimised, and when that ends."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax.numpy as jnp

from offmap.arrays import Array, Float, Int
from offmap.artifact import storable


class Pace(NamedTuple):
    """Where a schedule stands: the current factor on the learning rate, and what decides the next."""

    factor: Float[Array, ""]
    best_loss: Float[Array, ""]
    bad_epochs: Int[Array, ""]


class Schedule:
    """The full rate all the time, to the end. Others say where they differ."""

    stop_rate: float = 0.0

    def first_factor(self, n_rows: int) -> float:
        """The factor on the rate at the start."""
        return 1.0

    def within_epoch(self, pace: Pace, progress: Float[Array, ""]) -> Float[Array, ""]:
        """The factor of one step, after the share `progress` of all steps."""
        return pace.factor

    def after_epoch(self, pace: Pace, loss: Float[Array, ""]) -> Pace:
        """What an epoch's mean loss decides about the next."""
        return pace


@storable
@dataclass(frozen=True)
class Plateau(Schedule):
    """Multiply the rate by `factor` when the epoch's mean loss has not improved by `threshold`, relative, for
    `patience` epochs; stop once the rate is at most `stop_rate`. The paper's schedule."""

    factor: float = 0.7
    patience: int = 30
    threshold: float = 1e-4
    stop_rate: float = 1e-4
    max_epochs: int = 2000

    def n_epochs(self, n_rows: int, batches_per_epoch: int) -> int:
        """Epochs at the most."""
        return self.max_epochs

    def longer(self, times: int) -> "Plateau":
        """Patient for so many times as many epochs."""
        return replace(self, patience=times * self.patience, max_epochs=times * self.max_epochs)

    def after_epoch(self, pace: Pace, loss: Float[Array, ""]) -> Pace:
        """Count the epochs without progress and cut the rate when they exceed the patience."""
        # |best|, since a relative step below a negative loss lies further down, not nearer to zero.
        improved = loss < pace.best_loss - self.threshold * jnp.abs(pace.best_loss)
        improved |= jnp.isinf(pace.best_loss)
        bad_epochs = jnp.where(improved, 0, pace.bad_epochs + 1)
        cut = bad_epochs > self.patience
        return Pace(
            factor=jnp.where(cut, pace.factor * self.factor, pace.factor),
            best_loss=jnp.where(improved, loss, pace.best_loss),
            bad_epochs=jnp.where(cut, 0, bad_epochs),
        )


@storable
@dataclass(frozen=True)
class Cosine(Schedule):
    """A fixed number of gradient steps, the rate falling along half a cosine from the full rate to zero.

    `enough_for`: the most rows that `steps` are enough for. With more rows they grow in proportion, up to `most_steps`,
    and the full rate falls with their fourth root: there is time for smaller steps, which end lower.
    """

    steps: int = 2000
    enough_for: int | None = None
    most_steps: int = 60_000

    def n_epochs(self, n_rows: int, batches_per_epoch: int) -> int:
        """Whole epochs that hold at least so many batches."""
        return math.ceil(self._steps(n_rows) / batches_per_epoch)

    def longer(self, times: int) -> "Cosine":
        """So many times the steps, at the same full rate."""
        return replace(self, steps=times * self.steps, most_steps=times * self.most_steps)

    def first_factor(self, n_rows: int) -> float:
        """The factor on the rate that makes it the full one."""
        return float((self.steps / self._steps(n_rows)) ** 0.25)

    def _steps(self, n_rows: int) -> float:
        wanted = self.steps if self.enough_for is None else self.steps * n_rows / self.enough_for
        return max(self.steps, min(wanted, self.most_steps))

    def within_epoch(self, pace: Pace, progress: Float[Array, ""]) -> Float[Array, ""]:
        """The factor after the share `progress` of all steps."""
        return pace.factor * (0.5 * (1 + jnp.cos(jnp.pi * progress)))


@storable
@dataclass(frozen=True)
class Constant(Schedule):
    """A fixed number of epochs at one rate."""

    epochs: int = 2000

    def n_epochs(self, n_rows: int, batches_per_epoch: int) -> int:
        """`epochs`, however many batches each has."""
        return self.epochs

    def longer(self, times: int) -> "Constant":
        """So many times the epochs."""
        return replace(self, epochs=times * self.epochs)
