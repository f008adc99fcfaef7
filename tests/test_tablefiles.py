"""Tables in files: what goes in comes out, whatever is wrong is one line, and nothing half-written stays."""

import csv
import gzip
import io
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from offmap import delimited
from offmap.tablefiles import read_batches, read_table, table_writer

SUFFIXES = ["csv", "tsv", "csv.gz", "tsv.gz", "parquet"]
TABLE = pa.table(
    {
        "name": ["plain", "comma, tab\t", 'quote "', "line\nbreak", "crlf\r\n", "naïve 数", None, "007", " space "],
        "size": [1, -2, None, 4, 5, 6, 7, 8, 2**62],
        "share": [0.1, 1e300, -5e-324, None, 2.5, 3.0, 1 / 3, 8.0, 9.0],
        "flag": [True, False, None, True, True, False, True, True, True],
    }
)
# A cell of text survives CSV unless it is empty (then it comes back as missing) or holds NUL.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
names = st.lists(st.text("abc ,;\"'\n\té数0.", min_size=1, max_size=5), min_size=2, max_size=5, unique=True)
# A first line that is all numbers is refused: it is no header.
names = names.filter(lambda header: any(map(str.isalpha, "".join(header))))


def write(table: pa.Table, path: Path, rows: int = 1000, **options: Any) -> Path:
    with table_writer(path, **options) as append:
        for start in range(0, max(1, table.num_rows), rows):
            append(table.slice(start, rows))
    return path


def as_text(table: pa.Table) -> list[dict[str, str]]:
    """What CSV can say of a table."""
    rows = pa.table({name: table[name].cast(pa.string()) for name in table.column_names}).to_pylist()
    return [{name: cell or "" for name, cell in row.items()} for row in rows]


def error(path: Path, content: bytes | None = None) -> str:
    """The message about a file, which must be one line that names it, however it is read."""
    if content is not None:
        path.write_bytes(content)
    said = []
    for read in (read_table, lambda file: list(read_batches(file, 2))):
        with pytest.raises((ValueError, OSError)) as problem:
            read(path)
        said.append(str(problem.value))
    assert said[0] == said[1]
    assert "\n" not in said[0]
    assert str(path) in said[0]
    return said[0].replace(str(path), path.name)


# --- there and back ---


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read(suffix: str, tmp_path: Path) -> None:
    path = write(TABLE, tmp_path / f"table.{suffix}", rows=4)
    table = read_table(path)
    assert as_text(table) == as_text(TABLE)
    if suffix == "parquet":
        assert table.equals(TABLE)
    else:
        assert set(table.schema.types) == {pa.string()}
        np.testing.assert_array_equal(table["share"].cast(pa.float64()).to_pylist(), TABLE["share"].to_pylist())


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_other_libraries_read_the_same(suffix: str, tmp_path: Path) -> None:
    path = write(TABLE, tmp_path / f"table.{suffix}")
    separator = "," if suffix == "csv" else "\t"
    with path.open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file, delimiter=separator)) == as_text(TABLE)
    by_pandas = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False).to_dict("records")
    assert [{key: cell.replace("\r\n", "\n") for key, cell in row.items()} for row in by_pandas] == [
        {key: cell.replace("\r\n", "\n") for key, cell in row.items()} for row in as_text(TABLE)
    ]
    by_polars = pl.read_csv(path, separator=separator, infer_schema=False).with_columns(pl.all().fill_null(""))
    assert by_polars.to_dicts() == as_text(TABLE)


def test_quotes_stand_only_where_they_must(tmp_path: Path) -> None:
    path = write(pa.table({"a b": ["x", "1,5", None], "c,d": [1.5, None, 3.0]}), tmp_path / "table.csv")
    assert path.read_bytes() == b'a b,"c,d"\nx,1.5\n"1,5",\n,3\n'


