"""Errors at the door: what is wrong with the user's arrays or settings, where, and what to do."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import narwhals as nw
import numpy as np

Choice = TypeVar("Choice")


def refuse_text_columns(X: Any) -> None:
    """An error that names the columns of a data frame that hold no numbers."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return
    text = [name for name, kind in frame.schema.items() if not (kind.is_numeric() or kind == nw.Boolean())]
    if text:
        raise ValueError(
            f"could not convert to numbers: text or dates in {_listed([repr(name) for name in text])}. "
            "Encode or drop such columns first."
        )


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
        where = f" in column{'s' * (len(labels) > 1)} {_listed(labels)}"
    raise ValueError(
        f"{what} has {kind}{where}: {len(rows)} row{'s' * (len(rows) > 1)}, the first is row {rows[0]}. "
        "Drop these rows, or fill the gaps."
    )


def chosen_by_name(name: str, choices: Mapping[str, Choice], what: str) -> Choice:
    """What `name` stands for; an error that lists the names when there is no such."""
    if name not in choices:
        raise ValueError(f"{what} is {name!r}, but it must be one of: {', '.join(choices)}.")
    return choices[name]


def _listed(labels: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"
