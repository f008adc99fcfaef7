"""What a user would reach for instead: distances in input space, and a Gaussian process. All from scikit-learn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.ensemble import IsolationForest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.neighbors import NearestNeighbors

from offmap.predictive import epistemic_uncertainty
from offmap.scaling import Scale

ROWS_AT_ONCE = 2000
Score = Callable[[np.ndarray], np.ndarray]


class Scorer(Protocol):
    """What is fitted: it says of new rows how far off the map they are. It may predict, too, as a regressor does."""

    def uncertainty(self, X: Any) -> np.ndarray:
        """The score of every row: larger is further out."""


class Baseline(Protocol):
    """A frozen dataclass whose fields are the hyper-parameters."""

    def fit(self, X: np.ndarray, y: np.ndarray, seed: int) -> Scorer:
        """Learn from training rows."""


@dataclass(frozen=True)
class InputScore:
    """A score of standardised inputs, which knows nothing of the target."""

    x_scale: Scale
    score: Score

    def uncertainty(self, X: Any) -> np.ndarray:
        """The score of every row: larger is further out."""
        return np.asarray(self.score(self.x_scale.standardise(X)), np.float64)


@dataclass(frozen=True)
class NeighbourDistance:
    """The distance to the `k`-th nearest training row. A training row counts as its own nearest."""

    k: int = 5

    def fit(self, X: np.ndarray, y: np.ndarray, seed: int) -> InputScore:
        """Keep the training rows."""
        scale = Scale.of(X)
        neighbours = NearestNeighbors(n_neighbors=self.k).fit(scale.standardise(X))
        return InputScore(scale, lambda rows: neighbours.kneighbors(rows)[0][:, -1])


@dataclass(frozen=True)
class Forest:
    """scikit-learn's isolation forest: how few random cuts set a row apart."""

    trees: int = 100

    def fit(self, X: np.ndarray, y: np.ndarray, seed: int) -> InputScore:
        """Grow the trees."""
        scale = Scale.of(X)
        forest = IsolationForest(n_estimators=self.trees, random_state=seed).fit(scale.standardise(X))
        return InputScore(scale, lambda rows: -forest.score_samples(rows))


@dataclass(frozen=True)
class Mahalanobis:
    """The distance from the mean in units of the covariance; directions without any variance do not count."""

    def fit(self, X: np.ndarray, y: np.ndarray, seed: int) -> InputScore:
        """Estimate mean and covariance."""
        scale = Scale.of(X)
        return InputScore(scale, EmpiricalCovariance().fit(scale.standardise(X)).mahalanobis)


@dataclass(frozen=True)
class GaussianProcess:
    """Gaussian-process regression, one length scale a column, plus white noise, on at most `max_rows` rows."""

    max_rows: int = 1000

    def fit(self, X: np.ndarray, y: np.ndarray, seed: int) -> "FittedProcess":
        """Maximise the marginal likelihood."""
        scale = Scale.of(X)
        chosen = np.sort(np.random.default_rng(seed).permutation(len(X))[: self.max_rows])
        kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
        process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
        return FittedProcess(scale, process.fit(scale.standardise(X[chosen]).astype(np.float64), y[chosen]))


@dataclass(frozen=True)
class FittedProcess:
    """A Gaussian process that answers as a `DiverseRegressor` does."""

    x_scale: Scale
    process: GaussianProcessRegressor

    @property
    def noise_std_(self) -> float:
        """The noise it found, in target units."""
        return float(np.sqrt(self.process.kernel_.k2.noise_level) * self.process._y_train_std)

    def _moments(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and total std of every row."""
        rows = self.x_scale.standardise(X).astype(np.float64)
        pieces = [rows[first : first + ROWS_AT_ONCE] for first in range(0, len(rows), ROWS_AT_ONCE)]
        mean, std = zip(*(self.process.predict(piece, return_std=True) for piece in pieces), strict=True)
        return np.concatenate(mean), np.concatenate(std)

    def predict(self, X: Any) -> np.ndarray:
        """The mean, in target units."""
        return self._moments(X)[0]

    def uncertainty(self, X: Any) -> np.ndarray:
        """U of the total std, in nats. The noise in it is the same for every row, so it does not change their order."""
        return epistemic_uncertainty(self._moments(X)[1] ** 2)

    def log_predictive_density(self, X: Any, y: np.ndarray) -> np.ndarray:
        """ln p(y | x) of every row, in nats, for a target in its own unit."""
        mean, std = self._moments(X)
        return np.asarray(-0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi))


BASELINES: dict[str, Baseline] = {
    "knn-distance": NeighbourDistance(),
    "isolation-forest": Forest(),
    "mahalanobis": Mahalanobis(),
    "gaussian-process": GaussianProcess(),
}
