"""What a column is, which ones are left out and why, and how that is said."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from offmap.table import (
    BooleanColumn,
    CategoryColumn,
    ConstantColumn,
    DateColumn,
    NumericColumn,
    describe,
    encode,
    evidence,
    learn_schema,
)
from offmap.table.cells import MISSING
from tests.mixed_table import RANDOM, SCHEMA, TABLE, N, kept, one, phrases, why_left_out


def test_kinds() -> None:
    assert [type(column) for column in SCHEMA.columns] == [
        NumericColumn,
        NumericColumn,
        BooleanColumn,
        CategoryColumn,
        DateColumn,
        ConstantColumn,
    ]
    assert SCHEMA.left_out == (
        ("name", "is a different text in every row, like an id"),
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
        ([None] * 9, "x", "is always missing"),
        (["NA", "?", ""] * 3, "x", "is always missing"),
        ([math.inf, math.nan] * 5, "x", "is always missing"),
        (["a", "b", "c", "d", "e", "f", "f", None], "x", "holds 6 different texts in 7 rows: names rather than"),
        ([f"v{row // 3}" for row in range(3030)], "x", "holds 1,010 different texts in 3,030 rows: names"),
        (list("aabbccdd"), "x", "holds 4 different texts, none of them in 5 rows or more"),
        ([[1], [2]] * 5, "x", "holds list<item: int64>, not numbers, text or dates"),
        ([b"a", b"b"] * 5, "x", "holds binary"),
        ([*range(99), 98], "customer_id", "is a different whole number in almost every row, and its name says that"),
        ([*range(99), None], "customer_id", "is a different whole number in every row, and its name says that it"),
        ([3.5, 2.5] * 5, "__index_level_0__", "is the index of a pandas frame"),
        (list(range(9)), "customer_id", "is a different whole number in every row, and its name says that it is an id"),
        ([7, 3, 99], "CustomerID", "its name says"),
        (["3", "4", "5"], "", "its name says"),
        ([7, 3, 99], "Index", "its name says"),
    ],
)
def test_why_a_column_is_left_out(values: Any, name: str, why: str) -> None:
    assert why in why_left_out(values, name)


@pytest.mark.parametrize(
    ("always", "shown", "others"),
    [
        ([3.5] * 9, "3.5", {"3.50": None, "4": "4", "3.50001": "3.50001", "x": "'x' is not a number"}),
        ([1e-9] * 9, "1e-09", {"2e-9": "2e-09", "1e-9": None}),
        ([True] * 9, "true", {"yes": None, "false": "false", "maybe": "'maybe' was never seen"}),
        (["2024-05-01"] * 9, "2024-05-01", {"2024-05-02": "2024-05-02", "2024-05-01": None}),
        (["FR"] * 9, "'FR'", {"FR": None, " FR ": None, "DE": "'DE'"}),
        (["FR"] * 2, "'FR'", {"DE": "'DE'"}),
        (pa.array([7] * 9).dictionary_encode(), "'7'", {"7": None, "8": "'8'"}),
    ],
)
def test_another_value_where_there_was_but_one_is_evidence(
    always: Any, shown: str, others: dict[str, str | None]
) -> None:
    schema = one(always)
    column = schema.columns[0]
    assert isinstance(column, ConstantColumn)
    assert (column.value, column.feature_names) == (shown, ())
    new = pa.table({"x": [*others, None], "other": [1.0] * (len(others) + 1)})
    *said, of_missing = phrases(schema, new)
    for found, other in zip(said, others.values(), strict=True):
        if other is None:
            assert found == []
        elif " " in other:
            assert found[0].startswith(f"x {other}")
        else:
            assert found == [f"x is {other}, and was always {shown} in training"]
    assert of_missing == ["x is missing, which it never was in training"]
    assert encode(schema, new).shape == (len(others) + 1, 1)
    assert not any(evidence(schema, pa.table({"x": always, "other": [0.5] * len(always)})))


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
    assert column.note == "2 odd values such as '<5' counted as missing"
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
    assert lines[6] == "sometimes missing: bmi; marked by a 0/1 feature, numbers filled by the median"
    assert lines[7] == f"missing is what is empty or says {', '.join(MISSING[1:])}"
    assert lines[8:] == [
        "always the same: country ('FR'); another value will count as never seen",
        "left out: name is a different text in every row, like an id",
        "left out: empty is always missing",
    ]


@pytest.mark.parametrize("written", ["%d.%m.%Y", "%m/%d/%Y", "%d-%m-%y %H:%M", "%Y/%m/%d", "%d. %m. %Y %H:%M:%S"])
def test_dates_that_cannot_be_read_are_left_out_with_the_way_to_write_them(written: str) -> None:
    first = datetime(2021, 11, 5, tzinfo=UTC)
    moments = [(first + timedelta(days=day)).strftime(written) for day in range(40)]
    schema = learn_schema(pa.table({"size": range(40), "day": moments}))
    assert schema.left_out == (
        ("day", "is a different text in every row, like an id (if it is a date, write it like 2024-12-31)"),
    )
    names = [f"part {number}" for number in range(40)]
    assert "(if" not in str(learn_schema(pa.table({"size": range(40), "name": names})).left_out)


@pytest.mark.parametrize("written", ["{} kg", "{}%", "< {}", "{} m/s", "${}", "{}°C", "-{} µm", "{} kg/m3"])
def test_numbers_with_a_unit_are_left_out_with_the_way_to_write_them(written: str) -> None:
    cells = [written.format(number + 0.5) for number in range(40)]
    assert why_left_out(cells) == (
        "is a different text in every row, like an id (if it is a number, write it without its unit, like 12.5)"
    )


def test_numbers_with_a_unit_that_repeat_are_categories_and_noted() -> None:
    column = kept(["5 mg", "10 mg", "20 mg"] * 10)
    assert type(column) is CategoryColumn
    assert column.note == "is taken for categories: if it is a number, write it without its unit, like 12.5"
    assert kept(["red", "blue"] * 10).note == ""


@pytest.mark.parametrize("written", ["K{}", "part {}", "{} Main Street", "A-{}-B", "{}:{}", "ab{}cd"])
def test_names_with_a_number_in_them_are_names(written: str) -> None:
    assert why_left_out([written.format(number, number) for number in range(40)]).endswith("like an id")
