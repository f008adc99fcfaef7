"""From tables to numbers: scikit-learn's encoders as twins, every frame and every generated table alike."""

import datetime
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from offmap import artifact
from offmap.detector import OODDetector
from offmap.table import (
    BooleanColumn,
    CategoryColumn,
    ConstantColumn,
    DateColumn,
    as_table,
    encode,
    evidence,
    feature_columns,
    feature_names,
    learn_schema,
)
from offmap.table.cells import MISSING, texts
from offmap.table.measured import MeasuredColumn
from offmap.tablefiles import read_table, table_writer
from tests.mixed_table import SCHEMA, TABLE, N, kept, one

# --- encoding ---


def test_scikit_learn_encodes_the_same() -> None:
    table = TABLE.to_pandas()
    imputed = SimpleImputer(strategy="median", add_indicator=True).fit_transform(table[["bmi"]])
    colours = OneHotEncoder(min_frequency=5, sparse_output=False).fit_transform(table[["colour"]])
    visit = (pd.to_datetime(table["visit"]) - pd.Timestamp(0)) / pd.Timedelta(days=1)
    expected = np.column_stack([table["age"], imputed, table["smoker"], colours, visit])
    np.testing.assert_array_equal(encode(SCHEMA, TABLE), expected)
    names = ("age", "bmi", "bmi missing", "smoker", "colour = blue", "colour = green", "colour = red", "colour other")
    assert feature_names(SCHEMA) == (*names, "visit")
    assert feature_columns(SCHEMA) == (0, 1, 1, 2, 3, 3, 3, 3, 4)
    assert [SCHEMA.columns[place].name for place in (0, 3, 4)] == ["age", "colour", "visit"]


def test_missing_text_is_a_category_of_its_own() -> None:
    values = ["a"] * 9 + ["b"] * 8 + ["NA", None, " ? "]
    encoder = OneHotEncoder(sparse_output=False).fit(np.array([["a"], ["b"], ["missing"]]))
    expected = encoder.transform(np.array(values[:-3] + ["missing"] * 3)[:, None])
    new = pa.table({"x": values, "other": [0] * 20})
    np.testing.assert_array_equal(encode(one(values), new)[:, :3], expected)


def test_missing_truths_become_the_more_frequent_one() -> None:
    for values, fill in (([True, False, False], 0.0), ([True, True, False], 1.0), ([True, False], 1.0)):
        assert kept([*values, None]).fill == fill


def test_new_rows_in_another_order_with_more_columns() -> None:
    shuffled = TABLE.select(TABLE.column_names[::-1]).append_column("extra", pa.array(["x"] * N))
    np.testing.assert_array_equal(encode(SCHEMA, shuffled), encode(SCHEMA, TABLE))


def test_columns_that_lack_are_all_named() -> None:
    with pytest.raises(ValueError, match=r"lacks 2 columns that the model learned from: 'age', 'colour'\.$"):
        encode(SCHEMA, TABLE.drop_columns(["age", "colour", "name"]))
    with pytest.raises(ValueError, match=r"lacks 1 column that the model learned from: 'visit'\.$"):
        evidence(SCHEMA, TABLE.drop_columns(["visit"]))


def test_no_rows_are_no_rows() -> None:
    assert encode(SCHEMA, TABLE.slice(0, 0)).shape == (0, 9)
    assert evidence(SCHEMA, TABLE.slice(0, 0)) == []


@pytest.mark.parametrize(
    "frame",
    [
        TABLE.to_pandas(),
        pl.from_arrow(TABLE),
        TABLE.to_pandas(types_mapper=pd.ArrowDtype),
        TABLE.to_pandas().astype(object),
        TABLE.to_pandas().sample(frac=1, random_state=0).sort_index(),
        TABLE.set_column(3, "colour", TABLE["colour"].dictionary_encode()),
        pl.DataFrame(TABLE).with_columns(pl.col("colour").cast(pl.Categorical)),
        pa.table({name: TABLE[name].cast(pa.string()) for name in TABLE.column_names}),
    ],
    ids=["pandas", "polars", "pandas-arrow", "pandas-objects", "pandas-index", "dictionary", "polars-category", "text"],
)
def test_every_frame_gives_the_same(frame: Any) -> None:
    assert learn_schema(frame) == SCHEMA
    np.testing.assert_array_equal(encode(SCHEMA, frame), encode(SCHEMA, TABLE))
    assert evidence(SCHEMA, frame) == evidence(SCHEMA, TABLE) == [[]] * N


def test_csv_and_parquet_give_the_same(tmp_path: Path) -> None:
    for suffix in ("csv", "tsv.gz", "parquet"):
        with table_writer(tmp_path / f"table.{suffix}") as append:
            append(TABLE)
        table = read_table(tmp_path / f"table.{suffix}")
        assert learn_schema(table) == SCHEMA
        np.testing.assert_array_equal(encode(SCHEMA, table), encode(SCHEMA, TABLE))


def test_schema_survives_a_model_directory() -> None:
    arrays: dict[str, np.ndarray] = {}
    code = json.loads(json.dumps(artifact._encode(SCHEMA, "schema", arrays), allow_nan=False))
    assert arrays == {}
    assert artifact._decode(code, arrays) == SCHEMA


# --- generated tables ---

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # it takes minutes, and these tables are small

