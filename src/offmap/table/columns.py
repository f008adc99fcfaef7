"""What every column of a table can do: become numbers, and say what in it is evidence."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float

from offmap.table.cells import texts

LONGEST = 40  # characters of a cell that a phrase quotes


class Evidence(NamedTuple):
    """One thing about one row that training never showed."""

    column: str
    kind: Literal["range", "unseen", "missing", "unreadable"]
    text: str


class Column(Protocol):
    """A column that a model learns from."""

    @property
    def name(self) -> str:
        """The column's name in the table."""

    @property
    def ever_missing(self) -> bool:
        """Whether a training row lacked it: then a companion feature says which rows do."""

    @property
    def note(self) -> str:
        """What the user should know about it, or nothing."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each number that a cell becomes."""

    def encode(self, cells: pa.ChunkedArray) -> Float[np.ndarray, "n k"]:
        """The cells as finite numbers, one column per feature."""

    def evidence(self, cells: pa.ChunkedArray) -> Iterator[tuple[int, Evidence]]:
        """What training never showed, and in which row."""

    def describe(self) -> str:
        """The column and its values, in a few words."""


def title(name: str) -> str:
    """A column's name, in a phrase: the index that pandas writes has none."""
    return name or "(column without a name)"


def unseen(name: str, text: str) -> Evidence:
    """A value that no training row had."""
    return Evidence(name, "unseen", f"{title(name)} {text!r} was never seen in training")


def differs(name: str, value: str, always: str) -> Evidence:
    """Another value than the one that every training row had."""
    return Evidence(name, "unseen", f"{title(name)} is {value}, and was always {always} in training")


def absences(column: Column, missing: Bool[np.ndarray, " n"]) -> Iterator[tuple[int, Evidence]]:
    """Rows that lack what every training row had."""
    if not column.ever_missing:
        absence = Evidence(column.name, "missing", f"{title(column.name)} is missing, which it never was in training")
        yield from ((int(row), absence) for row in np.flatnonzero(missing))


def quotes(cells: pa.ChunkedArray, chosen: Bool[np.ndarray, " n"]) -> Iterator[tuple[int, str]]:
    """The text of the chosen cells, cut where it is long."""
    rows = np.flatnonzero(chosen)
    if len(rows):
        for row, text in zip(rows, texts(cells.take(pa.array(rows))).to_pylist(), strict=True):
            yield int(row), text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
