"""What a column is, learned from the training rows: the policy for every kind of column, in one place."""

import math
import re
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offmap.table.category import CategoryColumn
from offmap.table.cells import DATE_TYPES, NUMBER_TYPES, TEXT_TYPES, Reading, days, is_one_of, numbers, texts, truths
from offmap.table.columns import Column
from offmap.table.constant import ConstantColumn, is_constant
from offmap.table.measured import BooleanColumn, DateColumn, MeasuredColumn, NumericColumn

MOSTLY = 0.95  # the share of cells that must read as numbers (or dates) for text to count as such; the rest is missing
# A category's 0/1 feature, standardised, is about 1 / sqrt(share) in its own rows: with less than 1% of them that
# is beyond 10, and ordinary rows would look strange. And from fewer than 5 rows nothing can be learned.
RARE_SHARE, RARE_ROWS = 0.01, 5
MOST_CATEGORIES = 20  # more are grouped with the rare ones, so that one column does not drown the others
MOST_TEXTS = 1000  # more different texts are names, not categories
# Whole numbers, nearly all different, under such a name tell rows apart and say nothing else. Under any other name they
# may be a measurement (a population, a day), so they are kept, with a note when they count the rows.
ID_WORDS = ("id", "uid", "uuid", "guid", "key", "rowid")
ID_NAMES = ("", "#", "index", "idx", "row", "row names", "rownames", "nr", "no", "number", "unnamed: 0")
ENOUGH_TO_COUNT = 10
FRAME_INDEX = re.compile(r"__index_level_\d+__")  # as pandas calls it in a Parquet file
# Texts that are more than names, though they cannot be read as they stand: dates that do not tell the day from the
# month, and numbers with a unit or a bound.
OTHER_WRITINGS = (
    (
        r"^(\d{1,2}[./-] ?\d{1,2}[./-] ?\d{2,4}|\d{4}[./]\d{1,2}[./]\d{1,2})([T ]\d{1,2}:\d\d(:\d\d)?)?$",
        "if it is a date, write it like 2024-12-31",
    ),
    (
        r"^([<>≤≥~±$€£] ?)?[+-]?\d+([.,]\d+)*( ?[%°µ$€£]?[A-Za-z]{0,4}([/^*·]?[A-Za-z0-9]{1,4}){0,2})$",
        "if it is a number, write it without its unit, like 12.5",
    ),
)

Measured = TypeVar("Measured", bound=MeasuredColumn)


class LeftOutError(Exception):
    """A column that nothing can be learned from, with why."""


def learn_column(name: str, cells: pa.ChunkedArray) -> Column:
    """The column that the training rows show; `LeftOutError` says why there is nothing to learn from it."""
    column = _by_type(name, cells)
    return ConstantColumn(column) if is_constant(column) else column


def _by_type(name: str, cells: pa.ChunkedArray) -> MeasuredColumn | CategoryColumn:
    kind = cells.type
    if FRAME_INDEX.fullmatch(name):
        raise LeftOutError("is the index of a pandas frame")
    if pa.types.is_boolean(kind):
        return _measured(BooleanColumn, name, cells)
    if is_one_of(kind, NUMBER_TYPES):
        return _numeric(name, cells)
    if is_one_of(kind, DATE_TYPES):
        return _measured(DateColumn, name, cells)
    if pa.types.is_dictionary(kind):
        return _category(name, cells)  # whoever made it one knows best
    if is_one_of(kind, (pa.types.is_null, *TEXT_TYPES)):
        return _from_text(name, cells)
    raise LeftOutError(f"holds {kind}, not numbers, text or dates")


def _from_text(name: str, cells: pa.ChunkedArray) -> MeasuredColumn | CategoryColumn:
    """Numbers if they are numbers, else true and false, else dates, else categories."""
    if _share_read(numbers(cells)) >= MOSTLY:
        return _numeric(name, cells)
    if _share_read(truths(cells)) == 1:
        return _measured(BooleanColumn, name, cells)
    if _share_read(days(cells)) >= MOSTLY:
        return _measured(DateColumn, name, cells)
    hint = _how_else_to_write(cells)
    try:
        column = _category(name, cells)
    except LeftOutError as why:
        raise LeftOutError(f"{why} ({hint})" if hint else str(why)) from None
    return replace(column, note=f"is taken for categories: {hint}") if hint else column


