"""The command line: a command is a sentence, the work is in the library, and JAX is imported only inside commands."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="offmap",
    help="Is this input too far from what the model learned for its prediction to be trusted?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@contextlib.contextmanager
def _in_the_users_words() -> Iterator[None]:
    """Exit 2 with one line when the input is wrong, 130 on Ctrl-C. Other failures are bugs and keep their traceback."""
    try:
        yield
    except (ValueError, OSError) as problem:
        print(f"offmap: {problem}", file=sys.stderr)
        raise typer.Exit(2) from None
    except KeyboardInterrupt as stop:
        print(f"\noffmap: {stop or 'interrupted'}", file=sys.stderr)
        raise typer.Exit(130) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        from offmap import __version__

        print(f"offmap {__version__}")
        raise typer.Exit


@app.callback()
def offmap(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Is this input too far from what the model learned for its prediction to be trusted?"""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the pictures and the report go.")] = Path("offmap-demo"),
) -> None:
    """Fit all seven methods on the paper's wave, and take a real table from rows to verdicts."""
    with _in_the_users_words():
        from offmap.demo import run_demo

        run_demo(out)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats: under three minutes.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file, too.")] = None,
) -> None:
    """Measure the speed figures, each as a ratio of times in this run. Peers are measured where they are installed."""
    with _in_the_users_words():
        from offmap.bench import run_bench

        run_bench(quick, json_file)
