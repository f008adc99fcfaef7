"""The alarm: conformal p-values, and the threshold that keeps a false-alarm rate. Larger scores are further out."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from offmap.artifact import storable


def conformal_p_values(scores: np.ndarray, calibration: np.ndarray) -> np.ndarray:
    """The share of calibration rows, the new row counted among them, that score at least as high: in (0, 1].

        p = (1 + #{i : c_i >= s}) / (n + 1)

    When the new row and the n calibration rows are exchangeable, P(p <= a) <= a for every a, whatever the score.

    >>> conformal_p_values(np.array([0.5, 9.0]), np.array([1.0, 2.0, 3.0]))
    array([1.  , 0.25])
    """
    return np.asarray((1 + _at_least(calibration, scores)) / (len(calibration) + 1))


def conformal_threshold(calibration: np.ndarray, false_alarm_rate: float) -> float:
    """The score above which `conformal_p_values` is at most the rate: flag a row when its score is larger.

    +inf, so that nothing is flagged, when the calibration rows are too few for the rate: fewer than 1 / rate - 1.
    """
    # p <= a  <=>  at most m = floor(a (n + 1)) - 1 calibration scores are >= s  <=>  s > the (m + 1)-th largest.
    # m is counted from the p-values themselves: the product a (n + 1) rounds, and would disagree with them.
    possible = np.arange(1, len(calibration) + 2) / (len(calibration) + 1)
    allowed = int(np.searchsorted(possible, false_alarm_rate, side="right")) - 1
    if allowed < 0:
        return math.inf
    if allowed >= len(calibration):
        return -math.inf
    return float(np.sort(calibration)[len(calibration) - 1 - allowed])


@storable
class Evidences(NamedTuple):
    """How strange rows are, twice: how much the predictors disagree (U), and how far they are from training rows."""

    disagreement: Float[np.ndarray, " n"]
    novelty: Float[np.ndarray, " n"]


class PValues(NamedTuple):
    """One p-value for each kind of evidence, and one for both together. Each alone keeps its promise."""

    disagreement: Float[np.ndarray, " n"]
    novelty: Float[np.ndarray, " n"]
    both: Float[np.ndarray, " n"]


def cross_p_values(new: Sequence[Evidences], calibration: Sequence[Evidences]) -> PValues:
    """p-values of rows that every fold has scored, against the rows that each fold did not learn from.

        p = (1 + sum_k #{i in fold k : row i is as strange as the new row, both scored by fold k}) / (n + 1)

    With one fold P(p <= a) <= a exactly; with K folds P(p <= a) <= 2 a + 2 (K - 1) / n.
    """
    n_rows = 1 + sum(len(fold.novelty) for fold in calibration)
    counts = np.array([_counts(rows, fold) for rows, fold in zip(new, calibration, strict=True)])
    return PValues(*((1 + counts.sum(axis=0)) / n_rows))


def _counts(new: Evidences, fold: Evidences) -> Int[np.ndarray, "3 n"]:
    """Calibration rows that are as strange as each new row: by disagreement, by novelty, by both."""
    by_kind = [_at_least(known, scores) for known, scores in zip(fold, new, strict=True)]
    return np.array([*by_kind, as_strange(new, fold)])


def as_strange(new: Evidences, fold: Evidences) -> Int[np.ndarray, " n"]:
    """How many of a fold's calibration rows are at least as strange as each new row, by the two scores together.

    In the pool of the calibration rows and the new row every row has, for each score, the number of rows that score at
    least as high; T is the smaller of its two numbers, and counted are the calibration rows with T no larger than the
    new row's. T treats all rows of the pool alike, which is what makes the p-value exact: nothing is lost to having
    asked twice.

    Counting takes no loop over pairs. Let A_i be row i's number by the first score without the new row, g the
    calibration rows that beat the new row, and t its T. Row i's number in the pool is A_i, or A_i + 1 if the new row
    scores at least as high (A_i > g), so that it is at most t just when A_i <= t (if t <= g) or A_i <= t - 1 (if not).
    """
    ranks = [_at_least(known, known) for known in fold]
    beaten = [_at_least(known, scores) for known, scores in zip(fold, new, strict=True)]
    smaller = 1 + np.minimum(*beaten)
    limits = [
        np.where(smaller <= _above(known, scores), smaller, smaller - 1)
        for known, scores in zip(fold, new, strict=True)
    ]
    either = sum(_at_most(rank, limit) for rank, limit in zip(ranks, limits, strict=True))
    # The two limits differ by at most 1, so rows within both are counted along three diagonals.
    shift = limits[1] - limits[0]
    both = np.select(
        [shift == step for step in (-1, 0, 1)],
        [_at_most(np.maximum(ranks[0], ranks[1] - step), limits[0]) for step in (-1, 0, 1)],
    )
    return np.asarray(either - both)


def _at_least(known: np.ndarray, scores: np.ndarray) -> Int[np.ndarray, " n"]:
    return len(known) - np.searchsorted(np.sort(known), scores, side="left")


def _above(known: np.ndarray, scores: np.ndarray) -> Int[np.ndarray, " n"]:
    return len(known) - np.searchsorted(np.sort(known), scores, side="right")


def _at_most(known: np.ndarray, limits: np.ndarray) -> Int[np.ndarray, " n"]:
    return np.searchsorted(np.sort(known), limits, side="right")
