"""Benjamini-Hochberg over counted p-values, against SciPy's over all of them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from offmap.discoveries import CountedPValues


@settings(deadline=None)
@given(
    ranks=st.lists(st.integers(1, 50), min_size=1, max_size=200),
    rate=st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.5]),
    parts=st.integers(1, 5),
)
def test_the_same_rows_are_flagged_as_by_scipy(ranks: list[int], rate: float, parts: int) -> None:
    p_values = np.array(ranks) / 50
    counted = CountedPValues()
    for part in np.array_split(p_values, parts):
        counted.add(part)
    adjusted = false_discovery_control(p_values, method="bh")
    sure = np.abs(adjusted - rate) > 1e-12  # SciPy sums in another order, so exact ties may fall either way
    np.testing.assert_array_equal((p_values <= counted.threshold(rate))[sure], (adjusted <= rate)[sure])


def test_of_a_thousand_ordinary_rows_nearly_always_none_is_flagged() -> None:
    random = np.random.default_rng(0)
    flagged = 0
    for _ in range(100):
        counted = CountedPValues()
        counted.add(random.uniform(size=1000))
        flagged += counted.threshold(0.1) > 0
    assert flagged < 100 * 0.1 + 4 * np.sqrt(100 * 0.1 * 0.9)  # where all are ordinary, the rate is that of any flag


def test_memory_is_for_the_values_not_the_rows() -> None:
    counted = CountedPValues()
    for _ in range(100):
        counted.add(np.arange(1, 51) / 50)
    assert len(counted.counts) == 50
    assert sum(counted.counts.values()) == 5000
