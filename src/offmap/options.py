"""The options of commands that have many, each command's as one value."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer


def with_options_of(options: type[Any]) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Let a command take one value, whose fields are its options."""

    def spread(command: Callable[[Any], None]) -> Callable[..., None]:
        def spread_command(**chosen: Any) -> None:
            command(options(**chosen))

        spread_command.__name__, spread_command.__doc__ = command.__name__, command.__doc__
        spread_command.__annotations__ = options.__annotations__
        spread_command.__signature__ = inspect.signature(options)  # type: ignore[attr-defined]
        return spread_command

    return spread


class FitOptions(NamedTuple):
    """The options of `offmap fit`."""

    table: Annotated[Path, typer.Argument(help="Rows to learn from: CSV (semicolons will do, too), TSV or Parquet.")]
    target: Annotated[str, typer.Option(help="The column to predict.")]
    method: Annotated[str, typer.Option(help="One of the seven methods of the README.")] = "funn-hyvi"
    out: Annotated[Path | None, typer.Option(help="The model directory; without, the table's name and -model.")] = None
    false_alarm_rate: Annotated[float, typer.Option(help="The share of ordinary rows that may be flagged.")] = 0.05
    evidence: Annotated[str, typer.Option(help="Flag by disagreement, by novelty, or by both.")] = "both"
    seed: Annotated[int, typer.Option(min=0, help="Another gives other random numbers.")] = 0
    force: Annotated[bool, typer.Option("--force", help="Replace the model directory if there is one.")] = False


class ScoreOptions(NamedTuple):
    """The options of `offmap score`."""

    model: Annotated[Path, typer.Argument(help="A model directory, written by `offmap fit`.")]
    table: Annotated[Path, typer.Argument(help="Rows to judge: CSV, TSV or Parquet, of any length.")]
    out: Annotated[Path | None, typer.Option(help="CSV, TSV or Parquet, by suffix; without, CSV to stdout.")] = None
    alpha: Annotated[float | None, typer.Option(help="Another false-alarm rate than the model's.")] = None
    fdr: Annotated[
        float | None, typer.Option(help="Instead, the expected share of ordinary rows among those flagged.")
    ] = None
    evidence: Annotated[str | None, typer.Option(help="Another kind of evidence than the model's.")] = None
    prefix: Annotated[str, typer.Option(help="Goes before the names of the columns that are added.")] = ""
    force: Annotated[bool, typer.Option("--force", help="Replace the output file if there is one.")] = False
