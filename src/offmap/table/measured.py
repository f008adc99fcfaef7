"""Columns of numbers, of dates, and of true and false."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from offmap.artifact import storable
from offmap.table.cells import Reading, day_text, days, is_number, number_text, numbers, truths
from offmap.table.columns import Evidence, absences, differs, quotes, title, unseen


@dataclass(frozen=True)
class MeasuredColumn(ABC):
    """A column whose cells are numbers, in training from `low` to `high`. `fill` stands for those that are missing."""

    name: str
    low: float
    high: float
    fill: float
    ever_missing: bool
    note: str = ""
    ever_unreadable: bool = False

    @staticmethod
    @abstractmethod
    def read(cells: pa.ChunkedArray) -> Reading:
        """The cells as numbers."""

    @abstractmethod
    def show(self, value: float, unlike: float | None = None) -> str:
        """One of these numbers in the user's words."""

    @abstractmethod
    def complain(self, text: str) -> Evidence:
        """What to say of a cell that cannot be read."""

    def beyond(self, value: float) -> Evidence:
        """What to say of a value that lies outside the training range."""
        shown = self.show(value, unlike=self.low if value < self.low else self.high)
        if self.low == self.high:
            return differs(self.name, shown, always=self.show(self.low, unlike=value))
        span = f"{self.show(self.low, unlike=value)} to {self.show(self.high, unlike=value)}"
        return Evidence(self.name, "range", f"{title(self.name)} {shown} is beyond the training range {span}")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The value, and whether it was missing."""
        return (self.name, f"{self.name} missing") if self.ever_missing else (self.name,)

    def encode(self, cells: pa.ChunkedArray) -> Float[np.ndarray, "n k"]:
        """The value, or `fill` where there is none, and whether there is none."""
        values = self.read(cells).values
        absent = np.isnan(values)
        filled = np.where(absent, self.fill, values)
        return np.column_stack([filled, absent] if self.ever_missing else [filled])

    def evidence(self, cells: pa.ChunkedArray) -> Iterator[tuple[int, Evidence]]:
        """Values beyond the training range, cells that cannot be read, and those missing as never before."""
        reading = self.read(cells)
        yield from absences(self, reading.missing)
        yield from ((row, self.complain(text)) for row, text in quotes(cells, reading.unreadable))
        with np.errstate(invalid="ignore"):
            beyond = (reading.values < self.low) | (reading.values > self.high)
        yield from ((int(row), self.beyond(float(reading.values[row]))) for row in np.flatnonzero(beyond))

    def describe(self) -> str:
        """The name and the training range."""
        return f"{title(self.name)} ({self.show(self.low)} to {self.show(self.high)})"


@storable
@dataclass(frozen=True)
class NumericColumn(MeasuredColumn):
    """Numbers, as they are."""

    @staticmethod
    def read(cells: pa.ChunkedArray) -> Reading:
        """The cells as numbers."""
        return numbers(cells)

    def show(self, value: float, unlike: float | None = None) -> str:
        """The number in a few digits."""
        return number_text(value, unlike)

    def complain(self, text: str) -> Evidence:
        """No number, or an infinite one."""
        why = "is too large to compute with" if is_number(text) else "is not a number"
        return Evidence(self.name, "unreadable", f"{title(self.name)} {text!r} {why}")


@storable
@dataclass(frozen=True)
class DateColumn(MeasuredColumn):
    """Dates and times, as days since 1970-01-01 (UTC)."""

    @staticmethod
    def read(cells: pa.ChunkedArray) -> Reading:
        """The cells as days."""
        return days(cells)

    def show(self, value: float, unlike: float | None = None) -> str:
        """The date, and the time unless it is midnight."""
        return day_text(value, unlike)

    def complain(self, text: str) -> Evidence:
        """No date."""
        return Evidence(self.name, "unreadable", f"{title(self.name)} {text!r} is not a date (such as 2024-05-31)")


@storable
@dataclass(frozen=True)
class BooleanColumn(MeasuredColumn):
    """True as 1, false as 0; `fill` is the more frequent one."""

    @staticmethod
    def read(cells: pa.ChunkedArray) -> Reading:
        """The cells as 1 and 0."""
        return truths(cells)

    def show(self, value: float, unlike: float | None = None) -> str:
        """The word."""
        return "true" if value else "false"

    def complain(self, text: str) -> Evidence:
        """A third word."""
        return unseen(self.name, text)

    def describe(self) -> str:
        """The name says it all."""
        return title(self.name)
