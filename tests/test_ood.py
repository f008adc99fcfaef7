"""The alarm against counting by hand, and its promise by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offmap.ood import Evidences, as_strange, conformal_p_values, conformal_threshold, cross_p_values

# Few different values, so that ties are common; -inf is the score where all draws agree.
SCORES = st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf]), min_size=1, max_size=30)


@settings(deadline=None, derandomize=True)
@given(scores=SCORES, calibration=SCORES)
def test_p_values_count_the_rows_that_score_as_high(scores: list[float], calibration: list[float]) -> None:
    expected = [(1 + sum(c >= s for c in calibration)) / (len(calibration) + 1) for s in scores]
    np.testing.assert_array_equal(conformal_p_values(np.array(scores), np.array(calibration)), expected)


@pytest.mark.parametrize("ties", [False, True])
def test_ordinary_rows_are_flagged_no_more_often_than_promised(ties: bool) -> None:
    """P(p <= j / (n + 1)) is j / (n + 1) exactly without ties, and at most that with them."""
    rng, n, n_trials = np.random.default_rng(0), 19, 20_000
    scores = rng.integers(0, 8, (n_trials, n + 1)) if ties else rng.normal(size=(n_trials, n + 1))
    p_values = np.array([conformal_p_values(row[:1], row[1:])[0] for row in scores])
    for rate in (0.05, 0.1, 0.3, 0.9):
        z = (np.mean(p_values <= rate) - rate) / math.sqrt(rate * (1 - rate) / n_trials)
        assert z < 4
        assert ties or z > -4


def rates_around(n: int) -> list[float]:
    """Every p-value that n calibration rows can give, and its two neighbours in float64; inside (0, 1)."""
    exact = [j / (n + 1) for j in range(1, n + 2)]
    near = [math.nextafter(rate, side) for rate in exact for side in (0.0, 2.0)]
    return [rate for rate in (*exact, *near, 1e-9, 0.05) if 0 < rate < 1]


@pytest.mark.parametrize("n", [1, 2, 9, 19, 48, 99, 200])
def test_a_row_is_above_the_threshold_exactly_when_its_p_value_is_at_most_the_rate(n: int) -> None:
    rng = np.random.default_rng(n)
    for calibration in (rng.normal(size=n), rng.integers(0, 4, n).astype(float), np.full(n, -np.inf)):
        scores = np.concatenate([calibration, calibration + 0.5, [-np.inf, np.inf]])
        p_values = conformal_p_values(scores, calibration)
        for rate in rates_around(n):
            flagged = scores > conformal_threshold(calibration, rate)
            np.testing.assert_array_equal(flagged, p_values <= rate)


def test_too_few_rows_for_the_rate_flag_nothing() -> None:
    assert conformal_threshold(np.zeros(18), 0.05) == math.inf
    assert conformal_threshold(np.zeros(19), 0.05) == 0.0  # 1 / 0.05 - 1 rows are just enough


def test_a_rate_of_one_flags_everything() -> None:
    assert conformal_threshold(np.zeros(5), 1.0) == -math.inf


# --- two kinds of evidence ---

# Small whole numbers, so that ties within and between the scores are common.
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=25)


def evidences(pairs: list[tuple[int, int]]) -> Evidences:
    return Evidences(*np.array(pairs, float).T)


def counted_by_hand(new: tuple[int, int], fold: list[tuple[int, int]]) -> int:
    """The definition itself: ranks in the pool of the fold and the new row, the smaller of a row's two, and a count."""
    pool = [*fold, new]

    def smaller(row: tuple[int, int]) -> int:
        return min(sum(other[kind] >= row[kind] for other in pool) for kind in (0, 1))

    return sum(smaller(row) <= smaller(new) for row in fold)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(new=PAIRS, fold=PAIRS)
def test_counting_without_pairs_is_counting_by_hand(new: list[tuple[int, int]], fold: list[tuple[int, int]]) -> None:
    expected = [counted_by_hand(row, fold) for row in new]
    np.testing.assert_array_equal(as_strange(evidences(new), evidences(fold)), expected)


@settings(deadline=None, derandomize=True)
@given(new=PAIRS, folds=st.lists(PAIRS, min_size=1, max_size=4))
def test_folds_are_counted_together(new: list[tuple[int, int]], folds: list[list[tuple[int, int]]]) -> None:
    n_rows = sum(map(len, folds))
    p_values = cross_p_values([evidences(new)] * len(folds), [evidences(fold) for fold in folds])
    both = [(1 + sum(counted_by_hand(row, fold) for fold in folds)) / (n_rows + 1) for row in new]
    np.testing.assert_allclose(p_values.both, both)
    # One score alone does not care which fold a row is in, when all folds give a new row the same score.
    everything = evidences([row for fold in folds for row in fold])
    np.testing.assert_allclose(p_values.novelty, conformal_p_values(evidences(new).novelty, everything.novelty))
    np.testing.assert_allclose(
        p_values.disagreement, conformal_p_values(evidences(new).disagreement, everything.disagreement)
    )


@settings(deadline=None, derandomize=True)
@given(new=PAIRS, fold=PAIRS, step=st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_a_stranger_row_never_has_a_larger_p_value(
    new: list[tuple[int, int]], fold: list[tuple[int, int]], step: tuple[int, int]
) -> None:
    stranger = [(first + step[0], second + step[1]) for first, second in new]
    assert (as_strange(evidences(stranger), evidences(fold)) <= as_strange(evidences(new), evidences(fold))).all()


@settings(deadline=None, derandomize=True)
@given(new=PAIRS, fold=PAIRS)
def test_neither_score_comes_first(new: list[tuple[int, int]], fold: list[tuple[int, int]]) -> None:
    swapped = as_strange(*(Evidences(*evidences(rows)[::-1]) for rows in (new, fold)))
    np.testing.assert_array_equal(as_strange(evidences(new), evidences(fold)), swapped)


def test_the_same_score_twice_is_that_score() -> None:
    scores, calibration = np.random.default_rng(0).normal(size=(2, 50))
    p_values = cross_p_values([Evidences(scores, scores)], [Evidences(calibration, calibration)])
    np.testing.assert_array_equal(p_values.both, conformal_p_values(scores, calibration))


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.9])
def test_asking_twice_costs_nothing(correlation: float) -> None:
    """Two scores keep the rate of one, and nearly meet it: taking twice the smaller p-value would halve it."""
    rng, n, n_trials = np.random.default_rng(1), 99, 4000
    rows = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], size=(n_trials, n + 1))
    p_values = np.array([cross_p_values([Evidences(*pool[:1].T)], [Evidences(*pool[1:].T)]).both[0] for pool in rows])
    for rate in (0.02, 0.05, 0.1, 0.3):
        z = (np.mean(p_values <= rate) - rate) / math.sqrt(rate * (1 - rate) / n_trials)
        assert z < 4
        # T takes whole numbers that rows share in pairs, so up to a pair's worth of the rate is lost.
        assert np.mean(p_values <= rate) > rate - 2 / (n + 1) - 4 * math.sqrt(rate / n_trials)
