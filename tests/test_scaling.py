"""Scaling against scikit-learn's, there and back, and columns that do not vary."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from offmap.scaling import Scale

COLUMNS = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 1e6, 1e-6] + [0.0, 1e8, 5.0]


def test_standardised_columns_are_sklearns() -> None:
    standardised = Scale.of(COLUMNS).standardise(COLUMNS)
    assert standardised.dtype == np.float32
    np.testing.assert_allclose(standardised, StandardScaler().fit_transform(COLUMNS), rtol=1e-6, atol=1e-7)


def test_restore_inverts_standardise() -> None:
    scale = Scale.of(COLUMNS)
    restored = scale.restore(scale.standardise(COLUMNS))
    assert np.max(np.abs(restored - COLUMNS) / scale.std) < 4 * np.finfo(np.float32).eps


def test_a_target_is_scaled_as_one_column() -> None:
    scale = Scale.of(COLUMNS[:, 1])
    np.testing.assert_allclose([scale.mean, scale.std], [COLUMNS[:, 1].mean(), COLUMNS[:, 1].std()])


@pytest.mark.parametrize("n_rows", [2, 100, 100_000])  # the rounding error of a mean grows with the rows
@pytest.mark.parametrize("value", [0.0, 0.1, -1e9, 1e-300])
def test_constant_columns_keep_the_scale_one(value: float, n_rows: int) -> None:
    values = np.column_stack([np.full(n_rows, value), np.arange(n_rows)])
    scale = Scale.of(values)
    assert scale.std[0] == 1
    np.testing.assert_allclose(scale.std[1], np.sqrt((n_rows**2 - 1) / 12))  # of 0, 1, ..., n - 1
    np.testing.assert_allclose(scale.standardise(values)[:, 0], 0.0, atol=1e-11 * abs(value))


def test_a_column_that_varies_by_rounding_alone_is_constant() -> None:
    assert Scale.of(np.array([0.3, 0.1 + 0.2, 0.3])).std == 1


def test_a_small_spread_on_a_large_mean_is_kept() -> None:
    np.testing.assert_allclose(Scale.of(np.array([1e6, 1e6 + 1e-6])).std, 0.5e-6, rtol=1e-3)
