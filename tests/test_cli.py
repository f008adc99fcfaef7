"""The command line: what it says, how it exits, and what it leaves behind."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from offmap import __version__, demo
from offmap.cli import app
from offmap.exits import in_the_users_words

run = CliRunner().invoke


def test_help_names_every_command_and_does_not_wait_for_jax() -> None:
    code = "import atexit, sys; from offmap.cli import app; atexit.register(lambda: print('jax' in sys.modules)); app()"
    said = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(command.callback.__name__ in said for command in app.registered_commands if command.callback)
    assert said.strip().endswith("False")


def test_version() -> None:
    assert run(app, ["--version"]).stdout.strip() == f"offmap {__version__}"


def test_wrong_input_is_one_line_and_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(out: Path) -> None:
        raise ValueError("the table is upside down. Turn it over.")

    monkeypatch.setattr(demo, "run_demo", refuse)
    result = run(app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr == "offmap: the table is upside down. Turn it over.\n"


def test_ctrl_c_is_exit_code_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(out: Path) -> None:
        raise KeyboardInterrupt("interrupted after 3 of at most 10 epochs; nothing was kept.")

    monkeypatch.setattr(demo, "run_demo", interrupted)
    result = run(app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert "after 3 of at most 10 epochs" in result.stderr


class InterruptedWhileDeleted:
    """Ctrl-C at a moment when Python cannot let an exception through."""

    def __del__(self) -> None:
        raise KeyboardInterrupt


def test_ctrl_c_is_not_lost_where_python_must_ignore_it(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with in_the_users_words():
            InterruptedWhileDeleted()
            time.sleep(20)

    started = time.monotonic()
    with pytest.raises(typer.Exit) as end:
        work()
    assert end.value.exit_code == 130
    assert time.monotonic() - started < 10  # it came again
    assert capsys.readouterr().err == "\noffmap: interrupted. Nothing half-written stays.\n"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The chains have not mixed")
def test_demo_makes_pictures_verdicts_and_a_report(tmp_path: Path) -> None:
    result = run(app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(
        ["diabetes.csv", "diabetes.png", "new-patients.csv", "patients.csv", "report.md", "wave.png"]
    )
    assert (tmp_path / "new-patients.csv").read_text().count("\n") == 1 + 60
    assert (tmp_path / "diabetes.csv").read_text().count("\n") == 1 + 60 + 20
