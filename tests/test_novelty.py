"""Novelty against SciPy's distances, and what it must not depend on."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from offmap import novelty as module
from offmap.novelty import Reference, learn_reference, nearest, novelty, place, unknown_parts

RNG = np.random.default_rng(0)
ROWS, NEW = RNG.normal(size=(200, 4)) * [1, 10, 0.1, 5], RNG.normal(size=(50, 4)) * [2, 10, 0.1, 9]
WEIGHT = np.array([1.0, 1.0, 0.5, 0.5])
NONE = np.zeros(len(NEW), int)


@pytest.fixture(scope="module")
def reference() -> Reference:
    return learn_reference(ROWS, WEIGHT)


def by_hand(new: np.ndarray, rows: np.ndarray = ROWS, skip: int = 0) -> np.ndarray:
    """The mean of the five smallest distances, standardised and weighted, after the first `skip`."""
    scaled = [(values - rows.mean(axis=0)) / rows.std(axis=0) * WEIGHT for values in (new, rows)]
    return np.sort(cdist(*scaled), axis=1)[:, skip : skip + 5].mean(axis=1)


def test_it_is_the_mean_distance_to_the_five_nearest(reference: Reference) -> None:
    np.testing.assert_allclose(novelty(reference, NEW, NONE), by_hand(NEW), rtol=1e-5)


def test_an_unknown_cell_counts_as_the_distance_that_99_percent_of_rows_keep(reference: Reference) -> None:
    assert reference.unknown == pytest.approx(np.quantile(by_hand(ROWS, skip=1), 0.99), rel=1e-5)
    bare, once, twice = (novelty(reference, NEW, NONE + count) for count in (0, 1, 2))
    np.testing.assert_allclose(once - bare, reference.unknown, rtol=1e-5)
    np.testing.assert_allclose(twice - bare, 2 * reference.unknown, rtol=1e-5)


def test_parts_of_unknown_cells_are_what_the_squared_novelty_loses(reference: Reference) -> None:
    unknown = np.random.default_rng(1).random((len(NEW), 3)) < 0.4
    parts = unknown_parts(reference, NEW, unknown)
    assert (parts[~unknown] == 0).all()
    squared = np.square(by_hand(NEW) + unknown.sum(axis=1) * reference.unknown)
    without_one = np.square(by_hand(NEW) + (unknown.sum(axis=1) - 1) * reference.unknown)
    np.testing.assert_allclose(parts[unknown], (unknown * (squared - without_one)[:, None])[unknown], rtol=1e-5)


def test_neighbours_come_nearest_first_with_their_own_distance(reference: Reference) -> None:
    points = place(reference, NEW)
    found, distances = nearest(reference, points), cdist(points, reference.rows)
    np.testing.assert_array_equal(found.places, np.argsort(distances, axis=1)[:, :5])
    np.testing.assert_allclose(found.distances, np.sort(distances, axis=1)[:, :5])


def test_units_do_not_matter(reference: Reference) -> None:
    units, zeros = np.array([1000.0, 0.5, 1.0, 8.0]), np.array([1e6, 0.0, -3.0, 40.0])
    other = learn_reference(ROWS * units + zeros, WEIGHT)
    np.testing.assert_allclose(novelty(other, NEW * units + zeros, NONE), by_hand(NEW), rtol=1e-4)


def test_a_constant_column_changes_nothing(reference: Reference) -> None:
    rows, new = (np.column_stack([values, np.full(len(values), 7.7)]) for values in (ROWS, NEW))
    wider = learn_reference(rows, np.append(WEIGHT, 1.0))
    np.testing.assert_array_equal(novelty(wider, new, NONE), novelty(reference, NEW, NONE))


@pytest.mark.parametrize("few", [0, 10**9])
def test_copies_of_a_row_are_at_no_distance_wherever_they_lie(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW_PAIRS", few)
    # From products of matrices, a distance of 0 between rows near 1e6 standard deviations would come out as about 0.1.
    rows = np.concatenate([ROWS, np.tile([[1e9, 0, 0, 0]], (6, 1))])
    assert novelty(learn_reference(rows, WEIGHT), rows[-1:], np.zeros(1, int)) == 0


def test_a_row_is_answered_alike_whatever_the_rows_around_it(
    reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = novelty(reference, NEW, NONE)
    for size in (1, 7, 49):
        parts = [novelty(reference, NEW[i : i + size], NONE[i : i + size]) for i in range(0, len(NEW), size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    monkeypatch.setattr(module, "FEW_PAIRS", 0)
    np.testing.assert_array_equal(novelty(reference, NEW, NONE), whole)
    assert learn_reference(ROWS, WEIGHT).unknown == reference.unknown
    monkeypatch.setattr(module, "AT_ONCE", 60)
    np.testing.assert_array_equal(novelty(reference, NEW, NONE), whole)


def test_fewer_than_five_rows_are_all_neighbours() -> None:
    reference = learn_reference(ROWS[:3], WEIGHT)
    np.testing.assert_allclose(novelty(reference, NEW, NONE), by_hand(NEW, ROWS[:3]), rtol=1e-5)


def test_numbers_at_the_end_of_float64_are_far_and_finite(reference: Reference) -> None:
    far = novelty(reference, np.full((1, 4), 1e300), np.zeros(1, int))
    assert np.isfinite(far).all()
    assert far > 1e6
