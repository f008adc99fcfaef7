"""Tables of any library as pyarrow tables."""

import contextlib
from typing import Any

import narwhals as nw
import pyarrow as pa

from offmap.checks import refuse_columns_twice


def as_table(frame: Any) -> pa.Table:
    """A pandas, polars or pyarrow table as a pyarrow one. Columns of mixed objects become text."""
    refuse_columns_twice(frame)
    if isinstance(frame, pa.Table):
        return frame
    try:
        known = nw.from_native(frame, eager_only=True)
    except TypeError:
        hint = " Pass its .collect()." if hasattr(frame, "collect") else ""
        raise TypeError(f"a {type(frame).__name__} is not a pandas, polars or pyarrow table.{hint}") from None
    return pa.table({str(column.name): _as_arrow(column) for column in known.iter_columns()})


def _as_arrow(column: nw.Series[Any]) -> Any:
    """One column of a frame. Of a column of objects the library may not know what it holds, so each is asked."""
    if column.dtype not in (nw.Object, nw.Unknown):
        with contextlib.suppress(pa.ArrowException):  # values of several kinds: each is asked, too
            return column.to_arrow()
    values = column.to_list()
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, OverflowError):
        return each_as_text(values)


def each_as_text(values: list[Any]) -> pa.Array:
    """Each object as Arrow would write it, so that it does not matter which others stand beside it."""

    def text(value: Any) -> str | None:
        if value is None or isinstance(value, str):
            return value
        try:
            return pa.scalar(value).cast(pa.string()).as_py()
        except (pa.ArrowException, TypeError, OverflowError):
            return str(value)

    return pa.array([text(value) for value in values], pa.large_string())