@settings(max_examples=60, deadline=None)
@given(data=st.data(), header=names, n=st.integers(1, 12), rows=st.integers(1, 13), suffix=st.sampled_from(SUFFIXES))
def test_any_text_survives(
    data: st.DataObject, header: list[str], n: int, rows: int, suffix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    column = st.lists(st.none() | texts, min_size=n, max_size=n)
    table = pa.table({name: pa.array(data.draw(column), pa.string()) for name in header})
    path = write(table, tmp_path_factory.mktemp("any") / f"table.{suffix}", rows=data.draw(st.integers(1, 13)))
    assert read_table(path).equals(table)
    batches = list(read_batches(path, rows))
    assert [batch.num_rows for batch in batches] == [min(rows, n - start) for start in range(0, n, rows)]
    assert pa.concat_tables(batches).equals(table)


@settings(max_examples=40, deadline=None)
@given(
    numbers=st.lists(st.none() | st.floats(allow_nan=False), min_size=1),
    moments=st.lists(st.none() | st.datetimes(), min_size=1),
)
def test_numbers_and_dates_lose_no_digit(numbers: list[Any], moments: list[Any]) -> None:
    for values, kind in ((numbers, pa.float64()), (moments, pa.timestamp("us"))):
        lines = delimited.lines_of(pa.table({"x": pa.array(values, kind)}), ",").decode().split("\n")[:-1]
        assert pa.array([line or None for line in lines]).cast(kind).to_pylist() == values


def test_standard_output_gets_csv(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with table_writer(None) as append:
        append(pa.table({"a": [1], "b": ["x"]}))
        append(pa.table({"a": [2], "b": ["y"]}))
    assert capfdbinary.readouterr().out == b"a,b\n1,x\n2,y\n"


def test_later_tables_may_order_their_columns_otherwise(tmp_path: Path) -> None:
    for suffix in ("csv", "parquet"):
        with table_writer(tmp_path / f"table.{suffix}") as append:
            append(pa.table({"a": ["1"], "b": ["x"]}))
            append(pa.table({"b": ["y"], "a": ["2"]}))
        assert read_table(tmp_path / f"table.{suffix}").to_pydict() == {"a": ["1", "2"], "b": ["x", "y"]}


# --- reading ---


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a,b\n1,2\n", {"a": ["1"], "b": ["2"]}),
        (b"\xef\xbb\xbfa,b\n1,2", {"a": ["1"], "b": ["2"]}),
        (b"a,b\r\n1,2\r\n\r\n3,\r\n", {"a": ["1", "3"], "b": ["2", None]}),
        (b"a,b\r1,2\r", {"a": ["1"], "b": ["2"]}),
        (b'a,b\n"1\n2","x,""y"""\n', {"a": ["1\n2"], "b": ['x,"y"']}),
        (b'a,b\n5" pipe,6"\n', {"a": ['5" pipe'], "b": ['6"']}),
        (b'a,b\n1,"x\n"\n', {"a": ["1"], "b": ["x\n"]}),
        (b",b\n0,2\n1,3\n", {"": ["0", "1"], "b": ["2", "3"]}),
        (b'"a\nb",c\n1,2\n', {"a\nb": ["1"], "c": ["2"]}),
        (b"a\n1\n\n3\n", {"a": ["1", None, "3"]}),
        (b"\n\na,b\n1,2\n", {"a": ["1"], "b": ["2"]}),
        (b"a,b\n 1 ,NA\n", {"a": [" 1 "], "b": ["NA"]}),
        (b"2019,2020\n1,2\n", {"2019": ["1"], "2020": ["2"]}),
        ("größe,b\n1,ü\n".encode(), {"größe": ["1"], "b": ["ü"]}),
    ],
)
def test_what_a_csv_file_says(content: bytes, expected: dict[str, list[str]], tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes(content)
    assert read_table(tmp_path / "table.csv").to_pydict() == expected
    (tmp_path / "table.csv.gz").write_bytes(gzip.compress(content))
    assert read_table(tmp_path / "table.csv.gz").to_pydict() == expected


def test_a_column_may_change_its_mind_long_after_the_first_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 256)
    cells = [str(row) for row in range(5000)] + ["2024-01-01", "text", "", "1.5"]
    (tmp_path / "table.csv").write_text("a,b\n" + "".join(f'{cell},"x\ny,z"\n' for cell in cells))
    batches = list(read_batches(tmp_path / "table.csv", 999))
    assert [cell or "" for batch in batches for cell in batch["a"].to_pylist()] == cells
    assert {batch.schema for batch in batches} == {batches[0].schema}
    assert [batch.num_rows for batch in batches] == [999] * 5 + [9]


def test_row_groups_of_parquet_do_not_show(tmp_path: Path) -> None:
    table = pa.table({"a": range(1000)})
    parquet.write_table(table, tmp_path / "table.parquet", row_group_size=7)
    batches = list(read_batches(tmp_path / "table.parquet", 10))
    assert [batch.num_rows for batch in batches] == [10] * 100
    assert pa.concat_tables(batches).equals(table)


