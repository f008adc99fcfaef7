"""The alarm against counting by hand, and its promise by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offmap.ood import conformal_p_values, conformal_threshold

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
