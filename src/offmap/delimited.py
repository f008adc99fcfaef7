"""CSV and TSV text, however separated: streamed in, every cell as text; written out again, quoted where it must be."""

import collections
import contextlib
import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

BLOCK = 1 << 22  # bytes that are parsed at once: a row must fit
FOREIGN = {b"PAR1": "a Parquet file", b"PK\x03\x04": "an Excel or zip file", b"\x1f\x8b": "a gzip file"}
# Earlier what is rarer inside values.
SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
FIRST_ROWS = 1000  # the header's included; from them it is guessed how all are written
DECIMAL_COMMA, DECIMAL_POINT = (
    re.compile(rf"^\s*([+-]?\d*){mark}(\d+(?:[eE][+-]?\d+)?)\s*$", re.ASCII) for mark in (",", r"\.")
)
UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Header(NamedTuple):
    """How a text table is written: its columns' names, what is between values, and what is before decimals."""

    names: tuple[str, ...]
    separator: str
    decimal_commas: bool = False


def read_header(path: Path, expected: str) -> Header:
    """How the table is written, or an error that says why this is not a table with a header.

    Where another separator than the expected one fits, that one is meant. Such a file may come from where people write
    3,5 for three and a half.
    """
    separator = _separator(path, expected)
    rows = _first_rows(path, separator)
    commas = separator not in (expected, ",") and _has_decimal_commas(rows)
    names = [name.replace(",", ".") for name in rows[0]] if commas else rows[0]
    if all(map(_is_number, names)) and not all(name.strip().isdigit() for name in names):
        raise ValueError(f"{path} seems to have no header: its first line is all numbers. Add the columns' names.")
    return Header(tuple(rows[0]), separator, commas)


def _separator(path: Path, expected: str) -> str:
    """What cuts the first rows into as many values as the header into names, or else what there is in the header."""
    names = next(iter(_first_rows(path, expected)), None)
    if names is None:
        raise ValueError(f"{path} is empty: a table needs a line with the columns' names, and rows.")
    fitting = (separator for separator in SEPARATORS if _fits(path, separator))
    in_header = max((expected, *SEPARATORS), key=names[0].count) if len(names) == 1 else expected
    return next(fitting, in_header)


def _fits(path: Path, separator: str) -> bool:
    """Whether it cuts every row alike. A wrong guess may meet anything; errors of the file are said elsewhere."""
    with contextlib.suppress(csv.Error, UnicodeDecodeError):  # quotes that are not around values, text that is none
        widths = set(map(len, _parsed_rows(path, separator, strict=True)))
        return len(widths) == 1 and widths != {1}
    return False


def _first_rows(path: Path, separator: str) -> list[list[str]]:
    """The header, and some rows, from which the rest can be guessed."""
    try:
        return _parsed_rows(path, separator)
    except (UnicodeDecodeError, csv.Error) as problem:
        raise ValueError(_what_is_wrong(path, separator, problem)) from None


def _parsed_rows(path: Path, separator: str, strict: bool = False) -> list[list[str]]:
    with io.TextIOWrapper(io.BufferedReader(_TextBytes(path)), encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines, delimiter=separator, strict=strict)
        return list(itertools.islice(filter(None, rows), FIRST_ROWS))


def _has_decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Whether numbers are written like 3,5, and none like 3.5."""
    cells = [cell for row in rows for cell in row]
    return any(map(DECIMAL_COMMA.match, cells)) and not any(map(DECIMAL_POINT.match, cells))


def read_text(path: Path, header: Header) -> Iterator[pa.Table]:
    """The rows in blocks, in order, with constant memory. Cells are text as they stand in the file; empty ones null.

    Only decimal commas, where there are such, become points.
    """
    last, number = None, 0
    try:
        for batch in arrow_csv.open_csv(_native(path), **_options(header)):
            _refuse_nul(path, batch)
            last, number = (batch, number + batch.num_rows) if batch.num_rows else (last, number)
            yield _with_decimal_points(batch) if header.decimal_commas else pa.Table.from_batches([batch])
    except (pa.ArrowException, OSError) as problem:
        if "Empty CSV" in str(problem):  # a header without an end of line
            return
        raise ValueError(_what_is_wrong(path, header.separator, problem)) from None
    # The parser takes an open quote to reach to the end of the file, and so would lose rows without a word.
    end = None if last is None else last.column(last.num_columns - 1)[-1].as_py()
    if end is not None and "\n" in end and not _last_line(path).endswith(b'"'):
        raise ValueError(f"{path}: a quote that opens in row {number} (the first is row 1) is never closed.")


def _native(path: Path) -> pa.NativeFile:
    """The bytes, read without Python: Arrow's threads may still let go of them while Python ends, and crashed it."""
    return pa.input_stream(str(path), compression="gzip" if path.suffix.lower() == ".gz" else None)


