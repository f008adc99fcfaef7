"""The simulation behind docs/guarantee.md: the promise holds where it should, and breaks where the page says."""

from functools import partial

import numpy as np

from offmap.study.promise import COPIES, GROUPS, ROWS, copied, drifted, known_groups, new_groups, same, shares


def test_the_promise_holds_for_rows_of_the_same_kind_and_of_the_same_groups() -> None:
    for scenario in (same, known_groups):
        found = shares(scenario, "novelty", repeats=40)
        # Over tables and new rows the mean is at most the rate; three standard errors of it are allowed.
        assert found.mean() <= 0.05 + 3 * found.std(ddof=1) / np.sqrt(len(found))
        assert found.mean() >= 0.03  # and the alarm is not merely silent


def test_copies_and_new_groups_break_it() -> None:
    assert shares(copied, "novelty", repeats=5).mean() > 0.2
    assert shares(new_groups, "novelty", repeats=5).mean() > 0.5


def test_more_rows_are_flagged_the_further_they_drift() -> None:
    found = [shares(partial(drifted, stds=stds), "novelty", repeats=5).mean() for stds in (0.0, 0.5, 1.0, 2.0)]
    assert found == sorted(found)
    assert found[-1] > 0.5


def test_the_tables_are_what_they_are_called() -> None:
    random = np.random.default_rng(0)
    assert len(np.unique(copied(random).training, axis=0)) == ROWS // COPIES
    training, new = known_groups(random)
    # The centres have a spread of 2 in each column, and rows 0.3 around them.
    apart = np.linalg.norm(new[:, None] - training[None], axis=2).min(axis=1)
    assert np.median(apart) < 0.3
    training, new = new_groups(random)
    assert np.median(np.linalg.norm(new[:, None] - training[None], axis=2).min(axis=1)) > 0.6
    assert GROUPS == 20
