"""How good: separation of rows on and off the map, error of the predictions, and how well a score ranks errors."""

import numpy as np
from scipy.stats import rankdata, spearmanr


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


def true_positive_rates(scores_in: np.ndarray, scores_out: np.ndarray, false_positive_rates: np.ndarray) -> np.ndarray:
    """The ROC curve: the share of rows off the map that is flagged where a given share of those on it is.

    Straight between its corners, as if ties were broken at random, so that the area under it is `auc`.

    >>> true_positive_rates(np.array([0.0, 1.0]), np.array([0.5, 3.0]), np.array([0.0, 0.5, 1.0]))
    array([0.5, 1. , 1. ])
    """
    thresholds = np.unique(np.concatenate([scores_in, scores_out]))[::-1]
    reached_in, reached_out = (
        np.concatenate([[0.0], np.searchsorted(np.sort(-scores), -thresholds, side="right") / len(scores)])
        for scores in (scores_in, scores_out)
    )
    before = np.searchsorted(reached_in, false_positive_rates, side="right") - 1
    after = np.minimum(before + 1, len(thresholds))
    width = reached_in[after] - reached_in[before]
    share = np.divide(false_positive_rates - reached_in[before], width, out=np.zeros(len(before)), where=width > 0)
    return np.asarray(reached_out[before] + share * (reached_out[after] - reached_out[before]))


def spearman(scores: np.ndarray, errors: np.ndarray) -> float:
    """Rank correlation of scores and errors: 1 when a higher score always means a larger error."""
    return float(spearmanr(scores, errors).statistic)


def risk_coverage_area(scores: np.ndarray, errors: np.ndarray) -> float:
    """Area under the risk-coverage curve: the mean error of the share of rows with the lowest scores, over all shares.

    Less is better. Ties count as broken at random; a score that says nothing gives the mean error.

    >>> risk_coverage_area(np.array([0.0, 1.0]), np.array([0.0, 2.0]))
    0.5
    """
    _, group = np.unique(scores, return_inverse=True)
    expected = (np.bincount(group, weights=errors) / np.bincount(group))[group]
    risks = np.cumsum(expected[np.argsort(scores, kind="stable")]) / np.arange(1, len(scores) + 1)
    return float(np.mean(risks))
