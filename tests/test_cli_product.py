"""`offmap fit`, `score` and `show` as a stranger meets them: what is said, how it ends, and what stays on the disk."""

import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from offmap import clidocs, regressor
from offmap.cli import app
from offmap.inference import METHODS
from offmap.scoring import COLUMNS
from offmap.tablefiles import table_writer
from tests.small_models import TINY, patients, tiny_detector

ROOT = Path(__file__).parent.parent
OFFMAP = [sys.executable, "-m", "offmap"]
# As users have it: what is left in a buffer shows only at the very end.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(*words: Any) -> str:
    """The one line that is said about wrong input, after exit code 2."""
    result = run(*words)
    assert result.exit_code == 2, result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("offmap: ")
    return str(result.stderr)


def files(folder: Path) -> set[str]:
    """What lies in a folder, the hidden too."""
    return {file.name for file in folder.iterdir()}


def written(table: pa.Table, path: Path) -> Path:
    with table_writer(path) as append:
        append(table)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = patients(600)
    detector = tiny_detector(calibration="held-out").fit(table.drop_columns("cost"), table["cost"].to_numpy())
    folder = tmp_path_factory.mktemp("fitted") / "model"
    detector.save(folder)
    return folder


# --- the stranger's path ---


def test_from_a_csv_file_to_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "ensemble", TINY)
    monkeypatch.setattr(regressor, "held_out_noise_std", lambda *model_and_data: 0.3)
    monkeypatch.chdir(tmp_path)
    written(patients(200), tmp_path / "patients.csv")
    fitted = run("fit", "patients.csv", "--target", "cost", "--method", "ensemble", "--false-alarm-rate", 0.1)
    assert fitted.exit_code == 0, fitted.stderr
    assert "200 rows; 5 columns used" in fitted.stdout
    assert fitted.stdout.endswith("the model is in patients-model\n")
    assert files(tmp_path / "patients-model") == {"model.json", "arrays.safetensors"}

    shown = run("show", "patients-model")
    assert shown.exit_code == 0
    assert "p-value of at most 0.1" in shown.stdout

    strange = patients(10, seed=2).set_column(1, "age", pa.array([970] * 10))
    written(pa.concat_tables([patients(20, seed=1), strange]), tmp_path / "new.csv")
    scored = run("score", "patients-model", "new.csv", "--out", "verdicts.csv")
    assert scored.exit_code == 0, scored.stderr
    assert scored.stdout == ""
    assert re.match(r"30 rows in \d+\.\d s \([\d,]+ per second\); \d+ flagged \(", scored.stderr)
    verdicts = pd.read_csv("verdicts.csv", keep_default_na=False)
    assert list(verdicts.columns) == [*patients(1).column_names, *COLUMNS]
    assert verdicts["is_ood"][20:].all()
    assert all("age" in reason for reason in verdicts["reason"][20:])
    assert verdicts["is_ood"].sum() < 20

    assert "exists already" in refused("fit", "patients.csv", "--target", "cost")
    assert "exists already" in refused("score", "patients-model", "new.csv", "--out", "verdicts.csv")
    again = run("score", "patients-model", "new.csv", "--out", "verdicts.csv", "--force", "--alpha", 0.5)
    assert again.exit_code == 0
    assert pd.read_csv("verdicts.csv")["is_ood"].sum() > verdicts["is_ood"].sum()


def test_standard_output_has_the_table_and_nothing_else(model: Path, tmp_path: Path) -> None:
    table = written(patients(5), tmp_path / "new.csv")
    done = subprocess.run([*OFFMAP, "score", model, table], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].split(",") == [*patients(1).column_names, *COLUMNS]
    assert len(done.stdout.splitlines()) == 6
    assert "5 rows in" in done.stderr


def test_the_docs_are_what_the_commands_say() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == clidocs.cli_page(), "run: python -m offmap.clidocs > docs/cli.md"
    for command in ("fit", "score", "show", "demo", "study run"):
        assert f"\n## offmap {command}\n" in clidocs.cli_page()


# --- tables that are none ---