def test_memory_does_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 1 << 16)
    table = pa.table({f"c{number}": np.random.default_rng(number).normal(size=1_000_000) for number in range(2)})
    parquet.write_table(table, tmp_path / "groups.parquet", row_group_size=1000)
    parquet.write_table(table, tmp_path / "whole.parquet", row_group_size=len(table))
    write(table.slice(0, 300_000), tmp_path / "table.csv")
    blocks = 64 * delimited.BLOCK  # those that are read ahead, and what they become
    for name, limit in (
        ("groups.parquet", 0.1 * table.nbytes),
        ("whole.parquet", 0.6 * table.nbytes),
        ("table.csv", blocks),
    ):
        before, peak = pa.total_allocated_bytes(), 0
        for _ in read_batches(tmp_path / name, 1000):
            peak = max(peak, pa.total_allocated_bytes() - before)
        assert peak < limit, (name, peak / limit)


def test_a_command_that_ends_right_after_reading_ends_well(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b,y\n0,0,0\n1,1,1\n2,2,2\n")
    # It depends on which of Arrow's threads comes first, and the wrong one does more often on one core.
    on_one_core = (
        "import os, runpy; os.sched_setaffinity(0, {max(os.sched_getaffinity(0))}); "
        "runpy.run_module('offmap', run_name='__main__')"
    )
    command = [sys.executable, "-c", on_one_core, "fit", "table.csv", "--target", "y", "--out", "model"]
    for _ in range(6):
        assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 2


def test_five_thousand_columns(tmp_path: Path) -> None:
    table = pa.table({f"column {number}": [str(number), "x"] for number in range(5000)})
    for suffix in ("csv", "parquet"):
        assert read_table(write(table, tmp_path / f"wide.{suffix}")).equals(table)


# --- what is wrong with a file ---


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "table.xlsx",
            b"PK\x03\x04",
            "here: its name must end in .csv, .tsv, .csv.gz, .tsv.gz, .parquet. Save the sheet as CSV.",
        ),
        ("table", b"a,b\n1,2\n", "must end in .csv, .tsv, .csv.gz, .tsv.gz, .parquet."),
        ("table.csv", b"", "table.csv is empty."),
        ("table.csv", b"\n\n", "table.csv is empty: a table needs"),
        ("table.parquet", b"", "table.parquet is empty."),
        ("table.csv", b"a,b\n", "table.csv has column names, but no rows."),
        ("table.csv", b"a,b", "table.csv has column names, but no rows."),
        ("table.csv", b"a,b\n1,2\n3\n4,5\n", "line 3 has 1 value, but the header has 2. Check its commas and quotes."),
        ("table.csv", b'a,b\n"1\n2",2\n3,4,5\n', "line 4 has 3 values, but the header has 2."),
        ("table.tsv", b"a\tb\n1\t2\t3\n", "line 2 has 3 values, but the header has 2. Check its tabs and quotes."),
        (
            "table.csv",
            b'a,b\n1,2\n3,"x\n4,5\n6,7\n',
            "a quote that opens in row 2 (the first is row 1) is never closed",
        ),
        ("table.csv", b'a,b,c\n1,2,3\n3,"x,4\n4,5,6\n', "line 3 has 2 values"),
        (
            "table.csv",
            "a,b\n1,x\n2,Zürich\n".encode("cp1252"),
            "line 3 looks like Windows-1252 ('2,Zürich'). Save it as",
        ),
        ("table.csv", "Größe,b\n1,x\n".encode("cp1252"), "not UTF-8: line 1 looks like Windows-1252 ('Größe,b')"),
        (
            "table.csv",
            b"a,b\n1,\x81\x9d\n",
            "line 2 holds the byte 0x81, and it is not Windows-1252 either. Save it as",
        ),
        ("table.csv", "a,b\n1,2\n".encode("utf-16"), "is not UTF-8: it looks like UTF-16. Save it as UTF-8."),
        ("table.csv", b"a,b\n1,\x002\n", "is not a text table: it holds NUL bytes."),
        ("table.csv", b"a,b\n" + b"1,2\n" * 2_000_000 + b"\0,2\n", "is not a text table: it holds NUL bytes."),
        ("table.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is not a text table"),
        ("table.csv", b"PK\x03\x04\x14\x00\x06", "is an Excel or zip file, not text."),
        ("table.csv", b"PAR1\x15\x04", "is a Parquet file, not text."),
        ("table.csv", gzip.compress(b"a,b\n1,2\n"), "is a gzip file, not text."),
        ("table.csv.gz", b"a,b\n1,2\n", "is not a whole gzip file."),
        ("table.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99)[:-12], "is not a whole gzip file."),
        (
            "table.csv",
            b"a,b,a,c,a\n1,2,3,4,5\n",
            "table.csv: columns 1, 3, 5 are all called 'a'. Give each its own name.",
        ),
        ("table.csv", b"a,,b,\n1,2,3,4\n", "columns 2, 4 have no name."),
        ("table.csv", b"5,1;3\n4,9;2\n", "seems to have no header: its first line is all numbers."),
        ("table.csv", b'a,b;"c\n' + b"1,2\n" * 3000 + b"\xff,2\n", "line 3002 looks like Windows-1252"),
        ("table.csv", b"a;b\n1;2;3\n", "line 2 has 3 values, but the header has 2. Check its semicolons and quotes."),
        ("table.csv", b"5.1,3\n4.9,2\n", "seems to have no header: its first line is all numbers."),
        ("table.csv", b"a,b\n1," + b"y" * 12_000_000 + b"\n", "the row at line 2 is too long."),
        ("table.parquet", b"not parquet at all", "table.parquet is not a whole Parquet file: "),
    ],
    ids=lambda value: repr(value[:25]) if isinstance(value, bytes | str) else None,
)
def test_wrong_files_are_one_line(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    assert words in error(tmp_path / name, content)


def test_wrong_paths_are_one_line(tmp_path: Path) -> None:
    assert error(tmp_path / "nowhere.csv") == "nowhere.csv does not exist. Check the path."
    (tmp_path / "folder.csv").mkdir()
    assert error(tmp_path / "folder.csv") == "folder.csv is a directory, not a table."


def test_damaged_parquet_is_one_line(tmp_path: Path) -> None:
    content = write(pa.table({"a": range(100_000)}), tmp_path / "good.parquet").read_bytes()
    assert "not a whole Parquet file" in error(tmp_path / "cut.parquet", content[:-100])
    damaged = bytearray(content)
    damaged[100:5000] = b"\xff" * 4900
    assert "not a whole Parquet file" in error(tmp_path / "damaged.parquet", bytes(damaged))


def test_parquet_without_rows_or_with_a_column_twice(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "none.parquet")
    assert error(tmp_path / "none.parquet") == "none.parquet has column names, but no rows."
    parquet.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "twice.parquet")
    assert "columns 1, 2 are all called 'a'" in error(tmp_path / "twice.parquet")


