"""The command line: a command is a sentence, the work is in the library, and JAX is imported only inside commands."""

import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from offmap.exits import in_the_users_words
from offmap.options import FitOptions, ScoreOptions, with_options_of

app = typer.Typer(
    name="offmap",
    help="Is this input too far from what the model learned for its prediction to be trusted?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
    with in_the_users_words():
        from offmap.demo import run_demo

        run_demo(out)


@app.command()
@with_options_of(FitOptions)
def fit(options: FitOptions) -> None:
    """Learn from a table, and write a model directory that knows what it does not know."""
    with in_the_users_words():
        from offmap.detector import OODDetector
        from offmap.fitting import fit_file
        from offmap.regressor import DiverseRegressor

        detector = OODDetector(
            DiverseRegressor(options.method, random_state=options.seed, verbose=True),
            false_alarm_rate=options.false_alarm_rate,
            evidence=options.evidence,  # type: ignore[arg-type]  # checked there, in the user's words
            random_state=options.seed,
        )
        fit_file(options.table, options.target, detector, options.out, options.force)


@app.command()
@with_options_of(ScoreOptions)
def score(options: ScoreOptions) -> None:
    """Judge every row of a table: all rows come back, in order, with predictions, p-values, verdicts and reasons."""
    with in_the_users_words():
        from offmap.console import progress_bar
        from offmap.scoring import Scoring, describe_scored, load_detector, score_file

        scoring = Scoring(options.alpha, options.fdr, options.evidence, options.prefix)
        detector = load_detector(options.model)
        with progress_bar():
            scored = score_file(detector, options.table, options.out, scoring, options.force)
        for line in describe_scored(scored, scoring, len(detector.held_out_["y"])):
            print(line, file=sys.stderr)


@app.command()
def show(model: Annotated[Path, typer.Argument(help="A model directory, written by `offmap fit`.")]) -> None:
    """Say what a model is: its columns, method and settings, what it promises, and what was measured."""
    with in_the_users_words():
        from offmap.showing import describe_model

        print("\n".join(describe_model(model)))


@app.command()
def report(
    model: Annotated[Path, typer.Argument(help="A model directory, written by `offmap fit`.")],
    out: Annotated[Path, typer.Option(help="The page, such as report.html.")],
    table: Annotated[Path | None, typer.Argument(help="Rows to judge, of any length; none: the model alone.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the page if there is one.")] = False,
) -> None:
    """Write one page about a model, and about a table's verdicts: charts, worst rows, promises. Needs no network."""
    with in_the_users_words():
        from offmap.artifact import versions_of
        from offmap.console import progress_bar
        from offmap.quality import Quality, doubts
        from offmap.report import Origin, write_report
        from offmap.scoring import load_detector

        detector = load_detector(model)
        measured = getattr(detector, "quality_", None)
        origin = Origin(model.resolve().name, versions_of(model), doubts(Quality(**measured)) if measured else ())
        with progress_bar():
            write_report(detector, out, table, origin, force)
        print(f"the page is in {out}")


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats: under three minutes.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file, too.")] = None,
    growth: Annotated[
        Path | None, typer.Option(help="Measure instead how cost grows; the table and pictures go to this folder.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="The tables' folder; else OFFMAP_DATA's. Some figures need it.")
    ] = None,
) -> None:
    """Measure the speed figures, each as a ratio of times in this run. Peers are measured where they are installed."""
    with in_the_users_words():
        from offmap.bench import run_bench, run_growth

        if growth is not None:
            run_growth(growth)
        else:
            run_bench(quick, json_file, data_dir)


study = typer.Typer(no_args_is_help=True, help="The paper's experiments and harder ones, cell by cell.")
app.add_typer(study, name="study")


class _StudyRun(NamedTuple):
    """The options of `offmap study run`."""

    protocol: Annotated[
        str,
        typer.Option(
            help="paper, default, shifts, alarms, or quick (to try the machinery); with other settings as in "
            "default:noise=0.1,hidden=50+50 (also prior_std, activation, epochs and sampler)."
        ),
    ] = "paper"
    datasets: Annotated[list[str] | None, typer.Option(help="Keys, with commas between; all without.")] = None
    methods: Annotated[list[str] | None, typer.Option(help="Keys of methods and baselines; all without.")] = None
    seeds: Annotated[int, typer.Option(min=1, help="How many: 3 means 0, 1 and 2.")] = 1
    seed: Annotated[int | None, typer.Option(min=0, help="Only this one.")] = None
    out: Annotated[Path, typer.Option(help="The folder whose study.jsonl keeps the cells.")] = Path("runs")
    jobs: Annotated[int, typer.Option(min=1, help="Cells side by side, each in a process of its own.")] = 1
    cores: Annotated[int | None, typer.Option(min=1, help="Processors for each cell; an even share without.")] = None
    data_dir: Annotated[Path | None, typer.Option(help="The tables' folder; else OFFMAP_DATA's, or the web.")] = None


@study.command("run")
@with_options_of(_StudyRun)
def study_run(options: _StudyRun) -> None:
    """Run the cells that are not in the folder yet, and keep each as soon as it is finished. Stop it at any time."""
    with in_the_users_words():
        from offmap.study.run import Machine, chosen_cells, run_study

        datasets, methods = (
            " ".join(names or []).replace(",", " ").split() for names in (options.datasets, options.methods)
        )
        seeds = range(options.seeds) if options.seed is None else [options.seed]
        cells = chosen_cells(options.protocol, datasets, methods, seeds)
        outcome = run_study(cells, options.out, Machine(options.jobs, options.cores), options.data_dir)
        print(f"{outcome.finished} of {len(cells)} cells are in {options.out}.")
        for cell, error in outcome.failed.items():
            print(f"offmap: {cell} failed: {error}", file=sys.stderr)
        if outcome.failed:
            raise typer.Exit(1)


@study.command("report")
def study_report(
    runs: Annotated[Path, typer.Argument(help="A folder that `offmap study run` kept cells in.")] = Path("runs"),
    out: Annotated[Path, typer.Option(help="Where tables, pictures and the page go.")] = Path("docs/results"),
) -> None:
    """Set every number of the study beside the paper's: tables, pictures, and a page that says what they show."""
    with in_the_users_words():
        from offmap.study.report import write_report

        for problem in write_report(runs, out):
            print(f"offmap: {problem}", file=sys.stderr)
