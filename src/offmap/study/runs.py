"""The file that a study is kept in: one JSON line per finished cell, always whole, shared by any number of runs."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from offmap.datasets import DATASETS
from offmap.files import complete_file
from offmap.inference import METHODS
from offmap.study.baselines import BASELINES
from offmap.study.protocol import PROTOCOLS
from offmap.study.record import KEYS, Cell, Record, as_line

FILE, LEFT_OUT = "study.jsonl", "left-out.jsonl"
ORDER: tuple[list[str], ...] = (list(PROTOCOLS), list(DATASETS), [*METHODS, *BASELINES])


def read_runs(path: str | Path) -> tuple[list[Record], list[str]]:
    """The records in a folder of runs (or in a file of them), and what is wrong with the lines that are none.

    A line that cannot be trusted is left out, so its cell counts as not run.
    """
    records, untrusted = _sorted_out(Path(path) / FILE if Path(path).is_dir() else Path(path))
    return records, list(untrusted)


def _sorted_out(file: Path) -> tuple[list[Record], dict[str, bytes]]:
    """The records of a file, and the lines that are none, by what is wrong with them."""
    records: dict[Cell, Record] = {}
    untrusted = {}
    for number, line in enumerate(file.read_bytes().splitlines() if file.exists() else [], start=1):
        try:
            record = _trusted(line)
            if Cell.of(record) in records:
                raise ValueError(f"it repeats the cell {Cell.of(record)}")
            records[Cell.of(record)] = record
        except ValueError as problem:
            untrusted[f"{file}, line {number} is left out: {problem}."] = line
    return list(records.values()), untrusted


def _trusted(line: bytes) -> Record:
    """The record in a line, or an error that says what is wrong."""
    try:
        record: Any = json.loads(line)
    except ValueError:  # JSON's errors and UTF-8's
        raise ValueError("it is cut short or altered") from None
    if not isinstance(record, dict):
        raise ValueError("it is not a record")
    missing = [key for key in KEYS if key not in record]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    if not all(isinstance(part, kind) for part, kind in zip(Cell.of(record), (str, str, str, int), strict=True)):
        raise ValueError("it does not say which cell it is about")
    return record


def add_record(folder: Path, record: Record) -> None:
    """Put a record into the folder's file, in its place. The file is replaced whole, or stays as it was.

    Lines that cannot be trusted, and the record of the same cell that it replaces, go to a file beside it: they may be
    hours of work in an older format or under other settings.
    """
    with _alone_in(folder):
        for leftover in folder.glob(f".{Path(FILE).stem}-*"):  # of a process that was killed while it wrote
            leftover.unlink()
        records, untrusted = _sorted_out(folder / FILE)
        kept = [other for other in records if Cell.of(other) != Cell.of(record)]
        replaced = [as_line(other).encode() for other in records if Cell.of(other) == Cell.of(record)]
        if left_out := [*untrusted.values(), *replaced]:
            with (folder / LEFT_OUT).open("ab") as file:
                file.write(b"".join(line + b"\n" for line in left_out))
        in_order = sorted([*kept, record], key=lambda record: place(Cell.of(record)))
        with complete_file(folder / FILE) as fresh:
            fresh.write_text("".join(as_line(record) + "\n" for record in in_order), encoding="utf-8")


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes from changing the folder's file meanwhile. The system lifts the lock when a process dies."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def place(cell: Cell) -> tuple[Any, ...]:
    """Where a cell stands in the file: in the order of the tables of names, unknown names behind."""
    names = zip(cell[:3], ORDER, strict=True)
    return *((known.index(name) if name in known else len(known), name) for name, known in names), cell.seed
