"""What a person sees while waiting: a bar on a terminal, plain lines elsewhere, nothing under two seconds."""

import contextlib
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from offmap.progress import is_shown, shown_by

PATIENCE_SECONDS = 2.0
SECONDS_BETWEEN_LINES = 10.0


class ProgressBar:
    """Listens to progress reports and shows them on stderr once they have gone on for two seconds."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self.live = console.is_terminal
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=console, transient=True
        )
        self.task: TaskID | None = None
        self.started = self.last_line = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show one report; a `total` of 0 means that nobody knows it."""
        now = time.monotonic()
        if now - self.started < PATIENCE_SECONDS:
            return
        if self.live:
            if self.task is None:
                self.bar.start()
                self.task = self.bar.add_task(what, total=total or None)
            self.bar.update(self.task, description=what, completed=done, total=total or None)
        elif now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            print(f"{what}: {done}{f' of {total}' if total else ''}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Take the bar off the screen."""
        if self.task is not None:
            self.bar.stop()


@contextlib.contextmanager
def progress_bar(wanted: bool = True) -> Iterator[None]:
    """Show the progress of what happens inside this block; no change when it is not wanted, or shown already."""
    if not wanted or is_shown():
        yield
        return
    bar = ProgressBar()
    try:
        with shown_by(bar):
            yield
    finally:
        bar.close()
