"""How a command ends: done, or one line about what is wrong, with an exit code that scripts can rely on."""

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import typer

SOON = 0.05  # seconds
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def in_the_users_words() -> Iterator[None]:
    """Exit 2 with one line when the input is wrong or too large, 130 on Ctrl-C. Other failures are bugs: a traceback.

    A system that wants the process to end (SIGTERM) is obeyed as Ctrl-C is, so that nothing half-written stays. When
    whoever reads the standard output (`| head`) has seen enough, that is a good end.
    """
    try:
        with _sigterm_is_ctrl_c(), _ctrl_c_is_never_lost():
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        raise typer.Exit(0) from None
    except (ValueError, OSError, MemoryError) as problem:
        _discard_output()
        print(f"offmap: {_in_one_line(problem)}", file=sys.stderr)
        raise typer.Exit(2) from None
    except KeyboardInterrupt as stop:
        print(f"\noffmap: {str(stop) or 'interrupted. Nothing half-written stays.'}", file=sys.stderr)
        raise typer.Exit(130) from None


@contextlib.contextmanager
def _sigterm_is_ctrl_c() -> Iterator[None]:
    """Only the main thread may say what a signal does; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _ctrl_c_is_never_lost() -> Iterator[None]:
    """Interrupt again where Python has to ignore a Ctrl-C: in a callback, and JAX has one in garbage collection."""
    before = sys.unraisablehook

    def again(ignored: Any) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            threading.Timer(SOON, os.kill, (os.getpid(), signal.SIGINT)).start()  # now, it would be ignored here
        else:
            before(ignored)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


def _in_one_line(problem: ValueError | OSError | MemoryError) -> str:
    """What is wrong. The system's own errors say it with a number, and a path where they know one."""
    if not isinstance(problem, OSError) or problem.errno is None:
        return " ".join(str(problem).split())
    if problem.errno in FULL:
        return (
            "the disk is full, or a file grew beyond what is allowed. Nothing half-written stays. Free some space, or "
            "choose another place with --out."
        )
    where = f"{problem.filename}: " if problem.filename else ""
    return f"{where}{' '.join(str(problem.strerror).split())}."


def _discard_output() -> None:
    """Forget what waits to be printed: at the end Python would try again, and complain again."""
    with contextlib.suppress(OSError, ValueError):
        output = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output)
        os.close(nowhere)
