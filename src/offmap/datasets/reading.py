"""From a file's bytes, in any of the formats that the public homes use, to a table's checked numbers."""

import hashlib
import io
import re
import zipfile
import zlib

import numpy as np
from jaxtyping import Float

from offmap.datasets.registry import DatasetError, Home, Table

MOST_BYTES = 20_000_000  # several times the largest table as text
QUOTES = "'\""


def values_in(table: Table, home: Home, blob: bytes) -> Float[np.ndarray, "n d"]:
    """The numbers in a home's file, the target last, after a check that they are the table's very numbers in order."""
    text = _unpacked(blob, home.member) if home.member else blob
    return checked(table, _selected(_numbers(text), home.columns or tuple(range(len(table.columns)))))


def checked(table: Table, values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """`values`, if they are the table's; else an error, since other rows or another order would be another split."""
    if values.shape != (table.rows, len(table.columns)):
        raise DatasetError(
            f"it holds {values.shape[0]} rows of {values.shape[1]} numbers, and {table.key} has {table.rows} of "
            f"{len(table.columns)}"
        )
    found = values_sha256(values)
    if found != table.values_sha256:
        raise DatasetError(
            f"its numbers or the order of its rows are not those of {table.key}: their sha256 is {found}, expected "
            f"{table.values_sha256}"
        )
    return values


def values_sha256(values: Float[np.ndarray, "n d"]) -> str:
    """The checksum of numbers, whatever text they came from."""
    return hashlib.sha256((values + 0.0).astype("<f8").tobytes()).hexdigest()  # + 0.0 makes -0.0 a 0.0


def _unpacked(blob: bytes, member: str) -> bytes:
    """The file called `member` in a zip archive, whatever folder it is in."""
    try:
        with zipfile.ZipFile(io.BytesIO(blob)) as archive:
            names = [name for name in archive.namelist() if name.rpartition("/")[2] == member]
            if not names:
                raise DatasetError(f"it is an archive without {member}; it holds {', '.join(archive.namelist())}")
            with archive.open(names[0]) as file:
                text = file.read(MOST_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        raise DatasetError("it is not a whole zip archive") from None
    if len(text) > MOST_BYTES:
        raise DatasetError(f"its {member} is larger than {MOST_BYTES} bytes")
    return text


def _numbers(text: bytes) -> list[list[float]]:
    """The rows of a text: numbers apart by blanks, commas or semicolons, under a header, ARFF's header, or none."""
    rows: list[list[float]] = []
    header_may_come = True
    for number, line in enumerate(text.decode("utf-8-sig", errors="replace").splitlines(), start=1):
        cells = re.split(r"[\s,;]+", line.strip())
        if cells[0] == "" or cells[0][0] in "%@":  # blank, or ARFF's comments and declarations
            continue
        try:
            # 15 digits are all that a decimal text is sure to keep in float64: 15.550000000000001 was 15.55.
            rows.append([float(f"{float(cell.strip(QUOTES)):.15g}") for cell in cells])
        except ValueError:
            if not header_may_come:
                raise DatasetError(f"its line {number} is not a row of numbers") from None
        header_may_come = False
    return rows


def _selected(rows: list[list[float]], columns: tuple[int, ...]) -> Float[np.ndarray, "n d"]:
    """These columns of the rows."""
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]) or len(row) <= max(columns):
            raise DatasetError(f"its row {number} has {len(row)} numbers")
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1)[:, list(columns)] if rows else np.empty((0, 0))
