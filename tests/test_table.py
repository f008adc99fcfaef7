"""From tables to numbers: scikit-learn's encoders as twins, every frame alike, and every oddity said, never a crash."""

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
from offmap.table import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    NumericColumn,
    Schema,
    as_table,
    describe,
    encode,
    evidence,
    feature_columns,
    feature_names,
    learn_schema,
    target_of,
)
from offmap.table.cells import MISSING, days, numbers, texts, truths
from offmap.table.measured import MeasuredColumn
from offmap.tablefiles import read_table, table_writer

N = 200
RANDOM = np.random.default_rng(0)
COLOURS = ["red", "green", "blue", "teal"]
TABLE = pa.table(
    {
        "age": RANDOM.integers(18, 92, N),
        "bmi": pa.array(np.where(RANDOM.random(N) < 0.2, np.nan, RANDOM.normal(25, 4, N)), from_pandas=True),
        "smoker": RANDOM.random(N) < 0.3,
        "colour": [COLOURS[choice] for choice in RANDOM.choice(4, N, p=[0.5, 0.3, 0.19, 0.01])],
        "visit": pa.array(RANDOM.integers(18_000, 19_000, N).astype(np.int32), pa.date32()),
        "name": [f"person {row}" for row in range(N)],
        "country": ["FR"] * N,
        "empty": pa.nulls(N, pa.float64()),
    }
)
SCHEMA = learn_schema(TABLE)


def one(values: Any, name: str = "x", **others: Any) -> Schema:
    """The schema of a table of this column, and of one more that can always be learned from."""
    return learn_schema(pa.table({name: values, "other": [0.5, *range(1, len(values))], **others}))


def kept(values: Any, name: str = "x") -> Any:
    return next(column for column in one(values, name).columns if column.name == name)


def why_left_out(values: Any, name: str = "x") -> str:
    return dict(one(values, name).left_out)[name]


def phrases(schema: Schema, frame: Any) -> list[list[str]]:
    return [[item.text for item in row] for row in evidence(schema, frame)]


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
            else:
                assert isinstance(column, MeasuredColumn)
                value = slow_value(column, text)
                expected += [column.fill if math.isnan(value) else value] + [math.isnan(value)] * column.ever_missing
        np.testing.assert_allclose(encoded, expected, rtol=1e-15)


def slow_value(column: MeasuredColumn, text: str) -> float:
    if isinstance(column, BooleanColumn):
        words = {"true": 1.0, "yes": 1.0, "t": 1.0, "1": 1.0, "false": 0.0, "n": 0.0, "0": 0.0}
        return words.get(text.lower(), math.nan)
    try:
        if isinstance(column, DateColumn):
            return (datetime.datetime.fromisoformat(text) - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)
        value = float(text.replace("_", "no"))
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


# --- reading cells ---


@settings(max_examples=300)
@given(text=st.from_regex(r"[+-]?(\d{0,4}\.?\d{0,4}(e[+-]?\d{1,3})?|inf|nan|infinity|0x1|1_0)", fullmatch=True))
def test_numbers_are_those_of_python(text: str) -> None:
    try:
        expected = float(text.replace("_", "no"))
    except ValueError:
        expected = math.nan
    value = float(numbers(pa.chunked_array([[text]])).values[0])
    assert (value == expected) if abs(expected) <= 1e100 else math.isnan(value)
    beside = numbers(pa.chunked_array([[text, "not a number"]])).values[0]
    np.testing.assert_array_equal(beside, value)


