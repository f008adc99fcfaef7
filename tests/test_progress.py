"""Progress: reports reach whoever listens, nobody is shown what is over soon, and Ctrl-C loses nothing."""

from typing import Any

import numpy as np
import pytest

from offmap import DiverseRegressor, OODDetector, console
from offmap.inference.ensemble import Ensemble
from offmap.inference.hmc import HMC
from offmap.optimize import Training
from offmap.progress import report, shown_by
from offmap.schedules import Constant

QUICK = Ensemble(members=3, training=Training(learning_rate=0.01, batch_size=10, schedule=Constant(epochs=20)))
X = np.random.default_rng(0).normal(size=(30, 2))
Y = X[:, 0]


class Listener:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int]] = []

    def __call__(self, what: str, done: int, total: int) -> None:
        self.heard.append((what, done, total))


class Clock:
    """Time that passes only when told to."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(console, "time", stopped)
    return stopped


# --- who hears what ---


def test_reports_reach_the_innermost_listener() -> None:
    outer, inner = Listener(), Listener()
    report("nobody listens", 0, 1)
    with shown_by(outer):
        report("before", 1, 3)
        with shown_by(inner):
            report("inside", 2, 3)
        with shown_by(None):
            report("silenced", 2, 3)
        report("after", 3, 3)
    report("nobody listens", 1, 1)
    assert outer.heard == [("before", 1, 3), ("after", 3, 3)]
    assert inner.heard == [("inside", 2, 3)]


def test_listener_is_gone_after_a_failure() -> None:
    listener = Listener()
    with pytest.raises(RuntimeError), shown_by(listener):
        raise RuntimeError
    report("late", 1, 1)
    assert listener.heard == []


def test_fitting_counts_every_epoch_up_to_the_last() -> None:
    listener = Listener()
    with shown_by(listener):
        DiverseRegressor(QUICK, noise_std=0.1, hidden=(4,), random_state=0).fit(X, Y)
    what, done, total = zip(*listener.heard, strict=True)
    assert set(what) == {"training"}
    assert set(total) == {20}
    assert list(done) == sorted(set(done))
    assert done[-1] == 20


# --- what is shown ---


def test_lines_come_every_ten_seconds_when_nobody_watches(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress_bar():
        for second in range(25):
            clock.now = 1000.0 + second
            report("training", second, 24)
    captured = capsys.readouterr()
    assert captured.err.splitlines() == ["training: 10 of 24", "training: 20 of 24"]
    assert captured.out == ""


@pytest.mark.parametrize(("seconds", "shown"), [(1.9, False), (2.1, True)])
def test_bar_comes_after_two_seconds_on_a_terminal(
    seconds: float, shown: bool, clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich take stderr for a terminal
    with console.progress_bar():
        report("training", 1, 20)
        clock.now += seconds
        report("training", 7, 20)
    captured = capsys.readouterr()
    assert ("training" in captured.err) == shown
    assert captured.out == ""


def test_nothing_is_shown_unless_wanted(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    listener = Listener()
    with shown_by(listener), console.progress_bar(wanted=False):
        clock.now += 60
        report("training", 1, 2)
    assert capsys.readouterr() == ("", "")
    assert listener.heard == [("training", 1, 2)]


# --- Ctrl-C ---


def ctrl_c(what: str, done: int, total: int) -> None:
    raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore:The chains have not mixed")
@pytest.mark.parametrize(
    ("method", "other"),
    [(QUICK, np.ones((30, 5))), (HMC(chains=2, warmup=10, draws=20, most_draws=20), 2 * X)],
    ids=["ensemble, other columns", "hmc, other values"],
)
def test_interrupted_fit_leaves_the_regressor_as_it_was(method: Any, other: np.ndarray) -> None:
    model = DiverseRegressor(method, noise_std=0.1, hidden=(4,), random_state=0).fit(X, Y)
    draws = model.predict_draws(X)
    with shown_by(ctrl_c), pytest.raises(KeyboardInterrupt):
        model.fit(other, Y)
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(model.predict_draws(X), draws)


def test_interruption_says_how_far_it_got() -> None:
    with shown_by(ctrl_c), pytest.raises(KeyboardInterrupt, match="after 1 of at most 20 epochs; nothing was kept"):
        DiverseRegressor(QUICK, noise_std=0.1, hidden=(4,), random_state=0).fit(X, Y)


def test_interrupted_fit_leaves_the_detector_as_it_was() -> None:
    regressor = DiverseRegressor(QUICK, noise_std=0.1, hidden=(4,), random_state=0)
    detector = OODDetector(regressor, false_alarm_rate=0.1, random_state=0).fit(X, Y)
    p_values = detector.p_values(X)
    fits_left = [3]

    def ctrl_c_in_third_fit(what: str, done: int, total: int) -> None:
        fits_left[0] -= done == total
        if not fits_left[0]:
            raise KeyboardInterrupt

    with shown_by(ctrl_c_in_third_fit), pytest.raises(KeyboardInterrupt):
        detector.fit(2 * X, Y)
    np.testing.assert_array_equal(detector.p_values(X), p_values)
