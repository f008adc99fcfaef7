"""How good: separation of rows on and off the map, and error of the predictions."""

import numpy as np
from scipy.stats import rankdata


def auc(scores_in: np.ndarray, scores_out: np.ndarray) -> float:
    """The probability that a row off the map scores higher than one on it, ties counting half.

    >>> auc(np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    1.0
    """
    # By ranks rather than by a curve: a score may be -inf, where all predictors agree.
    n_in, n_out = len(scores_in), len(scores_out)
    ranks_out = rankdata(np.concatenate([scores_in, scores_out]))[n_in:]
    return float((np.sum(ranks_out) - n_out * (n_out + 1) / 2) / (n_in * n_out))


def rmse(y: np.ndarray, prediction: np.ndarray) -> float:
    """Root-mean-square error, in target units."""
    return float(np.sqrt(np.mean((np.asarray(y) - np.asarray(prediction)) ** 2)))
