"""Fitting a file: what is said, what is written, and what is refused before any time is spent."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from offmap.detector import OODDetector, load
from offmap.fitting import FEWEST_ROWS, MOST_FEATURES, default_model_path, fit_file
from offmap.metrics import rmse
from offmap.quality import Quality
from offmap.showing import describe_model
from offmap.tablefiles import table_writer
from tests.small_models import patients, tiny_detector


def written(table: pa.Table, path: Path) -> Path:
    with table_writer(path) as append:
        append(table)
    return path


def with_holes(table: pa.Table) -> pa.Table:
    """The patients without three of the costs."""
    cost = table["cost"].to_pylist()
    cost[0] = cost[5] = cost[9] = None
    return table.set_column(table.column_names.index("cost"), "cost", pa.array(cost))


class Fitted:
    """One run of `fit_file`."""

    def __init__(self, folder: Path) -> None:
        self.table, self.lines = with_holes(patients(130)), list[str]()
        path = written(self.table, folder / "patients.csv")
        self.model = fit_file(path, "cost", tiny_detector(), folder / "model", say=self.lines.append)
        self.said = "\n".join(self.lines)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    return Fitted(tmp_path_factory.mktemp("fitted"))


def test_it_says_what_it_found(fitted: Fitted) -> None:
    for phrase in [
        "patients.csv: to predict 'cost' (",
        "3 rows without a 'cost' left out",
        "127 rows; 5 columns used, as 8 features",
        "number columns: age (",
        "category column: city ('Bonn', 'Oslo', 'Rome')",
        "left out: patient is a different text in every row, like an id",
        "fitted and calibrated (cross-fit)",
    ]:
        assert phrase in fitted.said
    assert fitted.lines[-1] == f"the model is in {fitted.model}"


def test_the_figures_are_those_of_the_rows_held_back(fitted: Fitted) -> None:
    model = load(fitted.model)
    quality = Quality(**model.quality_)
    held_out = model.held_out_
    assert sorted(held_out["row"]) == list(range(127))
    y = fitted.table["cost"].drop_null().to_numpy()
    np.testing.assert_array_equal(held_out["y"], y[held_out["row"]])
    assert quality.rmse == rmse(held_out["y"], held_out["prediction"])
    assert quality.rows == 127
    # The cost is linear in the columns but for noise of 2 and holes in the bmi, and its own std is 13.
    assert 2 < quality.rmse_of_ridge < 5
    assert quality.rmse_of_mean == pytest.approx(np.std(y), rel=0.05)
    assert 0 <= quality.auc <= 1
    assert f"{quality.rmse:.4g}; ridge regression: {quality.rmse_of_ridge:.4g}" in fitted.said
    assert "warning: the model predicts no better than" in fitted.said  # twenty epochs are too few


def test_the_model_is_the_one_that_python_gives(fitted: Fitted) -> None:
    rows = fitted.table.filter(fitted.table["cost"].is_valid())
    text = pa.table({name: rows[name].cast(pa.string()) for name in rows.column_names})  # as CSV has it
    same = tiny_detector().fit(text.drop_columns("cost"), rows["cost"].to_numpy())
    new = patients(40, seed=1)
    for name, values in load(fitted.model).verdicts(new).items():
        np.testing.assert_array_equal(values, same.verdicts(new)[name])


def test_copies_of_rows_are_warned_of(tmp_path: Path) -> None:
    table, lines = patients(60), list[str]()
    path = written(pa.concat_tables([table, table.slice(0, 20)]), tmp_path / "twice.csv")
    fit_file(path, "cost", tiny_detector(), tmp_path / "model", say=lines.append)
    assert any(line.startswith("warning: 20 of the 80 rows are copies of others") for line in lines)


def test_a_model_can_be_shown(fitted: Fitted) -> None:
    shown = "\n".join(describe_model(fitted.model))
    for phrase in [
        "model: predicts 'cost'",
        "127 rows; 5 columns used, as 8 features",
        "Ensemble: training Training(learning_rate=0.01",
        "members 4",
        "network 8 -> 8 -> 1 (relu)",
        "noise_std 1.0: 1 in target units",
        "evidence: both; flagged are rows with a p-value of at most 0.05",
        "calibration: cross-fit, on all 127 rows",
        "promise: ",
        "ridge regression: ",
        "jax ",
    ]:
        assert phrase in shown


def test_a_model_of_numbers_made_in_python_can_be_shown(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((300, 2))
    tiny_detector(calibration="held-out", evidence="novelty").fit(X, X[:, 0]).save(tmp_path / "model")
    shown = "\n".join(describe_model(tmp_path / "model"))
    assert "a target without a name" in shown
    assert "2 columns of numbers without holes: x0 (" in shown
    assert "calibration: held-out, on 60 rows" in shown
    assert "evidence: novelty" in shown


def test_complaints_of_the_methods_are_said_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = OODDetector.fit

    def grumbling(self: OODDetector, *rows: Any) -> OODDetector:
        for _ in range(3):
            warnings.warn("the chains have not mixed", stacklevel=1)
        return fit(self, *rows)

    monkeypatch.setattr(OODDetector, "fit", grumbling)
    lines: list[str] = []
    path = written(patients(60), tmp_path / "patients.parquet")
    fit_file(path, "cost", tiny_detector(calibration="held-out"), tmp_path / "model", say=lines.append)
    assert lines.count("warning: the chains have not mixed") == 1


# --- refused before any time is spent ---


@pytest.fixture
def no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*rows: Any) -> None:
        raise AssertionError("a fit was started")

    monkeypatch.setattr(OODDetector, "fit", refuse)


def refusal(path: Path, target: str = "cost", **options: Any) -> str:
    with pytest.raises((ValueError, OSError)) as problem:
        fit_file(path, target, tiny_detector(), **{"out": path.parent / "model", **options})
    assert "\n" not in str(problem.value)
    return str(problem.value)


@pytest.mark.usefixtures("no_fit")
def test_too_few_rows_with_a_target(tmp_path: Path) -> None:
    table = with_holes(patients(FEWEST_ROWS + 2))
    message = refusal(written(table, tmp_path / "few.csv"))
    assert f"has {FEWEST_ROWS - 1} rows with a 'cost', too few to learn from. At least {FEWEST_ROWS}" in message
    assert "has 1 row, too few to learn from" in refusal(written(patients(1), tmp_path / "one.csv"))


@pytest.mark.usefixtures("no_fit")
def test_too_many_columns(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    wide = {f"x{place}": random.standard_normal(30).round(3) for place in range(MOST_FEATURES + 1)}
    message = refusal(written(pa.table({**wide, "cost": np.arange(30)}), tmp_path / "wide.parquet"))
    assert f"{MOST_FEATURES + 1:,} columns to learn from" in message
    assert f"at most {MOST_FEATURES:,}" in message


@pytest.mark.usefixtures("no_fit")
def test_nothing_is_overwritten_unless_forced_and_never_what_is_no_model(tmp_path: Path) -> None:
    path = written(patients(), tmp_path / "patients.csv")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.docx").touch()
    assert "exists already. Choose another path, or pass --force." in refusal(path)
    assert "is not a model directory, so it is not overwritten" in refusal(path, force=True)
    assert [file.name for file in (tmp_path / "model").iterdir()] == ["thesis.docx"]


@pytest.mark.usefixtures("no_fit")
def test_the_target_is_checked(tmp_path: Path) -> None:
    path = written(patients(), tmp_path / "patients.csv")
    assert "Did you mean 'cost'?" in refusal(path, "costs")
    assert re.search(r"'city' must be numbers, but row 1 .* holds '(Bonn|Oslo|Rome)'", refusal(path, "city"))


@pytest.mark.parametrize(
    ("name", "model"),
    [("a.csv", "a-model"), ("a.b.tsv.gz", "a.b-model"), ("A.CSV", "A-model"), ("x/y.parquet", "y-model")],
)
def test_the_model_is_named_after_the_table(name: str, model: str) -> None:
    assert default_model_path(Path(name)) == Path(model)
