"""Columns that held one value in every training row."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float

from offmap.artifact import storable
from offmap.table.category import CategoryColumn
from offmap.table.cells import texts
from offmap.table.columns import Evidence, absences, differs, quotes, title
from offmap.table.measured import MeasuredColumn


@storable
@dataclass(frozen=True)
class ConstantColumn:
    """One value in every training row: there is nothing to learn from it, but another value is evidence.

    `of` is the column that it would be if it varied, and knows how to read its cells.
    """

    of: MeasuredColumn | CategoryColumn

    ever_missing = False
    feature_names = ()

    @property
    def name(self) -> str:
        """The column's name in the table."""
        return self.of.name

    @property
    def note(self) -> str:
        """What the user should know about it, or nothing."""
        return self.of.note

    @property
    def value(self) -> str:
        """The value, in the user's words."""
        return repr(self.of.categories[0]) if isinstance(self.of, CategoryColumn) else self.of.show(self.of.low)

    def encode(self, cells: pa.ChunkedArray) -> Float[np.ndarray, "n 0"]:
        """No numbers at all."""
        return np.zeros((len(cells), 0))

    def unknown(self, cells: pa.ChunkedArray) -> Bool[np.ndarray, " n"]:
        """Cells that hold anything else, or nothing."""
        if isinstance(self.of, CategoryColumn):
            return ~pc.equal(texts(cells), self.of.categories[0]).fill_null(False).to_numpy()
        return np.asarray(self.of.read(cells).values != self.of.low)

    def evidence(self, cells: pa.ChunkedArray) -> Iterator[tuple[int, Evidence]]:
        """Other values, cells that cannot be read, and missing ones."""
        if not isinstance(self.of, CategoryColumn):
            yield from self.of.evidence(cells)
            return
        missing = texts(cells).is_null().to_numpy()
        yield from absences(self, missing)
        for row, value in quotes(cells, self.unknown(cells) & ~missing):
            yield row, differs(self.name, repr(value), always=self.value)

    def describe(self) -> str:
        """The name and the value."""
        return f"{title(self.name)} ({self.value})"


def is_constant(column: MeasuredColumn | CategoryColumn) -> bool:
    """Whether the training rows showed one value, and always that."""
    if column.ever_missing:
        return False
    if isinstance(column, CategoryColumn):
        return len(column.categories) == 1 and not column.rare
    return column.low == column.high
