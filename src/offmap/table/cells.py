"""The cells of a column as text, as numbers, as days or as truths, and which of them are missing."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float

from offmap.table.frames import each_as_text

# These count as missing, in capitals or not, with or without spaces around them.
MISSING = ("", "NA", "N/A", "#N/A", "<NA>", "NaN", "NaT", "null", "None", "nil", "?", "-", "--", ".")
TRUE, FALSE = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0")
LARGEST = 1e100  # a larger number is no measurement, and its square would overflow: it counts as infinite
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d([.,]\d+)?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
FURTHEST_DAY = 1e8  # some 270,000 years away, where NumPy can still write the date
MICROSECONDS = 86_400_000_000  # of a day
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": MICROSECONDS, "ns": MICROSECONDS}  # once ns are cut to microseconds
YEAR_ONE = -719_162 * MICROSECONDS

NUMBER_TYPES = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
DATE_TYPES = (pa.types.is_timestamp, pa.types.is_date)
TEXT_TYPES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
AtOnce = Callable[[pa.ChunkedArray], Float[np.ndarray, " n"]]


def is_one_of(kind: pa.DataType, types: Iterable[Callable[[pa.DataType], bool]]) -> bool:
    """Whether a column's type is one of several."""
    return any(is_type(kind) for is_type in types)


class Reading(NamedTuple):
    """A column as numbers: NaN where a cell is missing, or holds something that cannot be read as one."""

    values: Float[np.ndarray, " n"]
    missing: Bool[np.ndarray, " n"]

    @property
    def unreadable(self) -> Bool[np.ndarray, " n"]:
        """Cells that hold something else."""
        return np.isnan(self.values) & ~self.missing


def texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The cells as text without spaces around it, null where missing."""
    try:
        text = column.cast(pa.large_string())
    except pa.ArrowException:
        text = pa.chunked_array([each_as_text(column.to_pylist())])
    text = pc.utf8_trim_whitespace(text)
    markers = pa.array([marker.lower() for marker in MISSING], pa.large_string())
    return pc.if_else(pc.is_in(pc.utf8_lower(text), markers), pa.scalar(None, pa.large_string()), text)


def numbers(column: pa.ChunkedArray) -> Reading:
    """The cells as numbers. Infinite and absurdly large ones cannot be read."""
    if is_one_of(column.type, (*NUMBER_TYPES, pa.types.is_boolean)):
        values = _to_numpy(column.cast(pa.float64(), safe=False))
        reading = Reading(values, np.isnan(values))
    else:
        reading = _read(column, _numbers_at_once, _number)
    with np.errstate(invalid="ignore"):
        return Reading(np.where(np.abs(reading.values) <= LARGEST, reading.values, np.nan), reading.missing)


def days(column: pa.ChunkedArray) -> Reading:
    """The cells as days since 1970-01-01 in UTC, with the time of day as a fraction. Text must be ISO 8601."""
    if is_one_of(column.type, DATE_TYPES):
        values = _typed_days(column)
        return Reading(np.clip(values, -FURTHEST_DAY, FURTHEST_DAY), np.isnan(values))
    reading = _read(column, _microseconds_at_once, _microseconds)
    return Reading(reading.values / MICROSECONDS, reading.missing)


def truths(column: pa.ChunkedArray) -> Reading:
    """The cells as 1 for true and 0 for false."""
    if pa.types.is_boolean(column.type):
        values = _to_numpy(column.cast(pa.float64()))
        return Reading(values, np.isnan(values))
    return _by_text(texts(column), _truth)


def is_number(text: str) -> bool:
    """Whether the text is one number, if perhaps an infinite one."""
    try:
        return not np.isnan(float(text)) and "_" not in text
    except ValueError:
        return False


def number_text(value: float, unlike: float | None = None) -> str:
    """A number as people write it, with as many digits as it takes to tell it from `unlike`.

    >>> number_text(97.0), number_text(1 / 3), number_text(1.00000004, unlike=1.0)
    ('97', '0.333333', '1.00000004')
    """
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    for digits in (6, 9, 12):
        if unlike is None or f"{value:.{digits}g}" != f"{unlike:.{digits}g}":
            return f"{value:.{digits}g}"
    return repr(value)


def day_text(value: float, unlike: float | None = None) -> str:
    """Days since 1970-01-01 as a date, with the time of day unless it is midnight, and what tells it from `unlike`.

    >>> day_text(19844.0), day_text(0.5)
    ('2024-05-01', '1970-01-01 12:00:00')
    """
    text = str(np.datetime64(round(value * 86_400), "s")).replace("T", " ").removesuffix(" 00:00:00")
    if unlike is None or text != day_text(unlike):
        return text
    exact = str(np.datetime64(round(value * MICROSECONDS), "us")).replace("T", " ")
    return exact.removesuffix(".000000").removesuffix(" 00:00:00")


def _read(column: pa.ChunkedArray, at_once: AtOnce, one: Callable[[str], float]) -> Reading:
    """Arrow's conversion of all cells where it knows them all, else ours of each different text: the same numbers."""
    if is_one_of(column.type, TEXT_TYPES):
        reading = _whole(column, at_once)
        if reading is not None:
            return reading
    text = texts(column)
    reading = _whole(text, at_once)
    return _by_text(text, one) if reading is None else reading


def _whole(text: pa.ChunkedArray, at_once: AtOnce) -> Reading | None:
    """The converted cells, or None unless every cell that is not null became a number."""
    try:
        values = at_once(text)
    except pa.ArrowException:
        return None
    missing = text.is_null().to_numpy()
    return Reading(values, missing) if np.array_equal(np.isnan(values), missing) else None


def _by_text(text: pa.ChunkedArray, read: Callable[[str], float]) -> Reading:
    """`read` of each different text, once."""
    coded = text.combine_chunks().dictionary_encode()
    values = np.array([*map(read, coded.dictionary.to_pylist()), np.nan])
    places = coded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
    return Reading(values[places], text.is_null().to_numpy())


def _numbers_at_once(text: pa.ChunkedArray) -> Float[np.ndarray, " n"]:
    return _to_numpy(text.cast(pa.float64()))


def _truth(text: str) -> float:
    return 1.0 if text.lower() in TRUE else 0.0 if text.lower() in FALSE else np.nan


def _number(text: str) -> float:
    return float(text) if is_number(text) else np.nan


def _typed_days(column: pa.ChunkedArray) -> Float[np.ndarray, " n"]:
    """Days of a column of dates or timestamps, each the float nearest to the truth, so that text gives the same."""
    if pa.types.is_date32(column.type):
        return _to_numpy(column.cast(pa.int32()).cast(pa.float64()))
    unit = "ms" if pa.types.is_date64(column.type) else column.type.unit
    count = column.cast(pa.int64())
    count = pc.divide(count, 1000) if unit == "ns" else count
    return _to_numpy(count.cast(pa.float64(), safe=False)) / PER_DAY[unit]


def _microseconds_at_once(text: pa.ChunkedArray) -> Float[np.ndarray, " n"]:
    values = _to_numpy(text.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64(), safe=False))
    return np.where(values >= YEAR_ONE, values, np.nan)  # Arrow knows a year 0, Python and the calendar do not


def _microseconds(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text) if ISO_DATE.fullmatch(text) else None
    except ValueError:
        return np.nan
    if moment is None:
        return np.nan
    span = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return float((span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds)


def _to_numpy(column: pa.ChunkedArray) -> Float[np.ndarray, " n"]:
    return np.asarray(column.to_numpy(), dtype=np.float64)
