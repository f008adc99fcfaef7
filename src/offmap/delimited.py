"""CSV and TSV text: streamed in, every cell as text; written out again, quoted only where it must be."""

import contextlib
import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

BLOCK = 1 << 22  # bytes that are parsed at once: a row must fit
FOREIGN = {b"PAR1": "a Parquet file", b"PK\x03\x04": "an Excel or zip file", b"\x1f\x8b": "a gzip file"}
UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Header(NamedTuple):
    """What the first line of a text table says."""

    names: tuple[str, ...]
    separator: str


def read_header(path: Path, separator: str) -> Header:
    """The column names, or an error that says why this is not a table with a header."""
    try:
        with io.TextIOWrapper(io.BufferedReader(_TextBytes(path)), encoding="utf-8-sig", newline="") as lines:
            names = next((tuple(row) for row in csv.reader(lines, delimiter=separator) if row), None)
    except (UnicodeDecodeError, csv.Error) as problem:
        raise ValueError(_what_is_wrong(path, separator, problem)) from None
    if names is None:
        raise ValueError(f"{path} is empty: a table needs a line with the columns' names, and rows.")
    for other, word in ((";", "semicolons"), ("\t", "tabs"), (",", "commas"), ("|", "bars")):
        if len(names) == 1 and other != separator and other in names[0]:
            expected = "commas" if separator == "," else "tabs"
            raise ValueError(
                f"{path} seems to have {word} between its values, not {expected}. Save it with {expected}."
            )
    if all(map(_is_number, names)) and not all(name.strip().isdigit() for name in names):
        raise ValueError(f"{path} seems to have no header: its first line is all numbers. Add the columns' names.")
    return Header(names, separator)


def read_text(path: Path, header: Header) -> Iterator[pa.Table]:
    """The rows in blocks, in order, with constant memory. Cells are text as they stand in the file; empty ones null."""
    with _TextBytes(path) as source:
        last, number = None, 0
        try:
            for batch in arrow_csv.open_csv(source, **_options(header)):
                last, number = (batch, number + batch.num_rows) if batch.num_rows else (last, number)
                yield pa.Table.from_batches([batch])
        except pa.ArrowException as problem:
            if "Empty CSV" in str(problem):  # a header without an end of line
                return
            raise ValueError(_what_is_wrong(path, header.separator, problem)) from None
        # The parser takes an open quote to reach to the end of the file, and so would lose rows without a word.
        end = None if last is None else last.column(last.num_columns - 1)[-1].as_py()
        if end is not None and "\n" in end and not source.end.rstrip(b"\r\n").endswith(b'"'):
            raise ValueError(f"{path}: a quote that opens in row {number} (the first is row 1) is never closed.")


def lines_of(table: pa.Table, separator: str) -> bytes:
    """The rows as text, a line each. Null is an empty cell."""
    columns = [_cells(name, cells, separator) for name, cells in zip(table.column_names, table.columns, strict=True)]
    lines = pc.binary_join_element_wise(*columns, separator)
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def header_line(names: Sequence[str], separator: str) -> bytes:
    """The line of the columns' names."""
    return separator.join(_quoted(pa.array(names), separator).to_pylist()).encode() + b"\n"


class _TextBytes(io.RawIOBase):
    """The bytes of a file, unzipped where its name says so; an error where they are no text."""

    def __init__(self, path: Path) -> None:
        self.path, self.end = path, b""
        self.source: Any = (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self.source.read(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ValueError(f"{self.path} is not a whole gzip file. Copy it again.") from None
        start, self.end = not self.end, (self.end + data[-3:])[-3:]
        if start:
            for mark, kind in FOREIGN.items():
                if data.startswith(mark):
                    raise ValueError(f"{self.path} is {kind}, not text. Rename it, or save it as CSV.")
        if start and data.startswith(UTF16):
            raise ValueError(f"{self.path} is not UTF-8: it looks like UTF-16. Save it as UTF-8.")
        if b"\0" in data:
            raise ValueError(f"{self.path} is not a text table: it holds NUL bytes. Save it as CSV in UTF-8.")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.source.close()
        super().close()


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
    return "commas and quotes" if separator == "," else "tabs and quotes"


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _cells(name: str, column: pa.ChunkedArray, separator: str) -> pa.ChunkedArray:
    try:
        text = column.cast(pa.string())
    except pa.ArrowException:
        raise ValueError(
            f"column {name!r} holds {column.type}, which CSV cannot hold. Write .parquet instead."
        ) from None
    numbers_or_dates = pa.types.is_primitive(column.type)
    return pc.fill_null(text if numbers_or_dates else _quoted(text, separator), "")


def _quoted(text: Any, separator: str) -> Any:
    """Text in quotes where it holds a separator, a quote or a line break."""
    special = pc.match_substring_regex(text, f'[{separator}"\r\n]')
    if not pc.any(special).as_py():
        return text
    doubled = pc.replace_substring(text, '"', '""')
    return pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), text)
