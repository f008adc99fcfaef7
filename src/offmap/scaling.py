"""To standardised units and back. In float64, before anything is rounded to float32."""

from typing import NamedTuple

import numpy as np

from offmap.artifact import storable

FURTHEST = 1e9  # standardised values are cut here: far beyond any table, and their squares still fit in float32


@storable
class Scale(NamedTuple):
    """Mean and standard deviation of a column, or of each of several. A constant column keeps the scale 1."""

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> "Scale":
        """The scale of training values, column by column.

        >>> Scale.of(np.array([[0.0, 5.0], [2.0, 5.0]]))
        Scale(mean=array([1., 5.]), std=array([1., 1.]))
        """
        mean, std = np.mean(values, axis=0), np.std(values, axis=0)
        # By the range: the computed std of a constant column is the rounding error of its mean, which grows with rows.
        constant = np.ptp(values, axis=0) <= 8 * np.finfo(np.float64).eps * np.abs(mean)
        return cls(mean=mean, std=np.where(constant | (std == 0), 1.0, std))

    def standardise(self, values: np.ndarray) -> np.ndarray:
        """To mean 0 and standard deviation 1, as float32."""
        return np.asarray(np.clip((values - self.mean) / self.std, -FURTHEST, FURTHEST), dtype=np.float32)

    def restore(self, values: np.ndarray) -> np.ndarray:
        """Back to the user's units, as float64."""
        return np.asarray(values, dtype=np.float64) * self.std + self.mean
