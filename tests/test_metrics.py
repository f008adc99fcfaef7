"""Metrics against scikit-learn's, and against counting by hand."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve, root_mean_squared_error

from offmap.metrics import auc, risk_coverage_area, rmse, spearman, true_positive_rates


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


@pytest.mark.parametrize("levels", [3, 10_000])
def test_the_roc_curve_is_sklearns_and_its_area_is_the_auc(levels: int) -> None:
    rng = np.random.default_rng(3)
    inside, outside = rng.integers(0, levels, 80) / levels, rng.integers(0, levels, 50) / levels + 0.1
    rates, hits, _ = roc_curve(np.repeat([0, 1], [80, 50]), np.concatenate([inside, outside]), drop_intermediate=False)
    corners = np.unique(rates)
    highest = [hits[rates == rate].max() for rate in corners]
    np.testing.assert_allclose(true_positive_rates(inside, outside, corners), highest, atol=1e-12)
    fine = np.linspace(0, 1, 80 * 50 + 1)
    assert np.trapezoid(true_positive_rates(inside, outside, fine), fine) == pytest.approx(
        auc(inside, outside), abs=1e-3
    )


def test_the_roc_curve_breaks_ties_at_random_also_where_all_predictors_agree() -> None:
    same, rates = np.full(4, -np.inf), np.array([0.0, 0.25, 1.0])
    np.testing.assert_allclose(true_positive_rates(same, same, rates), rates)
    np.testing.assert_allclose(true_positive_rates(same, np.array([-np.inf, 0.0]), rates), [0.5, 0.625, 1.0])


def test_spearman_is_pearson_of_ranks_and_knows_order_only() -> None:
    scores, errors = np.random.default_rng(4).normal(size=(2, 50))
    ranks = np.array([np.argsort(np.argsort(values)) for values in (scores, errors)])
    assert spearman(scores, errors) == pytest.approx(np.corrcoef(ranks)[0, 1], abs=1e-12)
    assert spearman(np.exp(scores), scores) == pytest.approx(1.0)


def test_the_risk_coverage_area_is_the_mean_over_all_coverages() -> None:
    scores, errors = np.random.default_rng(5).normal(size=(2, 40)) ** 2
    kept = [sorted(zip(scores, errors, strict=True))[:count] for count in range(1, 41)]
    slowly = [sum(error for _, error in rows) / len(rows) for rows in kept]
    assert risk_coverage_area(scores, errors) == pytest.approx(np.mean(slowly), abs=1e-12)


def test_the_risk_coverage_area_lies_between_oracle_and_chance() -> None:
    errors = np.random.default_rng(6).normal(size=200) ** 2
    oracle, chance = risk_coverage_area(errors, errors), risk_coverage_area(np.zeros(200), errors)
    assert chance == pytest.approx(errors.mean())
    shuffled = [risk_coverage_area(np.random.default_rng(n).permutation(200), errors) for n in range(400)]
    assert min(shuffled) > oracle
    assert abs(np.mean(shuffled) - chance) < 4 * np.std(shuffled) / 20
