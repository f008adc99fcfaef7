"""Columns of categories: text with few different values."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from offmap.artifact import storable
from offmap.checks import listed
from offmap.table.cells import texts
from offmap.table.columns import Evidence, absences, quotes, title, unseen


@storable
@dataclass(frozen=True)
class CategoryColumn:
    """Text with few different values: a 0/1 feature for each of `categories`, one for all `rare` ones, one for missing.

    A value of neither has 0 in all of them.
    """

    name: str
    categories: tuple[str, ...]
    rare: tuple[str, ...]
    ever_missing: bool
    note: str = ""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Each category, then "other" where some were rare, then "missing" where some were."""
        others = (f"{self.name} other",) * bool(self.rare) + (f"{self.name} missing",) * self.ever_missing
        return (*(f"{self.name} = {category}" for category in self.categories), *others)

    def encode(self, cells: pa.ChunkedArray) -> Float[np.ndarray, "n k"]:
        """1 in the feature of the cell's value."""
        text = texts(cells)
        features = [_places(text, self.categories)[:, None] == np.arange(len(self.categories))]
        if self.rare:
            features.append(_places(text, self.rare)[:, None] >= 0)
        if self.ever_missing:
            features.append(text.is_null().to_numpy()[:, None])
        return np.concatenate(features, axis=1, dtype=np.float64)

    def evidence(self, cells: pa.ChunkedArray) -> Iterator[tuple[int, Evidence]]:
        """Values that training never showed, and cells missing as never before."""
        text = texts(cells)
        missing = text.is_null().to_numpy()
        yield from absences(self, missing)
        unknown = ~missing & (_places(text, self.categories + self.rare) < 0)
        yield from ((row, unseen(self.name, value)) for row, value in quotes(cells, unknown))

    def describe(self) -> str:
        """The name and how many values."""
        other = f" and {len(self.rare):,} rare" if self.rare else ""
        return f"{title(self.name)} ({listed([repr(value) for value in self.categories], most=3)}{other})"


def _places(text: pa.ChunkedArray, known: tuple[str, ...]) -> Int[np.ndarray, " n"]:
    """Where each text stands among the known ones; -1 where it does not."""
    places = pc.index_in(text, pa.array(known, pa.large_string()))
    return np.asarray(places.fill_null(-1).to_numpy())
