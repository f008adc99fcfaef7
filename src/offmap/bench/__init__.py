"""offmap bench: the speed figures, as ratios of times measured in one run, so that noise and machines cancel."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from offmap.bench import bde_peer, quality, sampling, scoring, startup, steps
from offmap.bench.figure import Figure
from offmap.bench.growth import run_growth
from offmap.files import complete_file

__all__ = ["run_bench", "run_growth"]


def run_bench(
    quick: bool = False,
    json_file: Path | None = None,
    data_dir: Path | None = None,
    say: Callable[[str], None] = print,
) -> list[Figure]:
    """Measure every figure, saying each as it comes, and write them all to `json_file`."""
    figures = []
    say(f"{'figure':<58}{'value':>10}  {'unit':<12}{'ours':>12}{'reference':>12}  target")
    for figure in _measured(quick, data_dir):
        figures.append(figure)
        parts = [f"{figure.name:<58}{figure.value:>10.3g}  {figure.unit:<12}"]
        parts += [f"{number:>12.4g}" if number is not None else " " * 12 for number in (figure.ours, figure.reference)]
        verdict = {None: "", True: "holds", False: "MISSED"}[figure.holds]
        say("".join(parts) + f"  {figure.target or ''} {verdict}".rstrip())
    if json_file is not None:
        document = {"figures": [asdict(figure) | {"holds": figure.holds} for figure in figures]}
        with complete_file(json_file) as file:
            file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return figures


def _measured(quick: bool, data_dir: Path | None) -> Iterator[Figure]:
    yield from steps.measure(quick)
    yield from scoring.measure(quick)
    yield from startup.measure(quick)
    yield from sampling.measure(quick, data_dir)
    if not quick:
        yield from quality.measure(data_dir)
        yield from bde_peer.measure(data_dir)
