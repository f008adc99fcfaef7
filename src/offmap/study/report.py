"""offmap study report: from the records of a study to its pages and pictures."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from offmap.files import complete_file
from offmap.study.figures import ByMethod, draw_distributions, draw_roc, draw_wave
from offmap.study.pages import tables_page
from offmap.study.paper import PUBLISHED_METHODS
from offmap.study.readme import readme_page
from offmap.study.record import as_line, is_unmixed
from offmap.study.runs import FILE, read_runs
from offmap.study.summary import Study

Say = Callable[[str], None]


def write_report(runs: Path, out: Path, say: Say = print) -> list[str]:
    """Write study.jsonl, tables.md, README.md and the pictures into `out`.

    The pages depend on the records alone: the same ones give the same bytes. What comes back says what is wrong with
    the lines that were left out.
    """
    records, problems = read_runs(runs)
    if not records:
        lines = "".join(f" {problem}" for problem in problems)
        raise ValueError(f"There is no finished cell in {runs}. Run some first: offmap study run --out {runs}.{lines}")
    study = Study.of(records)
    for name, draw in _pictures(study).items():
        draw(out / name)
        say(f"{name} is drawn.")
    pages = {
        FILE: "".join(as_line(record) + "\n" for record in study.records),
        "tables.md": tables_page(study),
        "README.md": readme_page(study, picture_names(study)),
    }
    for name, text in pages.items():
        with complete_file(out / name) as file:
            file.write_text(text, encoding="utf-8")
    say(f"{len(study.records)} cells: {', '.join(pages)} and the pictures are in {out}.")
    return problems


def picture_names(study: Study) -> list[str]:
    """The files of every picture that the records of the paper's protocol allow."""
    return list(_pictures(study))


def _pictures(study: Study) -> dict[str, Callable[[Path], None]]:
    """By file: what draws it."""
    found: dict[str, Callable[[Path], None]] = {}
    for dataset in study.names("paper", "dataset"):
        methods = _by_method(study, dataset)
        if dataset == "wave" and any(records[0]["bands"] for records in methods.values()):
            found["wave.png"] = partial(draw_wave, methods=methods)
        elif dataset != "wave" and methods:
            found[f"{dataset}-uncertainty.png"] = partial(draw_distributions, dataset=dataset, methods=methods)
            found[f"{dataset}-roc.png"] = partial(draw_roc, dataset=dataset, methods=methods)
    return found


def _by_method(study: Study, dataset: str) -> ByMethod:
    found = {method: list(study.cells("paper", dataset, method)) for method in PUBLISHED_METHODS}
    return {
        method: records
        for method, records in found.items()
        if records and all(one["roc"] and not is_unmixed(one) for one in records)
    }