TABLES = {
    "not a table": ("notes.docx", b"Dear all", "its name must end in .csv"),
    "another kind of file": ("t.csv", b"PK\x03\x04 and so on", "Excel or zip file"),
    "empty": ("t.csv", b"", "is empty"),
    "a header only": ("t.csv", b"age,cost\n", "no rows"),
    "ragged": ("t.csv", b"age,cost\n1,2\n3\n", "line 3 has 1 value, but the header has 2"),
    "another encoding": ("t.csv", "age,cost\n1,2\nMünster,3\n".encode("cp1252"), "looks like Windows-1252"),
    "a column twice": ("t.csv", b"age,age,cost\n1,2,3\n", "columns 1, 2 are all called 'age'"),
    "a damaged Parquet file": ("t.parquet", b"PAR1 and nothing", "not a whole Parquet file"),
}


@pytest.mark.parametrize(("name", "content", "said"), TABLES.values(), ids=TABLES)
def test_what_is_no_table_is_refused(name: str, content: bytes, said: str, model: Path, tmp_path: Path) -> None:
    table = tmp_path / name
    table.write_bytes(content)
    assert said in refused("fit", table, "--target", "cost", "--out", tmp_path / "model")
    assert said in refused("score", model, table, "--out", tmp_path / "out.csv")
    assert files(tmp_path) == {name}


def test_a_row_that_breaks_late_leaves_no_output(model: Path, tmp_path: Path) -> None:
    table = written(patients(50), tmp_path / "t.csv")
    with table.open("a") as file:
        file.write("too,few\n")
    assert "line 52 has 2 values, but the header has 7" in refused("score", model, table, "--out", tmp_path / "out.csv")
    assert files(tmp_path) == {"t.csv"}


FITS = {
    "one row": (lambda table: table.slice(0, 1), "has 1 row, too few to learn from"),
    "too few rows": (lambda table: table.slice(0, 19), "has 19 rows, too few to learn from"),
    "a target with text": (
        lambda table: table.set_column(6, "cost", pa.array(["12"] * 29 + ["twelve"])),
        "'cost' must be numbers, but row 30 (the first is row 1) holds 'twelve'",
    ),
    "no such target": (lambda table: table.rename_columns([*table.column_names[:6], "Costs"]), "Did you mean 'Costs'?"),
    "5,000 columns": (
        lambda table: pa.table(
            {f"x{place}": np.arange(30) % (place + 2) for place in range(5000)} | {"cost": np.arange(30)}
        ),
        "has 5,000 columns to learn from, as 5,000 numbers, and at most 500",
    ),
}


@pytest.mark.parametrize(("change", "said"), FITS.values(), ids=FITS)
def test_tables_that_cannot_be_learned_from(change: Any, said: str, tmp_path: Path) -> None:
    table = written(change(patients(30)), tmp_path / "t.csv")
    assert said in refused("fit", table, "--target", "cost", "--out", tmp_path / "model")
    assert files(tmp_path) == {"t.csv"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "astrology"], "method is 'astrology', but it must be one of: hmc"),
        (["--evidence", "rumour"], "evidence is 'rumour', but it must be"),
        (["--false-alarm-rate", "2"], "false_alarm_rate is 2.0, but it must lie between 0 and 1"),
    ],
)
def test_settings_that_are_wrong(options: list[str], said: str, tmp_path: Path) -> None:
    table = written(patients(30), tmp_path / "t.csv")
    assert said in refused("fit", table, "--target", "cost", "--out", tmp_path / "model", *options)