def _how_else_to_write(cells: pa.ChunkedArray) -> str:
    """How texts that are more than names would be read as what they are; nothing where they are names."""
    some = texts(cells).drop_null()
    shares = (pc.mean(pc.match_substring_regex(some, pattern)).as_py() for pattern, _ in OTHER_WRITINGS)
    return next((hint for share, (_, hint) in zip(shares, OTHER_WRITINGS, strict=True) if (share or 0) >= MOSTLY), "")


def _share_read(reading: Reading) -> float:
    """The share of the cells holding something that were read; 1 where there are none."""
    return 1 - float(np.sum(reading.unreadable)) / max(1, np.sum(~reading.missing))


def _measured(kind: type[Measured], name: str, cells: pa.ChunkedArray) -> Measured:
    reading = kind.read(cells)
    absent = np.isnan(reading.values)
    present = reading.values[~absent]
    if not len(present):
        raise LeftOutError("is always missing")
    median = float(np.median(present))
    return kind(
        name=name,
        low=float(present.min()),
        high=float(present.max()),
        fill=float(median >= 0.5) if kind is BooleanColumn else median,
        ever_missing=bool(absent.any()),
        note=_unreadable_note(cells, reading),
        ever_unreadable=bool(reading.unreadable.any()),
    )


def _unreadable_note(cells: pa.ChunkedArray, reading: Reading) -> str:
    rows = np.flatnonzero(reading.unreadable)
    if not len(rows):
        return ""
    first = texts(cells.slice(int(rows[0]), 1))[0].as_py()
    return f"{len(rows):,} odd value{'s' * (len(rows) > 1)} such as {first!r} counted as missing"


def _numeric(name: str, cells: pa.ChunkedArray) -> NumericColumn:
    column = _measured(NumericColumn, name, cells)
    values = numbers(cells).values
    present = values[~np.isnan(values)]
    share_different = len(np.unique(present)) / len(present)
    if share_different < MOSTLY or not np.all(present == np.round(present)):
        return column
    if _named_like_an_id(name):
        almost = "almost " * (share_different < 1)
        raise LeftOutError(f"is a different whole number in {almost}every row, and its name says that it is an id")
    if share_different < 1 or column.ever_missing:
        return column
    steps = np.diff(values)
    if len(values) >= ENOUGH_TO_COUNT and steps.min() > 0 and np.median(steps) == 1:
        return replace(column, note="counts up from row to row: if it only numbers the rows, take it out of the table")
    return column


def _named_like_an_id(name: str) -> bool:
    """Whether the last word of the name is that of an id: `customer_id`, `CustomerId`, `ID`, but not `humid`."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return name.strip().lower() in ID_NAMES or (len(words) > 0 and words[-1].lower() in ID_WORDS)


def _category(name: str, cells: pa.ChunkedArray) -> CategoryColumn:
    text = texts(cells)
    counted = pc.value_counts(text.drop_null()).to_pylist()
    n_present = len(text) - text.null_count
    if not counted:
        raise LeftOutError("is always missing")
    if len(counted) == 1 and not text.null_count:
        return CategoryColumn(name, (counted[0]["values"],), (), ever_missing=False)
    if len(counted) == n_present:
        raise LeftOutError("is a different text in every row, like an id")
    if 2 * len(counted) > n_present or len(counted) > MOST_TEXTS:
        raise LeftOutError(
            f"holds {len(counted):,} different texts in {n_present:,} rows: names rather than categories"
        )
    # By frequency, and equally frequent ones by the alphabet: the order of the rows decides nothing.
    ranked = sorted((-entry["counts"], entry["values"]) for entry in counted)
    enough = max(RARE_ROWS, RARE_SHARE * len(text))
    frequent = [value for count, value in ranked[:MOST_CATEGORIES] if -count >= enough]
    if not frequent:
        raise LeftOutError(
            f"holds {len(counted):,} different texts, none of them in {math.ceil(enough):,} rows or more"
        )
    rare = sorted(value for _, value in ranked[len(frequent) :])
    return CategoryColumn(name, tuple(sorted(frequent)), tuple(rare), ever_missing=text.null_count > 0)
