"""What a cell says: numbers, dates and holes as Python reads them, and which targets can be predicted."""

import datetime
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offmap.table import (
    target_of,
)
from offmap.table.cells import MISSING, days, numbers, texts, truths

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
