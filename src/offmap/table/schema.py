"""A table's schema, learned once: it turns any later table into the same features, and says what is strange in it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from offmap.artifact import storable
from offmap.checks import listed
from offmap.table.category import CategoryColumn
from offmap.table.cells import MISSING
from offmap.table.columns import Column, Evidence, title
from offmap.table.constant import ConstantColumn
from offmap.table.frames import as_table
from offmap.table.learning import MOST_CATEGORIES, RARE_ROWS, RARE_SHARE, LeftOutError, learn_column
from offmap.table.measured import BooleanColumn, DateColumn, NumericColumn

KINDS: tuple[tuple[type[Any], str, str], ...] = (
    (NumericColumn, "number column", "number columns"),
    (BooleanColumn, "true/false column", "true/false columns"),
    (CategoryColumn, "category column", "category columns"),
    (DateColumn, "date column", "date columns"),
)


@storable
@dataclass(frozen=True)
class Schema:
    """The columns that a model learned from, and (name, why) of those it could not."""

    rows: int
    columns: tuple[Column, ...]
    left_out: tuple[tuple[str, str], ...]


def learn_schema(frame: Any, leave_out: Iterable[str] = ()) -> Schema:
    """What each column of the training rows is. `leave_out` names the target, and columns that are no inputs.

    >>> learn_schema(pa.table({"age": [30, None, 50], "name": ["a", "b", "c"]}))
    Schema(rows=3, columns=(NumericColumn(name='age', low=30.0, high=50.0, fill=40.0, ever_missing=True, note='',
        ever_unreadable=False),), left_out=(('name', 'is a different text in every row, like an id'),))
    """
    table, ignored = as_table(frame), set(leave_out)
    columns: list[Column] = []
    left_out: list[tuple[str, str]] = []
    for name, cells in zip(table.column_names, table.columns, strict=True):
        if name not in ignored:
            try:
                columns.append(learn_column(name, cells))
            except LeftOutError as why:
                left_out.append((name, str(why)))
    if all(isinstance(column, ConstantColumn) for column in columns):
        same = [(one.name, f"is always {one.value}") for one in columns if isinstance(one, ConstantColumn)]
        reasons = "; ".join(f"{title(name)} {why}" for name, why in [*left_out, *same][:5])
        raise ValueError(f"There is no column to learn from{': ' * bool(reasons)}{reasons or ' in the table'}.")
    return Schema(table.num_rows, tuple(columns), tuple(left_out))


def encode(schema: Schema, frame: Any) -> Float[np.ndarray, "n d"]:
    """The rows as finite numbers, one column per feature. Columns that the schema does not know are ignored.

    >>> schema = learn_schema(pa.table({"age": [30, None, 50]}))
    >>> encode(schema, pa.table({"extra": ["x", "y"], "age": ["35", "unknown"]}))
    array([[35.,  0.],
           [40.,  1.]])
    """
    table = _known_columns(schema, frame)
    encoded = np.empty((table.num_rows, len(feature_names(schema))))
    start = 0
    for column, cells in zip(schema.columns, table.columns, strict=True):
        stop = start + len(column.feature_names)
        encoded[:, start:stop] = column.encode(cells)
        start = stop
    return encoded


def evidence(schema: Schema, frame: Any) -> list[list[Evidence]]:
    """Per row, what training never showed: values out of range, unseen, missing or unreadable."""
    table = _known_columns(schema, frame)
    found: list[list[Evidence]] = [[] for _ in range(table.num_rows)]
    for column, cells in zip(schema.columns, table.columns, strict=True):
        for row, item in column.evidence(cells):
            found[row].append(item)
    return found


def feature_names(schema: Schema) -> tuple[str, ...]:
    """A name for each column of `encode`."""
    return tuple(name for column in schema.columns for name in column.feature_names)


def feature_columns(schema: Schema) -> tuple[int, ...]:
    """For each column of `encode`, the place in `schema.columns` of the one it comes from."""
    return tuple(place for place, column in enumerate(schema.columns) for _ in column.feature_names)


def describe(schema: Schema) -> list[str]:
    """What was found in the table and what is done with it, in a few lines."""
    width, same = len(feature_names(schema)), [one for one in schema.columns if isinstance(one, ConstantColumn)]
    n_used = len(schema.columns) - len(same)
    lines = [f"{_count(schema.rows, 'row')}; {_count(n_used, 'column')} used, as {_count(width, 'feature')}"]
    for kind, one, many in KINDS:
        chosen = [column for column in schema.columns if isinstance(column, kind)]
        if chosen:
            names = listed([column.describe() for column in chosen], most=6)
            lines.append(f"{len(chosen):,} {one if len(chosen) == 1 else many}: {names}")
    if any(isinstance(column, CategoryColumn) and column.rare for column in schema.columns):
        enough = f"fewer than {RARE_ROWS} rows or {RARE_SHARE:.0%}, or beyond the {MOST_CATEGORIES} most frequent"
        lines.append(f"rare categories ({enough}) count as one, called other")
    holes = [title(column.name) for column in schema.columns if column.ever_missing]
    if holes:
        lines.append(
            f"sometimes missing: {listed(holes, most=6)}; marked by a 0/1 feature, numbers filled by the median"
        )
        lines.append(f"missing is what is empty or says {', '.join(MISSING[1:])}")
    if same:
        names = listed([column.describe() for column in same], most=6)
        lines.append(f"always the same: {names}; another value will count as never seen")
    lines += [f"left out: {title(name)} {why}" for name, why in schema.left_out[:6]]
    if len(schema.left_out) > 6:
        lines.append(f"left out: {len(schema.left_out) - 6:,} more")
    return lines + [f"note: {title(column.name)} {column.note}" for column in schema.columns if column.note][:6]


def _known_columns(schema: Schema, frame: Any) -> pa.Table:
    """The table's columns that the schema knows, in the schema's order."""
    table = as_table(frame)
    given = set(table.column_names)
    absent = [repr(column.name) for column in schema.columns if column.name not in given]
    if absent:
        raise ValueError(
            f"The table lacks {_count(len(absent), 'column')} that the model learned from: {listed(absent, most=20)}."
        )
    return table.select([column.name for column in schema.columns])


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' * (number != 1)}"