def test_a_table_of_5000_columns_can_be_scored(model: Path, tmp_path: Path) -> None:
    extra = {str(place): [1, 2, 3] for place in range(5000)}
    table = pa.table(patients(3).to_pydict() | extra)
    result = run("score", model, written(table, tmp_path / "t.parquet"), "--out", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.stderr


def test_missing_columns_are_named_in_one_line(model: Path, tmp_path: Path) -> None:
    table = written(patients(5).drop_columns(["bmi", "visit"]), tmp_path / "t.csv")
    assert "lacks 2 of the 5 columns that the model learned from: 'bmi', 'visit'" in refused("score", model, table)


# --- models that are none ---


def truncate(model: Path) -> None:
    blob = (model / "arrays.safetensors").read_bytes()
    (model / "arrays.safetensors").write_bytes(blob[: len(blob) // 2])


def alter(model: Path) -> None:
    text = (model / "model.json").read_text()
    (model / "model.json").write_text(text.replace('"false_alarm_rate": 0.05', '"false_alarm_rate": 0.01'))


def reach_outside(model: Path) -> None:
    """An array's name that is a path, under a checksum that is right."""
    document = json.loads((model / "model.json").read_text())
    body = json.dumps(document["model"])
    name = re.search(r'"array": "([^"]+)"', body)
    assert name is not None
    document["model"] = json.loads(body.replace(f'"array": "{name.group(1)}"', '"array": "../../secret"'))
    canonical = json.dumps(document["model"], sort_keys=True, allow_nan=False)
    document["model_sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    (model / "model.json").write_text(json.dumps(document))


def take_half(model: Path) -> None:
    (model / "model.json").unlink()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (truncate, "arrays.safetensors is truncated or was altered"),
        (alter, "model.json is truncated or was altered"),
        (reach_outside, "model.json is truncated or was altered"),
        (take_half, "is not a model directory"),
    ],
)
def test_models_that_were_harmed(harm: Any, said: str, model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    copy.mkdir()
    for file in model.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    harm(copy)
    (tmp_path.parent / "secret").write_bytes(b"")
    table = written(patients(5), tmp_path / "t.csv")
    assert said in refused("score", copy, table, "--out", tmp_path / "out.csv")
    assert said in refused("show", copy)
    assert files(tmp_path) == {"model", "t.csv"}


def test_a_table_is_no_model(tmp_path: Path) -> None:
    table = written(patients(5), tmp_path / "t.csv")
    assert "t.csv is not a model directory" in refused("score", table, table)
    assert "nowhere is not a model directory" in refused("show", tmp_path / "nowhere")


# --- ends that nobody planned ---


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.csv.gz"])
def test_a_full_disk_leaves_nothing(name: str, model: Path, tmp_path: Path) -> None:
    """The system refuses to let a file grow beyond 20,000 bytes."""
    random = np.random.default_rng(0)
    table = patients(2000).append_column("noise", pa.array(random.standard_normal(2000)))
    path = written(table, tmp_path / "t.parquet")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        said = refused("score", model, path, "--out", tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "the disk is full" in said
    assert files(tmp_path) == {"t.parquet"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_device_behind_standard_output_is_one_line(model: Path, tmp_path: Path) -> None:
    table = written(patients(5), tmp_path / "t.csv")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*OFFMAP, "score", model, table], stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
    assert done.returncode == 2
    assert done.stderr.startswith("offmap: the disk is full")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_has_seen_enough_is_a_good_end(model: Path, tmp_path: Path) -> None:
    table = written(patients(5), tmp_path / "t.parquet")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*OFFMAP, "score", model, table], stdout=write, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_ctrl_c_ends_with_130_and_leaves_nothing(model: Path, tmp_path: Path, asked: signal.Signals) -> None:
    many = pa.concat_tables([patients(1000)] * 2000)
    table = written(many, tmp_path / "t.parquet")
    process = subprocess.Popen([*OFFMAP, "score", model, table, "--out", tmp_path / "out.csv"], stderr=subprocess.PIPE)
    while len(files(tmp_path)) == 1 and process.poll() is None:  # until the output has begun
        time.sleep(0.05)
    process.send_signal(asked)
    _, said = process.communicate()
    assert process.returncode == 130
    assert said.decode().strip().startswith("offmap: interrupted")
    assert files(tmp_path) == {"t.parquet"}


def test_a_full_disk_while_a_model_is_written_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "ensemble", TINY)
    monkeypatch.setattr(regressor, "held_out_noise_std", lambda *model_and_data: 0.3)
    table = written(patients(200), tmp_path / "t.csv")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        result = run("fit", table, "--target", "cost", "--method", "ensemble", "--out", tmp_path / "model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("offmap: the disk is full")
    assert files(tmp_path) == {"t.csv"}


def test_ctrl_c_during_a_fit_ends_with_130_and_leaves_no_model(tmp_path: Path) -> None:
    table = written(patients(600), tmp_path / "t.csv")
    command = [*OFFMAP, "fit", str(table), "--target", "cost", "--method", "hmc", "--out", str(tmp_path / "model")]
    at_once = ENVIRONMENT | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=at_once)
    assert process.stdout is not None
    assert "to predict 'cost'" in process.stdout.readline()  # the table is read, and the fit begins
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "offmap: interrupted" in said
    assert "Traceback" not in said
    assert files(tmp_path) == {"t.csv"}
