"""The alarm: conformal p-values, and the threshold that keeps a false-alarm rate. Larger scores are further out."""

import math

import numpy as np


def conformal_p_values(scores: np.ndarray, calibration: np.ndarray) -> np.ndarray:
    """The share of calibration rows, the new row counted among them, that score at least as high: in (0, 1].

        p = (1 + #{i : c_i >= s}) / (n + 1)

    When the new row and the n calibration rows are exchangeable, P(p <= a) <= a for every a, whatever the score.

    >>> conformal_p_values(np.array([0.5, 9.0]), np.array([1.0, 2.0, 3.0]))
    array([1.  , 0.25])
    """
    ordered = np.sort(calibration)
    at_least = len(ordered) - np.searchsorted(ordered, scores, side="left")
    return np.asarray((1 + at_least) / (len(ordered) + 1))


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
