"""How far long work is: the maths says it, the outer shell decides whether and how to show it."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

Report = Callable[[str, int, int], None]  # what is being done, steps done, steps in all

_report: contextvars.ContextVar[Report | None] = contextvars.ContextVar("offmap_progress", default=None)


def report(what: str, done: int, total: int) -> None:
    """Say that `done` of `total` steps of `what` are over. Nobody may be listening."""
    listener = _report.get()
    if listener is not None:
        listener(what, done, total)


def is_shown() -> bool:
    """Whether somebody listens."""
    return _report.get() is not None


@contextlib.contextmanager
def part(name: str) -> Iterator[None]:
    """Reports made inside this block say that they are about this part of the work."""
    outer = _report.get()
    with shown_by(None if outer is None else lambda what, done, total: outer(f"{name}: {what}", done, total)):
        yield


@contextlib.contextmanager
def shown_by(listener: Report | None) -> Iterator[None]:
    """Send reports made inside this block to `listener`."""
    token = _report.set(listener)
    try:
        yield
    finally:
        _report.reset(token)
