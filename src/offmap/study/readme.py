"""README.md of the results: what was reproduced, what was not and why. Every number is counted from the records."""

from collections.abc import Iterable, Sequence

from offmap.study.findings import FINDINGS
from offmap.study.paper import PUBLISHED_DATASETS, PUBLISHED_METHODS
from offmap.study.record import Cell, Record
from offmap.study.summary import EXPECTED, Study
from offmap.study.tables import grid
from offmap.study.targets import INVESTIGATED, TARGETS, Verdict
from offmap.study.variants import is_variant

_INTRODUCTION = """\
The paper's experiments from raw rows to tables, under its own settings (protocol `paper`), under ours (`default`),
with parts of the tables held out (`shifts`), and how often the alarm rings over many splits (`alarms`). Every number is
in [tables.md](tables.md), every cell in [study.jsonl](study.jsonl), and this page is made from those cells. Where a
cell misses its target, what was tried with other settings is there, too ([table](tables.md#other-settings))."""
_MADE_WITH = """\
Some settings the paper does not tell, or tells otherwise. These reproduce its numbers, so protocol `paper` has them;
where the text says something else, that is among the [other settings](tables.md#other-settings).

* `ensemble` was trained for 1,000 epochs on small tables, not for 3,000: error, density and both entropies say so, on
  all five. Its densities are of the members' variance alone, and its loss is the mean squared error, not its root.
* The prior's std is 0.71 for `hmc`, as stated, and 0.5 for the four variational methods.
* `mc-dropout` has another mask for every value, so its entropy in predictor space is not one of functions. (Elsewhere
  in offmap a draw keeps its mask, so that it is a function.)
* `mfvi` minimised something that is no divergence: its code takes a std for a variance in the density of q. Here it is
  right, so `mfvi` differs.
* navalC's noise is 0.2, as stated, for the entropies of the variational methods, and 0.02 for the densities of
  `mc-dropout` and `ensemble`.
* The entropies of `hmc` on wine are those of chains that had not mixed, and boston's -5 has probably lost a digit.
* "±" is the standard error of three fits."""
_TIME = """\
The cells here took {hours:.1f} hours of fitting on 2 cores; measuring them comes on top. A run can be stopped at any
time and goes on where it was. The report takes seconds, and the same cells give the same pages, byte for byte.

The command in a cell's record runs that cell alone, to the same numbers on the same kind of processor. Others round
sums differently. Where a run amplifies that, as `hmc` and the paper's trainings of a generator do, it is as if with
another seed."""


def readme_page(study: Study, pictures: Sequence[str]) -> str:
    """What was reproduced, what was not and why; `pictures` are the files beside it."""
    parts = [
        "# What the study shows",
        _INTRODUCTION,
        "## What ran",
        _what_ran(study),
        _what_is_missing(study),
        "## Targets",
        _targets(study),
        *_misses(study),
        "## What the paper's numbers were made with",
        _MADE_WITH,
    ]
    found = [text for finding in FINDINGS if (text := finding(study))]
    if found:
        parts += ["## What the numbers say", "\n".join(f"* {text}" for text in found)]
    parts += ["## Pictures", *_gallery(pictures)] if pictures else []
    parts += ["## Again", _commands(study)]
    return "\n\n".join(parts) + "\n"


def _hours(records: Iterable[Record]) -> float:
    """What the fits take on two processors that are never idle."""
    return sum(record["seconds"] * record["cores"] for record in records) / 2 / 3600


def _what_ran(study: Study) -> str:
    groups: dict[str, list[Record]] = {}
    for record in study.records:
        group = "other settings" if is_variant(record["protocol"]) else record["protocol"]
        groups.setdefault(group, []).append(record)
    rows = []
    for group, records in groups.items():
        fitted = sum(record["seconds"] for record in records) / 3600
        rows.append([group, str(len(records)), f"{fitted:.2f}", f"{_hours(records):.2f}"])
    return grid(["protocol", "cells", "hours of fitting, summed", "on 2 cores"], rows)


