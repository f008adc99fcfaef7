"""Running a study: killed, interrupted, failing in parts, and with names that do not exist."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from offmap.cli import app
from offmap.inference import METHODS
from offmap.study.baselines import BASELINES
from offmap.study.record import COSTS, KEYS, Cell
from offmap.study.run import Machine, chosen_cells, ctrl_c_waits, run_study
from offmap.study.runs import FILE, LEFT_OUT, add_record, read_runs

run = CliRunner().invoke
# Cells that take no data folder and hardly any time: nearly all of it goes into starting processes.
CHEAP = ["study", "run", "--protocol", "quick", "--datasets", "wave", "--methods", "knn-distance,mahalanobis"]
CHEAP += ["--methods", "gaussian-process", "--cores", "1"]


def started(out: Path) -> subprocess.Popen[bytes]:
    """The cheap study in a process of its own, once it has finished its first cell."""
    process = subprocess.Popen(
        [sys.executable, "-m", "offmap", *CHEAP, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while not (out / FILE).exists() and time.monotonic() < until:
        time.sleep(0.01)
    return process


def without_costs(folder: Path) -> list[dict[str, Any]]:
    records, problems = read_runs(folder)
    assert problems == []
    return [{key: value for key, value in record.items() if key not in COSTS} for record in records]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a cheap study that ran through, two cells at a time."""
    out = tmp_path_factory.mktemp("undisturbed")
    assert run(app, [*CHEAP, "--jobs", "2", "--out", str(out)]).exit_code == 0
    return out


def test_every_chosen_cell_is_there_with_every_key(undisturbed: Path) -> None:
    records = read_runs(undisturbed)[0]
    cells = [Cell("quick", "wave", method, 0) for method in ("knn-distance", "mahalanobis", "gaussian-process")]
    assert [Cell.of(record) for record in records] == cells
    assert all(list(record) == list(KEYS) for record in records)
    assert all(record["cores"] == 1 for record in records)
    assert all(record["peak_memory_mb"] > 100 for record in records)


def test_killed_and_run_again_it_gives_the_same_file_less_costs(undisturbed: Path, tmp_path: Path) -> None:
    process = started(tmp_path)
    process.kill()
    process.communicate()  # ends when the cell's process has ended, too: it does not outlive its parent
    assert 1 <= len(read_runs(tmp_path)[0]) < 3
    result = run(app, [*CHEAP, "--jobs", "2", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "1 of 3 cells are in" in result.stdout
    assert without_costs(tmp_path) == without_costs(undisturbed)
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_the_printed_command_gives_the_recorded_numbers(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    last = without_costs(undisturbed)[-1]
    program, *arguments = last["command"].split()
    assert program == "offmap"
    assert run(app, arguments).exit_code == 0
    assert without_costs(tmp_path / "rerun") == [last]


def test_ctrl_c_keeps_finished_cells(tmp_path: Path) -> None:
    process = started(tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the study and to the cell's process
    said = process.communicate(timeout=30)[1].decode()
    assert process.returncode == 130
    kept = f"Finished cells are kept in {tmp_path}"
    assert said == f"\noffmap: interrupted. {kept}; the same command goes on from there.\n"
    assert 1 <= len(read_runs(tmp_path)[0]) < 3


def test_a_failing_cell_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failing = Cell("quick", "wave", "isolation-forest", -1)  # scikit-learn refuses that seed
    good = Cell("quick", "wave", "knn-distance", 0)
    outcome = run_study([failing, good], tmp_path, Machine(jobs=2))
    assert list(outcome.failed) == [failing]
    assert "random_state" in outcome.failed[failing]
    assert [Cell.of(record) for record in read_runs(tmp_path)[0]] == [good]
    assert "FAILED" in capsys.readouterr().out


def test_a_cell_whose_process_dies_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offmap.study.run.work", _die)
    cell = Cell("quick", "wave", "knn-distance", 0)
    outcome = run_study([cell], tmp_path)
    assert "exit code -9" in outcome.failed[cell]
    assert read_runs(tmp_path) == ([], [])


def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_failures_are_exit_code_1_and_bad_lines_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offmap.study.run.work", _die)
    (tmp_path / FILE).write_text('{"protocol": "quick", "data')
    arguments = ["study", "run", "--protocol", "quick", "--datasets", "wave", "--methods", "mahalanobis"]
    result = run(app, [*arguments, "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "line 1 is left out" in result.stderr
    assert "offmap: quick wave mahalanobis seed 0 failed" in result.stderr


def test_finished_cells_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offmap.study.run.work", _die)
    cell = Cell("quick", "wave", "knn-distance", 0)
    add_record(tmp_path, dict.fromkeys(KEYS) | cell._asdict())
    assert run_study([cell], tmp_path).failed == {}


def test_a_cell_under_other_settings_is_told_of_and_run_again(undisturbed: Path, tmp_path: Path) -> None:
    now = read_runs(undisturbed)[0]
    before = now[0] | {"settings": {"method": now[0]["settings"]["method"] | {"k": 1}}, "auc": 0.1}
    for one in (before, *now[1:]):
        add_record(tmp_path, one)
    result = run(app, [*CHEAP, "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert f"{Cell.of(before)} under other settings: k was 1, is 5. Its cell counts as not run" in result.stderr
    assert "2 of 3 cells are in" in result.stdout
    assert without_costs(tmp_path) == without_costs(undisturbed)
    assert json.loads((tmp_path / LEFT_OUT).read_text()) == before  # it may be hours of work


@pytest.mark.parametrize(
    ("option", "value", "known"),
    [("--protocol", "papers", "paper"), ("--datasets", "yacht,bosten", "boston"), ("--methods", "hcm", "knn-distance")],
)
def test_unknown_names_are_answered_with_the_known_ones(option: str, value: str, known: str, tmp_path: Path) -> None:
    result = run(app, ["study", "run", option, value, "--out", str(tmp_path / "runs")])
    assert result.exit_code == 2
    assert value.split(",")[-1] in result.stderr
    assert known in result.stderr
    assert not (tmp_path / "runs").exists()


def test_cells_are_every_combination_once() -> None:
    methods = [*METHODS, *BASELINES]
    assert len(chosen_cells("paper", [], [], range(3))) == 9 * len(methods) * 3
    assert len(chosen_cells("default", [], [], range(1))) == 10 * len(methods)
    assert chosen_cells("paper", ["yacht", "yacht"], ["hmc"], [2]) == [Cell("paper", "yacht", "hmc", 2)]


def test_processors_are_shared_evenly_and_never_invented() -> None:
    every = os.sched_getaffinity(0)
    assert Machine().processors(0) == every
    shares = [Machine(jobs=len(every)).processors(slot) for slot in range(len(every))]
    assert sorted(shares, key=str) == sorted(({core} for core in every), key=str)
    assert len(Machine(jobs=3 * len(every)).processors(2 * len(every)) or ()) == 1
    with pytest.raises(ValueError, match="cores is 1000"):
        Machine(cores=1000).processors(0)


def test_the_file_is_json_lines(undisturbed: Path) -> None:
    for line in (undisturbed / FILE).read_text().splitlines():
        assert json.loads(line)["protocol"] == "quick"


def test_ctrl_c_while_a_process_starts_waits_until_it_has() -> None:
    """Whichever thread the system hands the signal to."""
    done = []

    def start() -> None:
        with ctrl_c_waits():
            signal.raise_signal(signal.SIGINT)
            done.append("started")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done == ["started"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
