"""The bench's own arithmetic. What it measures belongs to the machine, and is not tested."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from offmap import bench
from offmap.bench import run_bench
from offmap.bench.figure import Figure
from offmap.bench.growth import exponent, fit_seconds
from offmap.bench.steps import funn_arithmetic
from offmap.bench.tables import made_up
from offmap.inference import METHODS


@pytest.mark.parametrize(
    ("value", "target", "holds"), [(3.0, ">= 3", True), (2.9, ">= 3", False), (1.2, "<= 1.2", True), (5.0, None, None)]
)
def test_a_figure_holds_when_it_reaches_its_target(value: float, target: str | None, holds: bool | None) -> None:
    assert Figure("a", value, "times", target=target).holds is holds


def test_the_arithmetic_of_a_paper_size_step() -> None:
    # By hand: 4 passes of 500 x 200 x 13 x 50 multiply-adds, and 2 matrices of 500 x 500 x 200.
    assert funn_arithmetic(columns=13) == 2 * (4 * 500 * 200 * 13 * 50 + 2 * 500 * 500 * 200) == 720e6


def test_the_exponent_is_that_of_a_power_law() -> None:
    sizes = [1.0, 10.0, 100.0, 1000.0]
    assert exponent(sizes, [7 * size**1.5 for size in sizes]) == pytest.approx(1.5)


def test_a_cost_can_be_measured_of_every_method() -> None:
    model, data = made_up(rows=30, columns=3, hidden=(4,))
    assert all(fit_seconds(METHODS[name], model, data) > 0 for name in ("hmc", "ensemble", "nn-hyvi"))


def test_figures_are_printed_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(quick: bool, data_dir: Path | None) -> Iterator[Figure]:
        yield Figure("ours / theirs", 4.0, "times", ours=1.0, reference=4.0, target=">= 3")

    monkeypatch.setattr(bench, "_measured", measured)
    said: list[str] = []
    run_bench(json_file=tmp_path / "figures.json", say=said.append)
    assert "holds" in said[-1]
    written = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert written == [
        {
            "name": "ours / theirs",
            "value": 4.0,
            "unit": "times",
            "ours": 1.0,
            "reference": 4.0,
            "target": ">= 3",
            "holds": True,
        }
    ]
