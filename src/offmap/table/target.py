"""The column to predict: numbers, or an error that says which cell is none."""

import difflib
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float

from offmap.checks import listed
from offmap.table.cells import number_text, numbers, texts
from offmap.table.frames import as_table


class Target(NamedTuple):
    """The target of the rows that have one, and which of all rows those are."""

    y: Float[np.ndarray, " m"]
    kept_rows: Bool[np.ndarray, " n"]


def target_of(frame: Any, name: str) -> Target:
    """The numbers to predict. Rows without one are not kept; text, or one number in all rows, is an error.

    >>> target_of(pa.table({"price": ["10", "NA", "12.5"]}), "price")
    Target(y=array([10. , 12.5]), kept_rows=array([ True, False,  True]))
    """
    table = as_table(frame)
    if name not in table.column_names:
        raise ValueError(f"There is no column {name!r}. {_suggestion(name, table.column_names)}")
    cells = table[name]
    # True and false are not taken for 1 and 0: predicting them is another task, and CSV and Parquet should agree.
    reading = numbers(cells.cast(pa.string()) if pa.types.is_boolean(cells.type) else cells)
    wrong = np.flatnonzero(reading.unreadable)
    if len(wrong):
        text = texts(cells.slice(int(wrong[0]), 1))[0].as_py()
        more = f" ({len(wrong):,} such rows)" if len(wrong) > 1 else ""
        raise ValueError(
            f"The target {name!r} must be numbers, but row {wrong[0] + 1:,} (the first is row 1) holds {text!r}{more}. "
            "Correct or empty it, or choose another column."
        )
    y = reading.values[~reading.missing]
    if not len(y):
        raise ValueError(f"The target {name!r} is missing in every row. Choose another column.")
    if y.min() == y.max():
        raise ValueError(
            f"The target {name!r} is {number_text(float(y[0]))} in every row: there is nothing to predict."
        )
    return Target(y, ~reading.missing)


def _suggestion(name: str, names: list[str]) -> str:
    folded = {other.strip().lower(): other for other in names}
    close = [folded[match] for match in difflib.get_close_matches(name.strip().lower(), folded)]
    others = [repr(other) for other in close] + [repr(other) for other in names if other not in close]
    return f"{f'Did you mean {close[0]!r}? ' if close else ''}The columns are {listed(others, most=20)}."