@settings(max_examples=300)
@given(
    moment=st.datetimes(
        timezones=st.none() | st.just(datetime.UTC) | st.just(datetime.timezone(-datetime.timedelta(hours=3.5)))
    ),
    form=st.sampled_from(["auto", "hours", "minutes", "seconds", "milliseconds", "microseconds"]),
    separator=st.sampled_from(" T"),
)
def test_dates_are_those_of_python(moment: datetime.datetime, form: str, separator: str) -> None:
    text = moment.isoformat(separator, form)
    read = datetime.datetime.fromisoformat(text)
    utc = read if read.tzinfo else read.replace(tzinfo=datetime.UTC)
    expected = (utc - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) / datetime.timedelta(days=1)
    for others in ([], ["not a date"], ["2024-01-01T00:00:00Z"]):
        np.testing.assert_allclose(days(pa.chunked_array([[text, *others]])).values[0], expected, rtol=1e-15)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_dates_of_every_unit_are_those_of_their_text(unit: str) -> None:
    typed = pa.chunked_array(
        [pa.array([1_700_000_000 * 1000 ** ["s", "ms", "us", "ns"].index(unit), None]).cast(pa.timestamp(unit))]
    )
    np.testing.assert_array_equal(days(typed).values, days(typed.cast(pa.string())).values)
    np.testing.assert_array_equal(days(typed).values, [1_700_000_000 / 86_400, np.nan])
    zoned = typed.cast(pa.timestamp(unit, "Europe/Paris"))
    np.testing.assert_array_equal(days(zoned).values, days(typed).values)


@pytest.mark.parametrize("marker", MISSING)
def test_missing_is_missing_whatever_stands_beside_it(marker: str) -> None:
    for text in (marker, marker.lower(), f" {marker.upper()} "):
        for others in ([], ["1"], ["2024-05-01"], ["true"], ["abc"]):
            column = pa.chunked_array([[text, *others]])
            assert [read(column).missing[0] for read in (numbers, days, truths)] == [True] * 3
            assert texts(column)[0].as_py() is None


def test_no_dates() -> None:
    for text in ("0000-01-01", "2024-02-30", "20240501", "2024-W01-1", "2024-5-1", "2024-05-01 25:00", "05/01/2024"):
        assert days(pa.chunked_array([[text]])).unreadable.all(), text


# --- what a column is ---


def test_kinds() -> None:
    assert [type(column) for column in SCHEMA.columns] == [
        NumericColumn,
        NumericColumn,
        BooleanColumn,
        CategoryColumn,
        DateColumn,
    ]
    assert SCHEMA.left_out == (
        ("name", "is a different text in every row, like an id"),
        ("country", "is always 'FR'"),
        ("empty", "is always missing"),
    )
    assert SCHEMA.rows == N


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", " 2 ", "3.5", ""] * 5, NumericColumn),
        (["1", "2"] * 48 + ["4+"] * 4, NumericColumn),  # 96% are numbers
        (["1", "2"] * 47 + ["4+"] * 6, CategoryColumn),  # 94% are
        (["0", "1"] * 5, NumericColumn),
        (["yes", "no", "NA"] * 5, BooleanColumn),
        (["True", "false"] * 5, BooleanColumn),
        (["yes", "no", "maybe"] * 5, CategoryColumn),
        (["2024-01-01", "2024-01-02 12:30"] * 5, DateColumn),
        (["01/02/2024", "02/02/2024"] * 5, CategoryColumn),
        (pa.array([1, 2] * 5).dictionary_encode(), CategoryColumn),
        ([2**63 - 1, -(2**63)] * 5, NumericColumn),
        (pa.array(["1.50", "2.25"] * 5).cast(pa.decimal128(10, 2)), NumericColumn),
        ([5.0, None] * 5, NumericColumn),  # constant, but being there tells rows apart
        (["x", None] * 5, CategoryColumn),
    ],
)
def test_kind_of_a_column(values: Any, kind: type[Any]) -> None:
    assert type(kept(values)) is kind


