"""Scoring a file: every row comes back in order, judged as in Python, whatever the size of the pieces."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control
from sklearn.linear_model import Ridge

from offmap import batches, scoring
from offmap.artifact import ModelFileError
from offmap.detector import OODDetector
from offmap.regressor import DiverseRegressor
from offmap.scoring import COLUMNS, Scored, Scoring, describe_scored, load_detector, score_file
from offmap.tablefiles import read_table, table_writer
from tests.small_models import TINY, patients, tiny_detector

NUMBERS = [column for column in COLUMNS if column not in ("is_ood", "reason")]


@pytest.fixture(scope="module")
def detector() -> OODDetector:
    table = patients(600)  # 120 of them calibrate
    return tiny_detector(calibration="held-out").fit(table.drop_columns("cost"), table["cost"].to_numpy())


def written(table: pa.Table, path: Path) -> Path:
    with table_writer(path, force=True) as append:
        append(table)
    return path


def scored(
    detector: OODDetector, table: pa.Table, folder: Path, *, suffix: str = "parquet", **options: Any
) -> pa.Table:
    path = written(table, folder / f"in.{suffix}")
    score_file(detector, path, folder / f"out.{suffix}", Scoring(**options), force=True)
    return read_table(folder / f"out.{suffix}")


# --- what comes back ---


@pytest.mark.parametrize("suffix", ["parquet", "csv", "tsv.gz"])
def test_rows_come_back_with_the_verdicts_that_python_gives(suffix: str, detector: OODDetector, tmp_path: Path) -> None:
    table = patients(50, seed=1)
    found = scored(detector, table, tmp_path, suffix=suffix)
    assert found.column_names == [*table.column_names, *COLUMNS]
    assert found.select(table.column_names).equals(read_table(tmp_path / f"in.{suffix}"))
    expected = detector.verdicts(table)
    assert tuple(expected) == COLUMNS
    for name in NUMBERS:
        np.testing.assert_array_equal(found[name].cast(pa.float64()).to_numpy(), expected[name])
    assert [str(flag).lower() == "true" for flag in found["is_ood"].to_pylist()] == expected["is_ood"].tolist()
    assert [reason or "" for reason in found["reason"].to_pylist()] == expected["reason"].tolist()


def test_neither_target_nor_other_columns_matter(detector: OODDetector, tmp_path: Path) -> None:
    table = patients(30, seed=2)
    bare = table.select(["visit", "smoker", "city", "bmi", "age"])
    full, less = scored(detector, table, tmp_path), scored(detector, bare, tmp_path)
    assert full.select(COLUMNS).equals(less.select(COLUMNS))


def test_another_rate_flags_the_p_values_up_to_it(detector: OODDetector, tmp_path: Path) -> None:
    found = scored(detector, patients(80, seed=3), tmp_path, false_alarm_rate=0.3)
    np.testing.assert_array_equal(found["is_ood"].to_numpy(), found["p_value"].to_numpy() <= 0.3)
    flagged = found["is_ood"].to_numpy().astype(bool)
    assert flagged.any()
    assert all(reason != "" for reason in found["reason"].filter(flagged).to_pylist())
    assert all(reason == "" for reason in found["reason"].filter(~flagged).to_pylist())


@pytest.mark.parametrize("evidence", ["disagreement", "novelty"])
def test_other_evidence_decides_alone(evidence: str, detector: OODDetector, tmp_path: Path) -> None:
    found = scored(detector, patients(40, seed=4), tmp_path, evidence=evidence)
    assert found["p_value"].equals(found[f"p_{evidence}"])
    assert detector.evidence_ == "both"


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
def test_false_discoveries_are_controlled_as_by_scipy(rate: float, detector: OODDetector, tmp_path: Path) -> None:
    strange = patients(60, seed=6).set_column(1, "age", pa.array(np.arange(300, 360)))
    table = pa.concat_tables([patients(60, seed=5), strange])
    found = scored(detector, table, tmp_path, false_discovery_rate=rate, rows_at_once=17)
    expected = false_discovery_control(found["p_value"].to_numpy(), method="bh") <= rate
    np.testing.assert_array_equal(found["is_ood"].to_numpy(), expected)
    assert expected[60:].mean() > 0.9


def test_false_discoveries_among_ordinary_rows_flag_nothing_and_say_why(detector: OODDetector, tmp_path: Path) -> None:
    path = written(patients(seed=0), tmp_path / "in.csv")
    rule = Scoring(false_discovery_rate=0.001)
    result = score_file(detector, path, tmp_path / "out.csv", rule)
    assert (result.rows, result.flagged, result.threshold) == (120, 0, 0.0)
    note = describe_scored(result, rule, n_calibration=120)[1]
    assert "no p-value is below 0.0083" in note  # 1 / 121


def test_a_rate_below_every_p_value_is_said(detector: OODDetector) -> None:
    lines = describe_scored(Scored(rows=10, flagged=0, seconds=2.0, threshold=0.001), Scoring(0.001), n_calibration=120)
    assert lines[0].startswith("10 rows in 2.0 s (5 per second); 0 flagged (0.00%)")
    assert "nothing can be flagged at a rate of 0.001" in lines[1]
    assert len(describe_scored(Scored(10, 0, 2.0, threshold=0.05), Scoring(), n_calibration=120)) == 1


# --- any table, in pieces of any size ---

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
cells = {
    "age": st.none() | st.integers(-(2**60), 2**60) | st.floats() | st.sampled_from(["", "old", "1e400", "0x1", " 7 "]),
    "bmi": st.none() | st.floats(),
    "city": st.none()
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
    | st.sampled_from(["Rome", "Oslo"]),
    "smoker": st.none() | st.sampled_from(["yes", "no", "True", "perhaps"]),
    "visit": st.none() | st.dates().map(str) | st.sampled_from(["2021-02-30", "tomorrow", "2021-01-01T12:00:00Z"]),
}
texts = {name: values.map(lambda cell: None if cell is None else str(cell)) for name, values in cells.items()}
tables = st.integers(1, 8).flatmap(
    lambda n: st.fixed_dictionaries({name: st.lists(text, min_size=n, max_size=n) for name, text in texts.items()})
)


@settings(max_examples=30, deadline=None)
@given(columns=tables, rows=st.integers(1, 9), suffix=st.sampled_from(["csv", "parquet"]))
def test_any_rows_come_back_finite_in_order_and_alike_in_pieces_of_any_size(
    columns: dict[str, list[str | None]],
    rows: int,
    suffix: str,
    detector: OODDetector,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    n = len(columns["age"])
    given_cells = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    table = pa.table({"row": [str(place) for place in range(n)], **given_cells})
    folder = tmp_path_factory.mktemp("any")
    whole = scored(detector, table, folder, suffix=suffix)
    pieces = scored(detector, table, folder, suffix=suffix, rows_at_once=rows)
    assert pieces.equals(whole)
    assert whole["row"].to_pylist() == table["row"].to_pylist()
    values = np.array([whole[name].cast(pa.float64()).to_numpy() for name in NUMBERS])
    assert np.isfinite(values).all()
    p_values = values[[NUMBERS.index(name) for name in ("p_disagreement", "p_novelty", "p_value")]]
    assert ((p_values > 0) & (p_values <= 1)).all()


def test_cross_fitted_models_give_the_same_in_pieces_of_any_size(tmp_path: Path) -> None:
    table = patients(60)
    model = tiny_detector(calibration="cross-fit").fit(table.drop_columns("cost"), table["cost"].to_numpy())
    whole = scored(model, table, tmp_path)
    for rows in (1, 7, 59):
        pieces = scored(model, table.slice(0, 2 * rows), tmp_path, rows_at_once=rows)
        assert pieces.equals(whole.slice(0, 2 * rows))


def test_wide_tables_are_read_in_smaller_pieces(
    detector: OODDetector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    wide = pa.table(patients(3).to_pydict() | {f"extra {place}": [0, 0, 0] for place in range(3000)})

    def read(path: Path, rows: int) -> Iterator[pa.Table]:
        asked.append(rows)
        return iter([wide if path.stem == "wide" else patients(3)])

    monkeypatch.setattr(batches, "read_batches", read)
    for name in ("narrow", "wide"):
        score_file(detector, tmp_path / f"{name}.csv", tmp_path / f"{name} scored.csv")
    assert asked == [1, 1 << 14, 1, (1 << 20) // 3007]


# --- models that know only numbers ---


def test_a_model_of_numbers_finds_its_columns_by_name(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.standard_normal((60, 2)), columns=["a", "b"])
    model = tiny_detector().fit(X, X["a"] + 1)
    path = tmp_path / "in.csv"
    X.iloc[:9].assign(other="x")[["other", "b", "a"]].to_csv(path, index=False)
    score_file(model, path, tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    expected = model.verdicts(X.iloc[:9])
    np.testing.assert_allclose(found["ood_score"], expected["ood_score"], rtol=1e-12)
    np.testing.assert_array_equal(found["p_value"], expected["p_value"])


def test_a_model_of_columns_without_names_takes_as_many_columns(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((60, 2))
    model = tiny_detector().fit(X, X[:, 0])
    path = written(pa.table({"p": X[:5, 0], "q": X[:5, 1]}), tmp_path / "in.parquet")
    score_file(model, path, tmp_path / "out.parquet")
    found = read_table(tmp_path / "out.parquet")
    np.testing.assert_array_equal(found["p_value"].to_numpy(), model.p_values(X[:5]))
    path.with_suffix(".csv").write_text("p,q\n1,2\n3,\n")
    with pytest.raises(ValueError, match=r"in.csv: row 2 .* is not all numbers.*offmap fit"):
        score_file(model, path.with_suffix(".csv"), tmp_path / "out.csv", Scoring(rows_at_once=1))
    path = written(pa.table({"p": [1.0]}), tmp_path / "less.parquet")
    with pytest.raises(ValueError, match=r"has 1 column.* learned from 2 without names"):
        score_file(model, path, tmp_path / "out.parquet", force=True)


def test_a_model_without_predictors_has_novelty_alone_and_leaves_the_rest_empty(tmp_path: Path) -> None:
    table = patients()
    model = OODDetector(Ridge(), evidence="novelty", random_state=0).fit(
        table.drop_columns("cost"), table["cost"].to_numpy()
    )
    found = scored(model, table, tmp_path)
    assert found["p_value"].equals(found["p_novelty"])
    assert found["ood_score"].null_count == found["p_disagreement"].null_count == found.num_rows
    with pytest.raises(ValueError, match="no predictors that could disagree"):
        scored(model, table, tmp_path, evidence="both")


# --- what is wrong is said at the door ---


def test_missing_columns_are_all_named_at_once(detector: OODDetector, tmp_path: Path) -> None:
    path = written(patients(5).drop_columns(["age", "city"]), tmp_path / "in.csv")
    with pytest.raises(ValueError, match=r"in.csv lacks 2 of the 5 columns .*: 'age', 'city'. It has: 'patient'"):
        score_file(detector, path, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_columns_with_the_verdicts_names_are_refused_unless_those_get_others(
    detector: OODDetector, tmp_path: Path
) -> None:
    table = patients(5).append_column("reason", pa.array(["x"] * 5)).append_column("p_value", pa.array([1] * 5))
    with pytest.raises(ValueError, match=r"in.parquet has columns .*: 'reason', 'p_value'. .*--prefix"):
        scored(detector, table, tmp_path)
    found = scored(detector, table, tmp_path, prefix="offmap_")
    assert found.column_names == [*table.column_names, *(f"offmap_{name}" for name in COLUMNS)]
    assert found["reason"].to_pylist() == ["x"] * 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"false_alarm_rate": 0.0}, "--alpha is 0, but it must lie between 0 and 1"),
        ({"false_discovery_rate": 1.5}, "--fdr is 1.5, but it must lie between 0 and 1"),
        ({"false_alarm_rate": 0.1, "false_discovery_rate": 0.1}, "pass one of them"),
    ],
)
def test_rates_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Scoring(**options)


def test_unknown_evidence_is_refused(detector: OODDetector, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--evidence is 'rumour', but it must be one of: both, disagreement, novelty"):
        scored(detector, patients(5), tmp_path, evidence="rumour")


def test_a_regressor_alone_has_no_alarm(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((20, 1))
    DiverseRegressor(TINY, noise_std=1.0, hidden=(4,), random_state=0).fit(X, X[:, 0]).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="holds a DiverseRegressor, which has no alarm"):
        load_detector(tmp_path / "model")


def test_an_interrupted_run_leaves_nothing(
    detector: OODDetector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(patients(60), tmp_path / "in.csv")
    monkeypatch.setattr(scoring, "_joined", interrupted_after(2))
    with pytest.raises(KeyboardInterrupt):
        score_file(detector, path, tmp_path / "out.csv", Scoring(rows_at_once=10))
    assert [file.name for file in tmp_path.iterdir()] == ["in.csv"]


def interrupted_after(batches: int) -> Any:
    """`_joined`, until Ctrl-C."""
    joined, done = scoring._joined, []

    def join(*arguments: Any) -> Any:
        done.append(True)
        if len(done) > batches:
            raise KeyboardInterrupt
        return joined(*arguments)

    return join


def test_nothing_but_the_table_goes_to_standard_output(
    detector: OODDetector, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = written(patients(7), tmp_path / "in.csv")
    score_file(detector, path, tmp_path / "out.csv")
    score_file(detector, path)
    out = capfdbinary.readouterr().out
    assert out == (tmp_path / "out.csv").read_bytes()
    assert len(pd.read_csv(io.BytesIO(out))) == 7