def test_what_is_wrong_with_the_header_is_said_before_the_first_row(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes(b"a,a\n1,2\n")
    with pytest.raises(ValueError, match="are all called"):
        read_batches(tmp_path / "table.csv", 10)
    with pytest.raises(ValueError, match="rows is 0"):
        read_batches(tmp_path / "table.csv", 0)


# --- nothing half-written ---


@pytest.fixture(params=SUFFIXES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"out.{request.param}"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_interrupted_output_leaves_nothing(stop: type[BaseException], target: Path) -> None:
    def interrupted() -> None:
        with table_writer(target) as append:
            append(TABLE)
            raise stop

    with pytest.raises(stop):
        interrupted()
    assert list(target.parent.iterdir()) == []


def test_existing_output_is_kept_unless_forced(target: Path) -> None:
    write(TABLE, target)
    before = target.read_bytes()
    with pytest.raises(FileExistsError, match=r"exists already\. Choose another path, or pass --force"):
        write(TABLE.slice(2), target)
    assert target.read_bytes() == before
    write(TABLE.slice(2), target, force=True)
    assert read_table(target).num_rows == TABLE.num_rows - 2
    assert list(target.parent.iterdir()) == [target]


def test_output_may_replace_its_input(target: Path) -> None:
    write(TABLE, target)
    with table_writer(target, force=True) as append:
        for batch in read_batches(target, 2):
            append(batch)
    assert as_text(read_table(target)) == as_text(TABLE)


@pytest.fixture
def little_space() -> Iterator[None]:
    """No file may grow beyond 100 kB, which fails a write as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("little_space")
def test_full_disk_is_said_and_leaves_nothing(target: Path) -> None:
    noise = pa.table({"a": np.random.default_rng(0).normal(size=50_000)})
    with pytest.raises(OSError, match="File too large"):
        write(noise, target)
    assert list(target.parent.iterdir()) == []


def test_outputs_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="its name must end in"):
        write(TABLE, tmp_path / "out.xlsx")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(IsADirectoryError, match="is a directory"):
        write(TABLE, tmp_path / "folder.csv", force=True)
    with pytest.raises(
        ValueError, match=r"column 'tags' holds list<.*>, which CSV cannot hold. Write .parquet instead"
    ):
        write(pa.table({"tags": [["a", "b"]]}), tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


def test_bytes_that_are_no_text_are_found_wherever_they_are_read(tmp_path: Path) -> None:
    """The stream that the checks stand in gives the very bytes of the file."""
    content = bytes(range(1, 256)) * 1000
    (tmp_path / "bytes.csv").write_bytes(content)
    with io.BufferedReader(delimited._TextBytes(tmp_path / "bytes.csv")) as stream:
        assert stream.read() == content