@pytest.mark.parametrize(
    ("values", "name", "why"),
    [
        ([3.5] * 9, "x", "is always 3.5"),
        ([True] * 9, "x", "is always true"),
        (["2024-05-01"] * 9, "x", "is always 2024-05-01"),
        ([None] * 9, "x", "is always missing"),
        (["NA", "?", ""] * 3, "x", "is always missing"),
        ([math.inf, math.nan] * 5, "x", "is always missing"),
        (["a", "b", "c", "d", "e", "f", "f", None], "x", "holds 6 different texts in 7 rows: names rather than"),
        ([f"v{row // 3}" for row in range(3030)], "x", "holds 1,010 different texts in 3,030 rows: names"),
        (list("aabbccdd"), "x", "holds 4 different texts, none of them in 5 rows or more"),
        ([[1], [2]] * 5, "x", "holds list<item: int64>, not numbers, text or dates"),
        ([b"a", b"b"] * 5, "x", "holds binary"),
        (list(range(9)), "customer_id", "is a different whole number in every row, and its name says that it is an id"),
        ([7, 3, 99], "CustomerID", "its name says"),
        (["3", "4", "5"], "", "its name says"),
        ([7, 3, 99], "Index", "its name says"),
    ],
)
def test_why_a_column_is_left_out(values: Any, name: str, why: str) -> None:
    assert why in why_left_out(values, name)


@pytest.mark.parametrize("name", ["humid", "population", "idle", "price index", "identity"])
def test_whole_numbers_under_other_names_are_kept(name: str) -> None:
    assert type(kept([7, 3, 99], name)) is NumericColumn
    assert kept([7, 3, 99], name).note == ""


def test_counting_the_rows_is_noted() -> None:
    counting = kept([*range(5), *range(6, 14)], "week")
    assert counting.note.startswith("counts up from row to row")
    assert "note: week counts up from row to row: if it only numbers the rows, take it out of the table" in describe(
        one([*range(5), *range(6, 14)], "week")
    )
    assert kept([1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144], "week").note == ""


def test_odd_values_in_training_count_as_missing_and_are_noted() -> None:
    column = kept([str(row % 50) for row in range(98)] + ["<5", "many"])
    assert column.ever_missing
    assert column.note == "2 odd values such as '<5' (row 99) counted as missing"
    assert column.fill == np.median([row % 50 for row in range(98)])


