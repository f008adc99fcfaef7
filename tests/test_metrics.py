"""Metrics against scikit-learn's, and AUC against counting pairs."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, root_mean_squared_error

from offmap.metrics import auc, rmse


@pytest.mark.parametrize("levels", [2, 5, 10_000])  # many ties, some, few
def test_auc_is_sklearns(levels: int) -> None:
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(0, levels, 80) / levels, rng.integers(0, levels, 50) / levels + 0.1
    labels = np.repeat([0, 1], [80, 50])
    assert auc(inside, outside) == pytest.approx(roc_auc_score(labels, np.concatenate([inside, outside])), abs=1e-12)


def test_auc_counts_pairs_also_where_all_predictors_agree() -> None:
    """scikit-learn refuses -inf, the score of a row at which all draws agree."""
    inside, outside = np.array([-np.inf, -np.inf, 0.0, 1.0]), np.array([-np.inf, 0.0, 2.0])
    pairs = [(out > own) + (out == own) / 2 for out in outside for own in inside]
    assert auc(inside, outside) == pytest.approx(np.mean(pairs), abs=1e-12)


def test_auc_is_symmetric_and_ignores_monotone_maps() -> None:
    rng = np.random.default_rng(1)
    inside, outside = rng.normal(size=30), rng.normal(1.0, size=20)
    assert auc(outside, inside) == pytest.approx(1 - auc(inside, outside), abs=1e-12)
    assert auc(np.exp(inside), np.exp(outside)) == auc(inside, outside)


def test_rmse_is_sklearns() -> None:
    y, prediction = np.random.default_rng(2).normal(size=(2, 40))
    assert rmse(y, prediction) == pytest.approx(root_mean_squared_error(y, prediction), rel=1e-12)
