"""The rows of a file, some at a time, as a fitted model takes them: files larger than memory can be judged."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from offmap.checks import listed
from offmap.estimator import TableEstimator
from offmap.progress import report
from offmap.table.cells import numbers
from offmap.tablefiles import read_batches

CELLS_AT_ONCE, MOST_ROWS_AT_ONCE, FEWEST_ROWS_AT_ONCE = 1 << 20, 1 << 14, 1 << 8


def batches_with_inputs(
    model: TableEstimator, table: Path, what: str, rows_at_once: int | None = None
) -> Iterator[tuple[pa.Table, Any]]:
    """The rows of a file, some at a time, and the inputs in them as the model takes them. `what` names progress."""
    names = next(read_batches(table, 1)).column_names
    used = _used_columns(model, table, names)
    size = rows_at_once or min(MOST_ROWS_AT_ONCE, max(FEWEST_ROWS_AT_ONCE, CELLS_AT_ONCE // len(names)))
    total, done = _n_rows(table), 0
    for rows in read_batches(table, size):
        yield rows, _inputs(model, table, rows.select(used), done)
        done += rows.num_rows
        report(what, done, total)


def _used_columns(model: TableEstimator, table: Path, names: Sequence[str]) -> list[str]:
    """The columns that the model learned from, or an error that names all that are not there."""
    if model.schema_ is not None:
        wanted = [column.name for column in model.schema_.columns]
    elif hasattr(model, "feature_names_in_"):
        wanted = [str(name) for name in model.feature_names_in_]
    elif len(names) == model.n_features_in_:
        return list(names)
    else:
        raise ValueError(
            f"{table} has {len(names)} columns, but the model learned from {model.n_features_in_} without names. "
            "Keep only those, in the same order."
        )
    absent = [repr(name) for name in wanted if name not in set(names)]
    if absent:
        raise ValueError(
            f"{table} lacks {len(absent)} of the {len(wanted)} columns that the model learned from: "
            f"{listed(absent, most=20)}. It has: {listed([repr(name) for name in names], most=20)}."
        )
    return wanted


def _inputs(model: TableEstimator, table: Path, rows: pa.Table, first_row: int) -> Any:
    """The rows as the model takes them: a table, or only numbers for a model that was fitted without names."""
    if hasattr(model, "feature_names_in_"):
        return rows
    values = np.column_stack([numbers(cells).values for cells in rows.columns])
    holes = np.flatnonzero(np.isnan(values).any(axis=1))
    if len(holes):
        raise ValueError(
            f"{table}: row {first_row + holes[0] + 1:,} (the first is row 1) is not all numbers, and this model was "
            "fitted to nothing else. Fill it in, or fit a model by `offmap fit`, which can do with holes."
        )
    return values


def _n_rows(table: Path) -> int:
    """How many rows there will be, or 0 where only reading all of them would tell."""
    return int(parquet.read_metadata(table).num_rows) if table.name.lower().endswith(".parquet") else 0
