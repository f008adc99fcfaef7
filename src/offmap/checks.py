"""Errors at the door: what is wrong with the user's arrays or settings, where, and what to do."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import narwhals as nw
import numpy as np

Choice = TypeVar("Choice")


def is_number(value: Any) -> bool:
    """Whether a setting is one real number, Python's or NumPy's."""
    return isinstance(value, Real)


def is_whole_number(value: Any) -> bool:
    """Whether a setting is one whole number, Python's or NumPy's."""
    return isinstance(value, Integral)


def refuse_text_columns(X: Any, what: str = "X") -> None:
    """An error that names the columns of a table that hold no numbers."""
    refuse_columns_twice(X)
    frame = nw.from_native(X, pass_through=True)
    text: list[str] = []
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(f"{what} is a lazy frame: its values are not there yet. Pass {what}.collect().")
    if isinstance(frame, nw.DataFrame):
        text = [repr(column.name) for column in frame.iter_columns() if not _is_numeric(column)]
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUS":
        text = [str(column) for column in range(X.shape[1]) if not _reads_as_numbers(X[:, column])]
    if text:
        raise ValueError(
            f"could not convert {what} to numbers: text or dates in column{'s' * (len(text) > 1)} {listed(text)}. "
            "Encode or drop such columns first."
        )


def refuse_names_twice(names: Sequence[str], what: str) -> None:
    """An error that names the columns that share a name."""
    for name, count in Counter(names).items():
        if count > 1:
            places = listed([str(place) for place, other in enumerate(names, start=1) if other == name])
            same = f"are all called {name!r}" if name else "have no name"
            raise ValueError(f"{what}: columns {places} {same}. Give each its own name.")


def refuse_columns_twice(frame: Any) -> None:
    """An error that names the columns of a frame that share a name, whatever its library would say of them."""
    names = None if hasattr(frame, "collect") else getattr(frame, "column_names", getattr(frame, "columns", None))
    if isinstance(names, Iterable):
        refuse_names_twice([str(name) for name in names], "the table")


def _is_numeric(column: nw.Series[Any]) -> bool:
    """Whether a frame's column holds numbers; one of mixed objects does when each of them can be read as one."""
    if column.dtype not in (nw.Object, nw.Unknown):
        return column.dtype.is_numeric() or column.dtype == nw.Boolean
    try:
        return _reads_as_numbers(column.to_numpy())
    except TypeError:
        return False


def _reads_as_numbers(values: np.ndarray) -> bool:
    try:
        values.astype(np.float64)
    except ValueError:
        return False
    return True


def refuse_other_columns(X: Any, owner: str, n_columns: int, names: Sequence[str] | None) -> None:
    """An error that says which columns are expected when their number is another, and their names do not tell."""
    shape = _shape(X)
    if len(shape) == 2 and shape[1] != n_columns and (names is None or not hasattr(X, "columns")):
        expected = "" if names is None else f": {listed([repr(str(name)) for name in names])}"
        raise ValueError(
            f"X has {shape[1]} features, but {owner} is expecting {n_columns} features as input{expected}. "
            "Pass the columns of the fit, in the same order."
        )


def target_as_numbers(y: Any, X: Any) -> np.ndarray:
    """The target of the rows of X as float64; an error when it holds text or gaps, or is not one number per row."""
    if np.asarray(y).dtype.kind == "c":
        raise ValueError("Complex data not supported: y holds complex numbers. Pass one real number per row of X.")
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("could not convert y to numbers: it holds text. Pass one number per row of X.") from None
    shape = _shape(X)
    if len(shape) == 2 and values.shape not in ((shape[0],), (shape[0], 1)):
        raise ValueError(f"y has shape {values.shape}, but X has {shape[0]} rows. Pass one target per row.")
    refuse_gaps(values, "y")
    return values


def _shape(X: Any) -> tuple[int, ...]:
    """The shape of an array, a frame or nested lists."""
    return tuple(X.shape) if hasattr(X, "shape") else np.asarray(X).shape


def refuse_gaps(values: np.ndarray, what: str, names: Sequence[str] | None = None) -> None:
    """An error that counts NaN or infinite values and says where the first ones are."""
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    kind = "missing values (NaN)" if np.isnan(values).any() else "infinite values (inf)"
    rows = np.flatnonzero(bad.reshape(len(values), -1).any(axis=1))
    where = ""
    if values.ndim == 2:
        columns = np.flatnonzero(bad.any(axis=0))
        labels = [repr(str(names[int(c)])) if names is not None else str(c) for c in columns]
        where = f" in column{'s' * (len(labels) > 1)} {listed(labels)}"
    raise ValueError(
        f"{what} has {kind}{where}: {len(rows)} row{'s' * (len(rows) > 1)}, the first is row {rows[0]}. "
        "Drop these rows, or fill the gaps."
    )


def chosen_by_name(name: Any, choices: Mapping[str, Choice], what: str) -> Choice:
    """What `name` stands for; an error that lists the names when there is no such."""
    if name not in choices:
        raise ValueError(f"{what} is {name!r}, but it must be one of: {', '.join(choices)}.")
    return choices[name]


def listed(labels: Sequence[str], most: int = 5) -> str:
    """The first few labels, and how many more there are."""
    shown = ", ".join(labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most:,} more"
