"""nu(x): what each distribution keeps of the rows it is made from, and what it breaks."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from offmap.inputs import GivenRows, PermutedColumns, UniformBox

FOUR_SIGMA = 2 * stats.norm.sf(4)  # the p-value of |z| = 4
KEY = jax.random.key(0)


def test_box_is_uniform_on_its_own_bounds() -> None:
    box = UniformBox.around(jnp.array([[-1.0, 10.0], [3.0, 10.5], [0.0, 10.1]]))
    rows = np.asarray(box.sample(KEY, 5000), np.float64)
    for column, low, high in zip(rows.T, (-1.0, 10.0), (3.0, 10.5), strict=True):
        assert low <= column.min()
        assert column.max() <= high
        assert stats.kstest(column, stats.uniform(low, high - low).cdf).pvalue > FOUR_SIGMA
    assert stats.pearsonr(*rows.T).pvalue > FOUR_SIGMA


def test_constant_columns_stay_constant() -> None:
    X = jnp.array([[0.1, 1.0], [0.1, 2.0]])
    for widen in (1.0, 3.0):
        np.testing.assert_array_equal(UniformBox.around(X, widen).sample(KEY, 100)[:, 0], np.float32(0.1))


def test_widen_multiplies_the_sides_about_the_centre() -> None:
    box = UniformBox.around(jnp.array([[0.0, -4.0], [2.0, 4.0]]), widen=1.5)
    np.testing.assert_allclose(box.low, [-0.5, -6.0])
    np.testing.assert_allclose(box.high, [2.5, 6.0])


def test_permuted_columns_keep_marginals_and_break_the_joint() -> None:
    rows = jnp.arange(5.0)[:, None] * jnp.array([[1.0, 10.0]])  # perfectly correlated
    sample = np.asarray(PermutedColumns(rows).sample(KEY, 5000))
    counts = stats.contingency.crosstab(*sample.T)
    np.testing.assert_array_equal(counts.elements[0], rows[:, 0])
    np.testing.assert_array_equal(counts.elements[1], rows[:, 1])
    # All 25 pairs equally often: both marginals uniform over the rows, and independent.
    assert stats.chisquare(np.ravel(counts.count)).pvalue > FOUR_SIGMA


def test_given_rows_come_back_whole_and_equally_often() -> None:
    rows = jnp.arange(14.0).reshape(7, 2)
    sample = GivenRows(rows).sample(KEY, 5000)
    chosen = np.asarray(sample[:, 0] / 2, int)
    np.testing.assert_array_equal(sample, rows[chosen])
    assert stats.chisquare(np.bincount(chosen, minlength=7)).pvalue > FOUR_SIGMA
