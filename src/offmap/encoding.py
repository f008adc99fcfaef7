"""A table as a detector sees it: numbers, and which cells hold something that the learned rows never showed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int

from offmap.artifact import storable
from offmap.checks import refuse_columns_twice
from offmap.table import CategoryColumn, Column, ConstantColumn, Evidence, NumericColumn, Schema, as_table, encode
from offmap.table.cells import texts
from offmap.table.measured import BooleanColumn, MeasuredColumn

N_NU = 2000


class Rows(NamedTuple):
    """Rows as finite numbers, and the table that they come from, if it was one."""

    features: Float[np.ndarray, "n d"]
    table: pa.Table | None


class Seen(NamedTuple):
    """Rows as one fold sees them, and which of their cells hold something that it has never seen."""

    features: Float[np.ndarray, "n d"]
    unknown: Bool[np.ndarray, "n c"]


@storable
class Lost(NamedTuple):
    """What one column showed only in the rows that a fold did not learn from: to that fold it is as if never seen.

    only: the one number that the fold did see, if it was but one.
    """

    column: int
    values: tuple[str, ...]
    missing: bool
    unreadable: bool = False
    only: float | None = None


def is_mixed_frame(X: Any) -> bool:
    """Whether X is a frame that is not all numbers: it has text, dates, booleans, objects or holes."""
    if isinstance(X, pa.Table):
        return True
    refuse_columns_twice(X)
    frame = nw.from_native(X, pass_through=True)
    return isinstance(frame, nw.DataFrame) and any(_is_mixed(column) for column in frame.iter_columns())


def _is_mixed(column: nw.Series[Any]) -> bool:
    if not column.dtype.is_numeric():
        return True
    return bool(column.is_null().any()) or (column.dtype.is_float() and bool(column.is_nan().any()))


def number_columns(features: Float[np.ndarray, "n d"], names: Sequence[str] | None) -> tuple[Column, ...]:
    """Columns that were numbers to begin with, for what is said about them. Without names they are x0, x1 and so on."""
    ranges = zip(*(summary(features, axis=0).tolist() for summary in (np.min, np.max, np.median)), strict=True)
    labels = [f"x{place}" for place in range(features.shape[1])] if names is None else [str(name) for name in names]
    return tuple(
        NumericColumn(name=name, low=low, high=high, fill=middle, ever_missing=False)
        for name, (low, high, middle) in zip(labels, ranges, strict=True)
    )


def column_weights(columns: Sequence[Column]) -> Float[np.ndarray, " d"]:
    """What each feature counts in a distance. The features of a category share the weight of one."""
    sizes = [len(column.feature_names) for column in columns]
    shares = [size if isinstance(column, CategoryColumn) else 1 for column, size in zip(columns, sizes, strict=True)]
    return np.repeat(1 / np.sqrt(shares), sizes)


def column_groups(columns: Sequence[Column]) -> list[slice]:
    """Which features are each column's."""
    stops = np.cumsum([len(column.feature_names) for column in columns]).tolist()
    return [slice(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]


def box_rows(columns: Sequence[Column], n: int = N_NU) -> Float[np.ndarray, "n d"]:
    """Encoded rows of nu: every column on its own, any of its values as likely as another. The same ones every time.

    A number lies in the training range, a category is one of those seen, true is as likely as false: cells that a row
    may really hold. Numbers are never missing.
    """
    shares = np.random.default_rng(0).uniform(size=(n, len(columns)))
    return np.column_stack([_anywhere(column, share) for column, share in zip(columns, shares.T, strict=True)])


def _anywhere(column: Column, share: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n k"]:
    """Features of a cell anywhere in a column, from 0 at its start to 1 at its end."""
    if isinstance(column, CategoryColumn):
        return np.eye(len(column.feature_names))[(share * len(column.feature_names)).astype(int)]
    if isinstance(column, ConstantColumn):
        return np.zeros((len(share), 0))
    assert isinstance(column, MeasuredColumn)
    features = np.zeros((len(share), len(column.feature_names)))
    features[:, 0] = column.low + (column.high - column.low) * (
        share >= 0.5 if isinstance(column, BooleanColumn) else share
    )
    return features


def encoded(schema: Schema, X: Any) -> Rows:
    """A table's rows as numbers; an error when there are none."""
    table = as_table(X)
    if table.num_rows == 0:
        raise ValueError("The table has columns, but no rows.")
    return Rows(features=encode(schema, table), table=table)


def never_varied(columns: Sequence[Column]) -> tuple[Lost, ...]:
    """Columns of numbers that showed but one in all of the training rows."""
    numbers = [(place, column) for place, column in enumerate(columns) if isinstance(column, MeasuredColumn)]
    return tuple(Lost(place, (), missing=False, only=one.low) for place, one in numbers if one.low == one.high)


def lost_values(columns: Sequence[Column], rows: Rows, learned: np.ndarray, kept_back: np.ndarray) -> tuple[Lost, ...]:
    """What the learned rows never showed, though others of the training table did, or new ones may."""
    if rows.table is None:
        only = [_only(values[learned]) for values in rows.features.T]
        return tuple(Lost(place, (), missing=False, only=one) for place, one in enumerate(only) if one is not None)
    found = []
    for place, column in enumerate(columns):
        if isinstance(column, ConstantColumn):
            continue
        cells = rows.table[column.name]
        if isinstance(column, CategoryColumn):
            text = texts(cells)
            known, others = (set(text.take(pa.array(some)).unique().to_pylist()) for some in (learned, kept_back))
            new = others - known
            lost = Lost(place, tuple(sorted(new - {None})), None in new)
        else:
            assert isinstance(column, MeasuredColumn)
            reading = column.read(cells)
            missing, unreadable = (
                bool(marks[kept_back].any() and not marks[learned].any())
                for marks in (reading.missing, reading.unreadable)
            )
            lost = Lost(place, (), missing, unreadable, _only(reading.values[learned]))
        if lost.values or lost.missing or lost.unreadable or lost.only is not None:
            found.append(lost)
    return tuple(found)


def _only(values: Float[np.ndarray, " n"]) -> float | None:
    """The value that all of the others are, too; None where there are several, or none."""
    present = values[~np.isnan(values)]
    return float(present[0]) if len(present) and np.all(present == present[0]) else None


def seen_by_fold(columns: Sequence[Column], rows: Rows, lost: Sequence[Lost]) -> Seen:
    """The rows, where a cell that the fold has never seen is counted, and says nothing unless it came as a number."""
    unknown = np.zeros((len(rows.features), len(columns)), bool)
    if rows.table is None:
        for item in lost:
            unknown[:, item.column] = rows.features[:, item.column] != item.only
        return Seen(features=rows.features, unknown=unknown)
    features, by_place = rows.features.copy(), {item.column: item for item in lost}
    for place, (column, group) in enumerate(zip(columns, column_groups(columns), strict=True)):
        cells = rows.table[column.name]
        unknown[:, place] = _unknown(column, cells, features[:, group], by_place.get(place))
        if place in by_place:
            features[unknown[:, place], group] = _nothing(column)
    return Seen(features=features, unknown=unknown)


def _unknown(
    column: Column, cells: pa.ChunkedArray, features: Float[np.ndarray, "n k"], lost: Lost | None
) -> Bool[np.ndarray, " n"]:
    """Cells with a value never seen among few, and those that are missing, or cannot be read, where none was."""
    if isinstance(column, ConstantColumn):
        return column.unknown(cells)
    if isinstance(column, CategoryColumn):
        unknown = features.sum(axis=1) == 0
        if lost is not None:
            text = texts(cells)
            among = pc.is_in(text, pa.array(lost.values, pa.large_string())).to_numpy()
            unknown |= (among & text.is_valid().to_numpy()) | (lost.missing & text.is_null().to_numpy())
        return unknown
    assert isinstance(column, MeasuredColumn)
    reading = column.read(cells)
    never_missing = not column.ever_missing or (lost is not None and lost.missing)
    never_unreadable = not column.ever_unreadable or (lost is not None and lost.unreadable)
    unknown = (never_missing & reading.missing) | (never_unreadable & reading.unreadable)
    if lost is not None and lost.only is not None:
        unknown |= ~np.isnan(reading.values) & (reading.values != lost.only)
    return np.asarray(unknown)


def _nothing(column: Column) -> Float[np.ndarray, " k"]:
    """How a cell is encoded that says nothing: in no category, or the usual value and not marked as missing."""
    features = np.zeros(len(column.feature_names))
    if isinstance(column, MeasuredColumn):
        features[0] = column.fill
    return features


def cells_of(columns: Sequence[Column], rows: Rows) -> list[pa.ChunkedArray]:
    """Each column's cells as the user gave them."""
    if rows.table is not None:
        return [rows.table[column.name] for column in columns]
    return [pa.chunked_array([values]) for values in rows.features.T]


def evidence_in(columns: Sequence[Column], rows: Rows) -> list[list[Evidence]]:
    """Per row, what training never showed."""
    found: list[list[Evidence]] = [[] for _ in rows.features]
    for column, cells in zip(columns, cells_of(columns, rows), strict=True):
        for row, item in column.evidence(cells):
            found[row].append(item)
    return found


def take(rows: Rows, places: Int[np.ndarray, " m"]) -> Rows:
    """Some of the rows."""
    return Rows(rows.features[places], None if rows.table is None else rows.table.take(pa.array(places)))


def cell_texts(columns: Sequence[Column], features: Float[np.ndarray, " d"]) -> dict[str, str]:
    """The values of an encoded row as a person would write them, by the names of the columns."""
    groups = zip(columns, column_groups(columns), strict=True)
    return {column.name: _cell_text(column, features[group]) for column, group in groups}


def _cell_text(column: Column, features: Float[np.ndarray, " k"]) -> str:
    if isinstance(column, ConstantColumn):
        return column.value
    if isinstance(column, MeasuredColumn):
        return "missing" if column.ever_missing and features[1] else column.show(float(features[0]))
    assert isinstance(column, CategoryColumn)
    words = (*column.categories, *("other",) * bool(column.rare), *("missing",) * column.ever_missing)
    return words[int(np.argmax(features))] if features.any() else "(never seen)"