@pytest.mark.parametrize("n", [100, 3000])
def test_rare_categories_are_those_below_five_rows_and_one_per_cent(n: int) -> None:
    enough = max(5, n // 100)
    values = ["kept"] * enough + ["rare"] * (enough - 1) + ["most"] * (n - 2 * enough + 1)
    assert kept(values) == CategoryColumn("x", ("kept", "most"), ("rare",), ever_missing=False)
    assert kept(values[::-1]) == kept(values)


def test_at_most_twenty_categories_by_frequency() -> None:
    values = [f"c{number:02}" for number in range(30) for _ in range(10 + number)]
    column = kept(values)
    assert column.categories == tuple(f"c{number:02}" for number in range(10, 30))
    assert column.rare == tuple(f"c{number:02}" for number in range(10))


def test_left_out_columns_are_not_asked_for() -> None:
    assert learn_schema(TABLE, leave_out=["age", "name"]).columns == SCHEMA.columns[1:]
    assert "name" not in dict(learn_schema(TABLE, leave_out=["name"]).left_out)


def test_no_column_to_learn_from() -> None:
    with pytest.raises(ValueError, match=r"no column to learn from: name is a different text .* id; country is always"):
        learn_schema(TABLE.select(["age", "name", "country"]), leave_out=["age"])
    with pytest.raises(ValueError, match=r"There is no column to learn from in the table\."):
        learn_schema(TABLE.select(["age"]), leave_out=["age"])


def test_five_thousand_columns() -> None:
    table = pa.table({f"c{number}": RANDOM.normal(size=3) for number in range(5000)})
    schema = learn_schema(table)
    np.testing.assert_array_equal(encode(schema, table), np.column_stack(table.columns))
    assert len("".join(describe(schema))) < 1000


# --- evidence ---


def test_what_is_strange_is_said() -> None:
    new = TABLE.slice(0, 6).to_pylist()
    new[1] |= {"age": 97, "colour": "mauve"}
    new[2] |= {"age": None, "bmi": None, "smoker": None, "colour": None, "visit": None}
    new[3] |= {"bmi": math.inf, "visit": datetime.date(2031, 5, 1)}
    new[4] |= {"bmi": 1.0, "colour": "teal", "country": "DE"}
    low, high = min(TABLE["age"].to_pylist()), max(TABLE["age"].to_pylist())
    first, last = min(TABLE["visit"].to_pylist()), max(TABLE["visit"].to_pylist())
    bmi = [value for value in TABLE["bmi"].to_pylist() if value]
    said = phrases(SCHEMA, pa.Table.from_pylist(new))
    never = "is missing, which it never was in training"
    assert said[0] == said[5] == []
    assert said[1] == [
        f"age 97 is beyond the training range {low} to {high}",
        "colour 'mauve' was never seen in training",
    ]
    assert said[2] == [f"age {never}", f"smoker {never}", f"colour {never}", f"visit {never}"]
    assert said[3] == [
        "bmi 'inf' is too large to compute with",
        f"visit 2031-05-01 is beyond the training range {first} to {last}",
    ]
    assert said[4] == [f"bmi 1 is beyond the training range {min(bmi):.6g} to {max(bmi):.6g}"]
    kinds = [[(item.column, item.kind) for item in row] for row in evidence(SCHEMA, pa.Table.from_pylist(new))]
    assert kinds[1] == [("age", "range"), ("colour", "unseen")]
    assert kinds[2] == [(name, "missing") for name in ("age", "smoker", "colour", "visit")]
    assert kinds[3] == [("bmi", "unreadable"), ("visit", "range")]


def test_text_where_numbers_were_is_evidence_and_no_crash() -> None:
    new = pa.table({name: ["soon, perhaps", "1"] for name in TABLE.column_names})
    said = phrases(SCHEMA, new)
    assert said[0] == [
        "age 'soon, perhaps' is not a number",
        "bmi 'soon, perhaps' is not a number",
        "smoker 'soon, perhaps' was never seen in training",
        "colour 'soon, perhaps' was never seen in training",
        "visit 'soon, perhaps' is not a date (such as 2024-05-31)",
    ]
    encoded = encode(SCHEMA, new)
    age, bmi = (np.nanmedian(TABLE[name].to_numpy()) for name in ("age", "bmi"))
    np.testing.assert_array_equal(encoded[0, :4], [age, bmi, 1, 0])
    np.testing.assert_array_equal(encoded[0, 4:8], 0)
    assert encoded[1, 3] == 1


def test_any_type_in_any_column_is_no_crash() -> None:
    rows: list[Any] = [
        [1, 2],
        [1.5, None],
        [True, False],
        ["a", None],
        [b"a", b"\xff"],
        [[1], [2]],
        [{"a": 1}, None],
        [None, None],
        [datetime.date(2024, 1, 1), None],
        [datetime.timedelta(1), None],
        [datetime.time(1), None],
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([1, 2**63 - 1], pa.timestamp("s")),
    ]
    for values in rows:
        new = pa.table(dict.fromkeys(TABLE.column_names, pa.array(values)))
        assert np.isfinite(encode(SCHEMA, new)).all()
        assert len(evidence(SCHEMA, new)) == 2


def test_values_close_to_the_bounds_are_told_apart() -> None:
    schema = one([0.0, 1.0, 0.5])
    new = pa.table({"x": [1.0, 1 + 1e-8, -1e-300, 1 + 2e-16], "other": [1.0] * 4})
    said = phrases(schema, new)
    assert said[0] == []
    assert said[1] == ["x 1.00000001 is beyond the training range 0 to 1"]
    assert said[2] == ["x -1e-300 is beyond the training range 0 to 1"]
    assert said[3] == ["x 1.0000000000000002 is beyond the training range 0 to 1"]
    schema = one(["2024-05-01", "2024-05-02", "2024-05-02"])
    said = phrases(schema, pa.table({"x": ["2024-05-02 00:00:00.25", "2024-05-02 12:00"], "other": [1, 1]}))
    assert said[0] == ["x 2024-05-02 00:00:00.250000 is beyond the training range 2024-05-01 to 2024-05-02"]
    assert said[1] == ["x 2024-05-02 12:00:00 is beyond the training range 2024-05-01 to 2024-05-02"]


def test_the_word_that_training_never_had() -> None:
    said = phrases(one([True, None, True]), pa.table({"x": ["no", "yes", "maybe"], "other": [1, 1, 1]}))
    assert said == [["x 'false' was never seen in training"], [], ["x 'maybe' was never seen in training"]]


def test_long_text_is_cut() -> None:
    schema = one(["a", "b"] * 5)
    (row,) = phrases(schema, pa.table({"x": ["line\n" + 500 * "z"], "other": [1]}))
    assert row == [f"x 'line\\n{'z' * 35}...' was never seen in training"]


# --- words ---


def test_description() -> None:
    low, high = min(TABLE["age"].to_pylist()), max(TABLE["age"].to_pylist())
    lines = describe(SCHEMA)
    assert lines[0] == "200 rows; 5 columns used, as 9 features"
    assert lines[1].startswith(f"2 number columns: age ({low} to {high}), bmi (")
    assert lines[2] == "1 true/false column: smoker"
    assert lines[3] == "1 category column: colour ('blue', 'green', 'red' and 1 rare)"
    assert lines[4].startswith("1 date column: visit (20")
    assert lines[5].startswith("rare categories (fewer than 5 rows or 1%")
    assert lines[6] == "sometimes missing: bmi; filled with the median, and marked by a 0/1 feature"
    assert lines[7] == f"missing is what is empty or says {', '.join(MISSING[1:])}"
    assert lines[8:] == [
        "left out: name is a different text in every row, like an id",
        "left out: country is always 'FR'",
        "left out: empty is always missing",
    ]


# --- frames ---


def test_no_frames_and_columns_twice() -> None:
    with pytest.raises(TypeError, match=r"a list is not a pandas, polars or pyarrow table\.$"):
        as_table([[1, 2]])
    with pytest.raises(TypeError, match=r"a LazyFrame is not .* Pass its \.collect\(\)\.$"):
        as_table(pl.LazyFrame({"a": [1]}))
    for frame in (pd.DataFrame([[1, 2]], columns=["a", "a"]), pa.table([[1], [2]], names=["a", "a"])):
        with pytest.raises(ValueError, match="the table: columns 1, 2 are all called 'a'"):
            as_table(frame)
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


# --- target ---


@pytest.mark.parametrize("values", [[1.5, None, 3.0], ["1.5", "NA", " 3 "], [1.5, math.nan, 3]])
def test_rows_without_a_target_are_dropped(values: list[Any]) -> None:
    y, kept_rows = target_of(pd.DataFrame({"y": values}), "y")
    np.testing.assert_array_equal(y, [1.5, 3.0])
    np.testing.assert_array_equal(kept_rows, [True, False, True])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            ["1", "2", "n.d.", "3"],
            "The target 'y' must be numbers, but row 3 (the first is row 1) holds 'n.d.'. Correct",
        ),
        (["1", "x", "x", "3"], "row 2 (the first is row 1) holds 'x' (2 such rows). Correct or empty it"),
        ([1.0, math.inf], "row 2 (the first is row 1) holds 'inf'"),
        ([True, False], "row 1 (the first is row 1) holds 'true' (2 such rows)"),
        ([datetime.date(2024, 1, 1)], "holds '2024-01-01'"),
        ([5, 5, None], "The target 'y' is 5 in every row: there is nothing to predict."),
        ([5], "The target 'y' is 5 in every row"),
        ([None, "NA"], "The target 'y' is missing in every row. Choose another column."),
    ],
)
def test_targets_that_cannot_be_predicted(values: list[Any], words: str) -> None:
    with pytest.raises(ValueError, match="target") as problem:
        target_of(pa.table({"y": values}), "y")
    assert words in str(problem.value)


def test_target_that_is_not_there() -> None:
    table = pa.table({"size": [1], "Price ": [2], "rooms": [3]})
    with pytest.raises(ValueError, match="no column 'price'") as problem:
        target_of(table, "price")
    assert str(problem.value).endswith("Did you mean 'Price '? The columns are 'Price ', 'size', 'rooms'.")
    with pytest.raises(ValueError, match=r"no column 'zzz'\. The columns are 'size', 'Price ', 'rooms'\."):
        target_of(table, "zzz")