def _refuse_nul(path: Path, batch: pa.RecordBatch) -> None:
    texts = (column.buffers()[2] for column in batch.columns)
    if not all(np.frombuffer(text, np.uint8).all() for text in texts if text is not None):
        raise ValueError(_no_text(path))


def _last_line(path: Path) -> bytes:
    with io.BufferedReader(_TextBytes(path)) as source:
        return collections.deque(filter(bytes.strip, source), maxlen=1).pop().rstrip(b"\r\n")


def _with_decimal_points(batch: pa.RecordBatch) -> pa.Table:
    """The cells, numbers like 3,5 as 3.5."""
    columns = [pc.replace_substring_regex(cells, DECIMAL_COMMA.pattern, r"\1.\2") for cells in batch.columns]
    return pa.table(columns, names=batch.schema.names)


def lines_of(table: pa.Table, separator: str) -> bytes:
    """The rows as text, a line each. Null is an empty cell."""
    columns = [_cells(name, cells) for name, cells in zip(table.column_names, table.columns, strict=True)]
    lines = pc.binary_join_element_wise(*columns, separator)
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def header_line(names: Sequence[str], separator: str) -> bytes:
    """The line of the columns' names."""
    return separator.join(_quoted(pa.array(names)).to_pylist()).encode() + b"\n"


class _TextBytes(io.RawIOBase):
    """The bytes of a file, unzipped where its name says so; an error where they are no text."""

    def __init__(self, path: Path) -> None:
        self.path, self.started = path, False
        self.source: Any = (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self.source.read(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ValueError(f"{self.path} is not a whole gzip file. Copy it again.") from None
        start, self.started = not self.started, True
        if start:
            for mark, kind in FOREIGN.items():
                if data.startswith(mark):
                    raise ValueError(f"{self.path} is {kind}, not text. Rename it, or save it as CSV.")
        if start and data.startswith(UTF16):
            raise ValueError(f"{self.path} is not UTF-8: it looks like UTF-16. Save it as UTF-8.")
        if b"\0" in data:
            raise ValueError(_no_text(self.path))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.source.close()
        super().close()


def _no_text(path: Path) -> str:
    return f"{path} is not a text table: it holds NUL bytes. Save it as CSV in UTF-8."


def _options(header: Header) -> dict[str, Any]:
    return {
        "read_options": arrow_csv.ReadOptions(block_size=BLOCK),
        "parse_options": arrow_csv.ParseOptions(
            delimiter=header.separator,
            newlines_in_values=True,
            ignore_empty_lines=len(header.names) > 1,  # else an empty line is a missing value
        ),
        "convert_options": arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(header.names, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    }


def _what_is_wrong(path: Path, separator: str, problem: Exception) -> str:
    """Why the file cannot be parsed, in the user's words: found by a slow second reading."""
    with io.BufferedReader(_TextBytes(path)) as source:
        for number, line in enumerate(source, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as wrong:
                return f"{path} is not UTF-8: {_guess(line, wrong.start, number)} Save it as UTF-8."
    with io.TextIOWrapper(io.BufferedReader(_TextBytes(path)), encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines, delimiter=separator)
        width, start = 0, 1
        with contextlib.suppress(csv.Error):  # the row at `start` is then the one that is too long
            for row in rows:
                width = width or len(row)
                if row and len(row) != width:
                    count = f"{len(row)} value{'s' * (len(row) != 1)}"
                    return (
                        f"{path}: line {start} has {count}, but the header has {width}. Check its {_word(separator)}."
                    )
                start = rows.line_num + 1
    if "straddl" in str(problem) or isinstance(problem, csv.Error):
        return f"{path}: the row at line {start} is too long. Is there a quote that is never closed?"
    return f"{path} cannot be read: {str(problem).splitlines()[0]}"


def _guess(line: bytes, position: int, number: int) -> str:
    """Which encoding the line may have, with the word that it would then hold."""
    try:
        text = line[max(0, position - 12) : position + 12].decode("cp1252")
    except UnicodeDecodeError:
        return f"line {number} holds the byte {line[position]:#x}, and it is not Windows-1252 either."
    return f"line {number} looks like Windows-1252 ({text.strip()!r})."


def _word(separator: str) -> str:
    return f"{SEPARATORS[separator]} and quotes"


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _cells(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        text = column.cast(pa.string())
    except pa.ArrowException:
        raise ValueError(
            f"column {name!r} holds {column.type}, which CSV cannot hold. Write .parquet instead."
        ) from None
    numbers_or_dates = pa.types.is_primitive(column.type)
    return pc.fill_null(text if numbers_or_dates else _quoted(text), "")


def _quoted(text: Any) -> Any:
    """Text in quotes where it holds a quote, a line break, or any separator, so that nobody guesses a wrong one."""
    special = pc.match_substring_regex(text, f'[{"".join(SEPARATORS)}"\r\n]')
    if not pc.any(special).as_py():
        return text
    doubled = pc.replace_substring(text, '"', '""')
    return pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), text)
