"""A fold of the calibration: what learned from some of the rows, and what it says about the others."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from sklearn.model_selection import KFold, train_test_split

from offmap.artifact import storable
from offmap.encoding import Lost, Rows, seen_by_fold
from offmap.novelty import MOST_FLOATS, MOST_ROWS, Reference, novelty
from offmap.ood import Evidences
from offmap.predictive import epistemic_uncertainty
from offmap.regressor import DiverseRegressor
from offmap.table import Column

HELD_OUT_SHARE, N_FOLDS, ENOUGH_HELD_OUT = 0.2, 5, 200


class Split(NamedTuple):
    """Places of the rows to learn from, and of those to calibrate on."""

    learned: Int[np.ndarray, " l"]
    kept_back: Int[np.ndarray, " c"]


def splits_of(n_rows: int, calibration: str, false_alarm_rate: float, random: np.random.RandomState) -> list[Split]:
    """One split when a fifth of the rows is enough to calibrate on, else five; or as `calibration` says."""
    if calibration == "auto":
        enough = HELD_OUT_SHARE * n_rows >= max(ENOUGH_HELD_OUT, 10 / false_alarm_rate)
        calibration = "held-out" if enough else "cross-fit"
    rows = np.arange(n_rows)
    if calibration == "held-out":
        return [Split(*map(np.sort, train_test_split(rows, test_size=HELD_OUT_SHARE, random_state=random)))]
    return [Split(*pair) for pair in KFold(min(N_FOLDS, n_rows), shuffle=True, random_state=random).split(rows)]


@storable
class TrainingRows(NamedTuple):
    """Training rows that are kept for comparison: at most 10,000.

    row: the place in the training table. fold: which fold did not learn from it, -1 if all did.
    """

    row: Int[np.ndarray, " m"]
    features: Float[np.ndarray, "m d"]
    y: Float[np.ndarray, " m"]
    fold: Int[np.ndarray, " m"]


def training_rows(rows: Rows, y: np.ndarray, splits: list[Split], random: np.random.RandomState) -> TrainingRows:
    """The rows that some fold learns from, or as many of them, at random, as are kept."""
    fold = np.full(len(y), -1)
    for number, split in enumerate(splits):
        fold[split.kept_back] = number
    learned = np.unique(np.concatenate([split.learned for split in splits]))
    most = max(2 * N_FOLDS, min(MOST_ROWS, MOST_FLOATS // rows.features.shape[1]))
    if len(learned) > most:
        learned = np.sort(random.choice(learned, most, replace=False))
    return TrainingRows(row=learned, features=rows.features[learned], y=y[learned], fold=fold[learned])


@storable
class Fold(NamedTuple):
    """A regressor, and the training rows that novelty is measured from: both without the rows kept back.

    lost: what only the rows kept back showed.
    """

    regressor: Any
    reference: Reference
    lost: tuple[Lost, ...]

    @property
    def has_predictors(self) -> bool:
        """Whether there are predictors that can disagree."""
        return isinstance(self.regressor, DiverseRegressor)

    @property
    def noise_variance(self) -> float:
        """The noise of the target, squared; NaN where the regressor does not say."""
        return float(getattr(self.regressor, "noise_std_", math.nan)) ** 2


class Answers(NamedTuple):
    """What one fold says of each row. Without predictors that could disagree, variance and U are NaN."""

    mean: Float[np.ndarray, " n"]
    variance: Float[np.ndarray, " n"]
    evidences: Evidences


def ask(fold: Fold, columns: Sequence[Column], rows: Rows) -> Answers:
    """The fold's prediction, spread, U and novelty of each row."""
    features, unknown = seen_by_fold(columns, rows, fold.lost)
    if fold.has_predictors:
        mean, variance = fold.regressor._moments(features)
    else:
        mean = np.asarray(fold.regressor.predict(features), np.float64).reshape(len(features))
        variance = np.full(len(mean), math.nan)
    far = novelty(fold.reference, features, unknown.sum(axis=1))
    return Answers(mean, variance, Evidences(disagreement=epistemic_uncertainty(variance), novelty=far))


def held_out_answers(
    fold: Fold, number: int, answers: Answers, row: np.ndarray, y: np.ndarray
) -> dict[str, np.ndarray]:
    """What a fold says about the rows that were kept back from it, by name."""
    return {
        "row": row,
        "fold": np.full(len(row), number),
        "y": y,
        "prediction": answers.mean,
        "std_epistemic": np.sqrt(answers.variance),
        "std_total": np.sqrt(answers.variance + fold.noise_variance),
        "ood_score": answers.evidences.disagreement,
        "novelty": answers.evidences.novelty,
    }
