"""Tables in files, in and out: CSV, TSV and Parquet, by suffix. Streamed, and complete or not there at all."""

import contextlib
import gzip
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet

from offmap.checks import refuse_names_twice
from offmap.delimited import header_line, lines_of, read_header, read_text
from offmap.files import complete_file

SEPARATORS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
SUFFIXES = (*SEPARATORS, ".parquet")
SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
BUFFER = (
    1 << 20
)  # bytes read at once of a Parquet column, so that a huge row group takes no more memory than a small one

Write = Callable[[pa.Table], None]


def read_table(path: str | Path) -> pa.Table:
    """The whole table. Cells of CSV and TSV stay text (3,5 may be 3.5): `offmap.table` decides what they mean."""
    return pa.concat_tables(_open(Path(path), 1 << 16))


def read_batches(path: str | Path, rows: int) -> Iterator[pa.Table]:
    """The table in tables of `rows` rows (the last may have fewer), in order, with constant memory and the same types.

    What is wrong with the file's name or header is said at once, what is wrong with a row when its turn comes.
    """
    if rows < 1:
        raise ValueError(f"rows is {rows}, but it must be at least 1.")
    return _regrouped(_open(Path(path), rows), rows)


@contextlib.contextmanager
def table_writer(path: str | Path | None, force: bool = False) -> Iterator[Write]:
    """A function that appends the rows of a table. The file appears complete when the block ends well, else not at all.

    None writes CSV to the standard output. A file that exists is replaced only with `force`.
    """
    if path is None:
        yield _text_appender(sys.stdout.buffer, ",")
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    suffix = _suffix(target)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory. Choose another path.")
    if target.exists() and not force:
        raise FileExistsError(f"{target} exists already. Choose another path, or pass --force (in Python force=True).")
    with complete_file(target) as unfinished, contextlib.ExitStack() as open_files:
        if suffix == ".parquet":
            yield _parquet_appender(unfinished, open_files)
        else:
            opened: Any = (gzip.open if suffix.endswith(".gz") else open)(unfinished, "wb")
            yield _text_appender(open_files.enter_context(opened), SEPARATORS[suffix])


def _open(path: Path, rows: int) -> Iterator[pa.Table]:
    """The rows in tables of any size, once the file has passed the checks at the door."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory, not a table.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Check the path.")
    is_spreadsheet = path.suffix.lower() in SPREADSHEETS
    suffix = _suffix(path, way_out=" Save the sheet as CSV." if is_spreadsheet else "")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    if suffix == ".parquet":
        with _in_one_line(path):
            names: Sequence[str] = parquet.read_schema(path).names
        tables = _read_parquet(path, rows)
    else:
        header = read_header(path, SEPARATORS[suffix])
        names, tables = header.names, read_text(path, header)
    refuse_names_twice(names, str(path))
    return _some_rows(path, tables)


def _suffix(path: Path, way_out: str = "") -> str:
    """The file's kind, or an error that lists the kinds."""
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix
    raise ValueError(
        f"{path} is not a table that can be read or written here: its name must end in {', '.join(SUFFIXES)}.{way_out}"
    )


def _some_rows(path: Path, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    count = 0
    for table in tables:
        count += table.num_rows
        yield table
    if not count:
        raise ValueError(f"{path} has column names, but no rows.")


def _regrouped(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows, `rows` at a time."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        if count >= rows:
            joined = pa.concat_tables(waiting)
            whole = count - count % rows
            yield from (joined.slice(start, rows) for start in range(0, whole, rows))
            # An empty slice would keep all of its table in memory.
            waiting, count = [joined.slice(whole)] * (count > whole), count - whole
    if count:
        yield pa.concat_tables(waiting)


def _read_parquet(path: Path, rows: int) -> Iterator[pa.Table]:
    with contextlib.ExitStack() as open_files:
        with _in_one_line(path):
            # Reading ahead would keep every byte until the end.
            file = open_files.enter_context(parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False))
            batches = file.iter_batches(batch_size=rows)
        while True:
            with _in_one_line(path):
                batch = next(batches, None)
            if batch is None:
                return
            yield pa.Table.from_batches([batch])


@contextlib.contextmanager
def _in_one_line(path: Path) -> Iterator[None]:
    """Whatever the library says about a damaged Parquet file, as one line."""
    try:
        yield
    except PermissionError:
        raise
    except (pa.ArrowException, OSError) as problem:
        raise ValueError(f"{path} is not a whole Parquet file: {str(problem).splitlines()[0]}") from None


def _text_appender(file: IO[bytes], separator: str) -> Write:
    names: list[str] = []

    def append(table: pa.Table) -> None:
        if not names:
            names.extend(table.column_names)
            file.write(header_line(names, separator))
        file.write(lines_of(table.select(names), separator))

    return append


def _parquet_appender(path: Path, open_files: contextlib.ExitStack) -> Write:
    writers: list[parquet.ParquetWriter] = []

    def append(table: pa.Table) -> None:
        if not writers:
            writers.append(open_files.enter_context(parquet.ParquetWriter(path, table.schema)))
        writers[0].write_table(table.select(writers[0].schema.names).cast(writers[0].schema))

    return append
