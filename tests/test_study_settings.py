"""What a cell is fitted under, and which records were made under something else."""

from pathlib import Path
from typing import Any

import pytest

from offmap.study.record import Cell, as_line
from offmap.study.runs import read_runs
from offmap.study.settings import outdated, settings_of
from tests.study_records import record

RESULTS = Path(__file__).parent.parent / "docs" / "results"


def as_run(protocol: str, dataset: str, method: str) -> Any:
    """A record of the cell under the settings that it has."""
    settings = settings_of(Cell(protocol, dataset, method, 0))
    return record(protocol, dataset, method, settings=settings, prior_std=settings.get("prior_std"))


def with_method(one: Any, **fields: Any) -> Any:
    """The record, its method with other fields."""
    return one | {"settings": one["settings"] | {"method": one["settings"]["method"] | fields}}


@pytest.mark.parametrize("method", ["hmc", "ensemble", "funn-hyvi", "knn-distance", "gaussian-process"])
@pytest.mark.parametrize(("protocol", "dataset"), [("paper", "wave"), ("paper", "navalC"), ("default", "energy")])
def test_a_record_is_not_outdated_when_it_is_read_back(
    protocol: str, dataset: str, method: str, tmp_path: Path
) -> None:
    (tmp_path / "study.jsonl").write_text(as_line(as_run(protocol, dataset, method)) + "\n")
    ((one,), problems) = read_runs(tmp_path)
    assert problems == []
    assert outdated(one) == []


def test_what_was_otherwise_is_named_wherever_it_stands() -> None:
    one = as_run("paper", "boston", "ensemble")
    training = one["settings"]["method"]["training"]
    longer = training | {"schedule": training["schedule"] | {"epochs": 3000}}
    assert outdated(with_method(one, training=longer)) == ["epochs was 3000, is 1000"]
    changes = outdated(with_method(one, members=5, training=longer))
    assert sorted(changes) == ["epochs was 3000, is 1000", "members was 5, is 10"]
    other_noise = one | {"settings": one["settings"] | {"noise_in_target_stds": 2.0}}
    assert outdated(other_noise) == ["noise_in_target_stds was 2.0, is 2.5"]
    assert outdated(with_method(one, gone=3)) == ["gone was 3, is None"]


def test_records_of_before_a_setting_was_kept_are_judged_by_what_they_say() -> None:
    one = as_run("paper", "boston", "funn-mfvi")
    older = {key: value for key, value in one["settings"].items() if key != "prior_std"}
    assert outdated(one | {"settings": older}) == []
    assert outdated(one | {"settings": older, "prior_std": 0.25}) == ["prior_std was 0.25, is 0.5"]
    assert outdated(with_method(one, gone=None)) == []  # it was not used
    assert outdated(one | {"settings": None}) == []


def test_what_rows_decide_is_no_setting() -> None:
    one = as_run("default", "yacht", "ensemble")
    assert outdated(one | {"settings": one["settings"] | {"activation": "relu", "hidden": [50]}}) == []
    paper = as_run("paper", "yacht", "ensemble")
    assert outdated(paper | {"settings": paper["settings"] | {"activation": "tanh"}}) == [
        "activation was tanh, is relu"
    ]


def test_when_chains_may_give_up_says_nothing_of_chains_that_have_mixed() -> None:
    patient = with_method(as_run("paper", "protein", "hmc"), most_draws=9000)
    assert outdated(patient) == []
    assert outdated(patient | {"rhat": 1.5}) == ["most_draws was 9000, is 1000"]


@pytest.mark.skipif(not RESULTS.exists(), reason="the study's results are not here")
def test_the_recorded_cells_have_the_settings_that_stand_here() -> None:
    assert {str(Cell.of(one)): changes for one in read_runs(RESULTS)[0] if (changes := outdated(one))} == {}