odd_cells = st.sampled_from(
    [*MISSING, "abc", "inf", "-inf", "1e999", "2024-13-01", "1_000", "+5", " 7 ", "\uff11\uff12", "T"]
)
cells = {
    "number": st.floats(-1e6, 1e6, width=32).map(str) | st.integers(-5, 5).map(str),
    "word": st.sampled_from(["red", "green", "blue", "Ωmega", "x y"]),
    "date": st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)).map(str) | st.dates().map(str),
    "truth": st.sampled_from(["true", "FALSE", "yes", "n"]),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """A training table of text, and one of new rows with any oddity in it."""
    kinds = draw(st.lists(st.sampled_from(list(cells)), min_size=1, max_size=4))
    n_train, n_new = draw(st.integers(6, 30)), draw(st.integers(0, 15))
    train: dict[str, list[str | None]]
    new: dict[str, list[str | None]]
    train, new = {"sure": [str(row % 7) for row in range(n_train)]}, {"sure": ["1"] * n_new}
    for number, kind in enumerate(kinds):
        cell = cells[kind] | st.none() | odd_cells if draw(st.booleans()) else cells[kind]
        train[f"c{number}"] = draw(st.lists(cell, min_size=n_train, max_size=n_train))
        new[f"c{number}"] = draw(st.lists(cell | st.none() | odd_cells, min_size=n_new, max_size=n_new))
    return tuple(pa.table({name: pa.array(c, pa.string()) for name, c in table.items()}) for table in (train, new))


@settings(max_examples=150, deadline=None, phases=NO_SHRINKING)
@given(both=tables(), size=st.integers(1, 16))
def test_any_table_in_any_chunks_in_any_library(both: tuple[pa.Table, pa.Table], size: int) -> None:
    train, new = both
    schema = learn_schema(train)
    whole, reasons = encode(schema, new), evidence(schema, new)
    assert whole.shape == (new.num_rows, len(feature_names(schema)))
    assert len(reasons) == new.num_rows
    assert np.isfinite(whole).all()
    for start in range(0, new.num_rows, size):
        chunk = new.slice(start, size)
        np.testing.assert_array_equal(encode(schema, chunk), whole[start : start + size])
        assert evidence(schema, chunk) == reasons[start : start + size]
    for convert in (pa.Table.to_pandas, pl.from_arrow):
        assert learn_schema(convert(train)) == schema
        np.testing.assert_array_equal(encode(schema, convert(new)), whole)
        assert evidence(schema, convert(new)) == reasons
    assert not any(item.kind in ("range", "unseen", "missing") for row in evidence(schema, train) for item in row)


@settings(max_examples=100, deadline=None, phases=NO_SHRINKING)
@given(both=tables())
def test_each_row_is_encoded_as_a_slow_twin_says(both: tuple[pa.Table, pa.Table]) -> None:
    """The definition, one cell at a time in plain Python."""
    schema = learn_schema(both[0])
    for row, encoded in zip(both[1].to_pylist(), encode(schema, both[1]), strict=True):
        expected: list[float] = []
        for column in schema.columns:
            text = (row[column.name] or "").strip()
            text = "" if text.lower() in [marker.lower() for marker in MISSING] else text
            if isinstance(column, CategoryColumn):
                expected += [text == category for category in column.categories]
                expected += [text in column.rare] * bool(column.rare) + [text == ""] * column.ever_missing
            elif not isinstance(column, ConstantColumn):
                assert isinstance(column, MeasuredColumn)
                value = slow_value(column, text)
                expected += [column.fill if math.isnan(value) else value] + [math.isnan(value)] * column.ever_missing
        np.testing.assert_allclose(encoded, expected, rtol=1e-15)


def slow_value(column: MeasuredColumn, text: str) -> float:
    if isinstance(column, BooleanColumn):
        words = dict.fromkeys(("true", "yes", "t", "1", "1.0"), 1.0) | dict.fromkeys(("false", "n", "0", "0.0"), 0.0)
        return words.get(text.lower(), math.nan)
    try:
        if isinstance(column, DateColumn):
            return (datetime.datetime.fromisoformat(text) - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)
        value = float(text.replace("_", "no"))
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


# --- frames ---


def test_no_frames_and_columns_twice() -> None:
    with pytest.raises(TypeError, match=r"a list is not a pandas, polars or pyarrow table\.$"):
        as_table([[1, 2]])
    with pytest.raises(TypeError, match=r"a LazyFrame is not .* Pass its \.collect\(\)\.$"):
        as_table(pl.LazyFrame({"a": [1]}))
    for frame in (pd.DataFrame([[1, 2]] * 3, columns=["a", "a"]), pa.table([[1] * 3, [2] * 3], names=["a", "a"])):
        with pytest.raises(ValueError, match="the table: columns 1, 2 are all called 'a'"):
            as_table(frame)
        with pytest.raises(ValueError, match="the table: columns 1, 2 are all called 'a'"):
            OODDetector().fit(frame, [1.0, 2.0, 3.0])
    assert as_table(pd.DataFrame([[1, 2]])).column_names == ["0", "1"]


def test_mixed_objects_are_text_whatever_stands_beside_them() -> None:
    mixed = [1, 2.0, 2.5, "a", None, float("nan"), True, datetime.date(2024, 1, 1), {"k": 1}]
    expected = ["1", "2", "2.5", "a", None, None, "true", "2024-01-01", "{'k': 1}"]
    frames: list[Callable[[list[Any]], Any]] = [
        lambda values: pd.DataFrame({"x": pd.Series(values, dtype=object)}),
        lambda values: pl.DataFrame({"x": pl.Series(values, dtype=pl.Object)}),
    ]
    for frame in frames:
        assert texts(as_table(frame(mixed))["x"]).to_pylist() == expected
        for value, text in zip(mixed[:-1], expected[:-1], strict=True):
            assert texts(as_table(frame([value]))["x"]).to_pylist() == [text]