def _what_is_missing(study: Study) -> str:
    missing = study.missing()
    n_waves = len({record["method"] for record in study.cells("paper", "wave")} & set(PUBLISHED_METHODS))
    wave = f"The wave has {n_waves} of {len(PUBLISHED_METHODS)} methods."
    whole = f"{len(EXPECTED) - len(missing)} of the {len(EXPECTED)} cells of the paper's protocol are here. {wave}"
    if not missing:
        return whole
    lines = []
    for dataset in PUBLISHED_DATASETS:
        methods = [text for method in PUBLISHED_METHODS if (text := _seeds(missing, dataset, method))]
        if methods:
            has_any = any(cell.dataset == dataset for cell in set(EXPECTED) - set(missing))
            lines.append(f"* {dataset}: {', '.join(methods) if has_any else 'all'}")
    return "\n\n".join([f"{whole} Missing, with their seeds:", "\n".join(lines)])


def _seeds(missing: Sequence[Cell], dataset: str, method: str) -> str:
    seeds = [str(cell.seed) for cell in missing if (cell.dataset, cell.method) == (dataset, method)]
    return f"{method} ({' '.join(seeds)})" if seeds else ""


def _targets(study: Study) -> str:
    rows = []
    for asked, verdicts in TARGETS.values():
        counts = [verdict.met for verdict in verdicts(study)]
        rows.append([asked, *(str(sum(met is kind for met in counts)) for kind in (True, False, None))])
    return grid(["target", "met", "missed", "not run"], rows)


def _misses(study: Study) -> list[str]:
    parts = []
    for key, (asked, verdicts) in TARGETS.items():
        missed = [_miss(key, verdict) for verdict in verdicts(study) if verdict.met is False]
        if missed:
            parts.append(f"**{asked}**\n\n" + "\n".join(missed))
    return ["## Misses", *parts] if parts else []


def _miss(target: str, verdict: Verdict) -> str:
    return f"* {verdict.cell}: {verdict.said}. {INVESTIGATED.get((target, verdict.cell), 'Not explained.')}"


def _gallery(pictures: Sequence[str]) -> list[str]:
    """The wave and one table in the page, the others as links."""
    shown = [name for name in pictures if name == "wave.png"]
    tables = [name.removesuffix("-roc.png") for name in pictures if name.endswith("-roc.png")]
    one = "concrete" if "concrete" in tables else next(iter(tables), None)
    shown += [name for name in pictures if name.startswith(f"{one}-")]
    rest = [name for name in pictures if name not in shown]
    links = ", ".join(f"[{name.removesuffix('.png').replace('-', ' ')}]({name})" for name in rest)
    return [*(f"![{name.removesuffix('.png')}]({name})" for name in shown), *([f"Also: {links}."] if links else [])]


def _commands(study: Study) -> str:
    protocols = list(dict.fromkeys(record["protocol"] for record in study.records))
    runs = [command for protocol in protocols for command in _run_commands(study, protocol)]
    lines = "\n".join([*runs, "offmap study report runs --out docs/results"])
    return f"```\n{lines}\n```\n\n{_TIME.format(hours=_hours(study.records))}"


def _run_commands(study: Study, protocol: str) -> list[str]:
    """Those that run what is here and no more: methods go together that have as many seeds, and so do datasets."""
    groups: dict[tuple[tuple[str, ...], int, int], list[str]] = {}
    for dataset in study.names(protocol, "dataset"):
        by_seeds: dict[tuple[int, int], list[str]] = {}
        for method in dict.fromkeys(record["method"] for record in study.cells(protocol, dataset)):
            cells = list(study.cells(protocol, dataset, method))
            seeds, cores = 1 + max(record["seed"] for record in cells), max(record["cores"] for record in cells)
            by_seeds.setdefault((seeds, cores), []).append(method)
        for (seeds, cores), methods in by_seeds.items():
            groups.setdefault((tuple(methods), seeds, cores), []).append(dataset)
    return [
        f"offmap study run --protocol {protocol} --datasets {','.join(datasets)} --methods {','.join(methods)} "
        f"--seeds {seeds} --jobs 2 --cores {cores} --out runs"
        for (methods, seeds, cores), datasets in groups.items()
    ]
