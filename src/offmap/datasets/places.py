"""Where a table is looked for: the folder that the user names, the user's cache, its public homes. In this order."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from offmap.cache import cache_folder
from offmap.datasets.download import Patience, download
from offmap.datasets.reading import MOST_BYTES, values_in
from offmap.datasets.registry import DatasetError, Home, Table
from offmap.files import complete_file

FOLDER = "OFFMAP_DATA"  # a folder with the tables and, where there is one, its manifest.json
CSV = Home(address="")  # a data folder's file has the table's columns in order


def table_values(
    table: Table, data_dir: str | Path | None = None, patience: Patience = Patience()
) -> Float[np.ndarray, "n d"]:
    """The table's numbers, the target last. A folder that is named is the only place: it has the table, or fails."""
    folder = data_dir or os.environ.get(FOLDER)
    if folder:
        return _from_folder(table, Path(folder))
    complaints: list[str] = []
    for home in table.homes:
        path = _cached(table, home)
        if path is not None and path.is_file():
            try:
                return values_in(table, home, path.read_bytes())
            except (DatasetError, OSError) as problem:
                complaints.append(f"{path}: {problem}")
    for home in table.homes:
        try:
            return _from_home(table, home, patience)
        except DatasetError as problem:
            complaints.append(f"{home.address}: {problem}")
    raise DatasetError(f"The table {table.key} could not be had. {'; '.join(complaints)}. {_advice(table)}")


def _from_folder(table: Table, folder: Path) -> Float[np.ndarray, "n d"]:
    """The table from a folder of CSV files, whose checksums are the manifest's there and ours here."""
    if not folder.is_dir():
        raise DatasetError(f"The data folder {folder} does not exist. Check data_dir (--data-dir) or {FOLDER}.")
    path = next((folder / name for name in table.file_names if (folder / name).is_file()), None)
    if path is None:
        there = ", ".join(sorted(file.name for file in folder.iterdir())) or "nothing"
        raise DatasetError(f"{folder} holds neither {' nor '.join(table.file_names)}. There is: {there}.")
    manifest = folder / "manifest.json"
    entry = _manifest_entry(manifest, table.key)
    stored = path.read_bytes()
    if entry.get("file") == path.name:
        _compare(path, stored, entry.get("sha256"), str(manifest))
    text = _decompressed(path, stored) if path.suffix == ".gz" else stored
    _compare(path, text, table.csv_sha256, f"offmap for {table.key}")
    _compare(path, text, entry.get("sha256_csv"), str(manifest))
    return values_in(table, CSV, text)


def _manifest_entry(manifest: Path, key: str) -> dict[str, Any]:
    """What the folder's manifest says about a table; nothing where there is no manifest."""
    if not manifest.is_file():
        return {}
    try:
        entry = json.loads(manifest.read_bytes()).get(key, {})
        return dict(entry)
    except (ValueError, TypeError, AttributeError):
        raise DatasetError(f"{manifest} is not a manifest of tables. Copy the folder again.") from None


def _compare(path: Path, blob: bytes, expected: str | None, whose: str) -> None:
    """An error unless the bytes have the expected sha256; nothing where none is expected."""
    found = hashlib.sha256(blob).hexdigest()
    if expected is not None and found != expected:
        raise DatasetError(
            f"{path} holds other rows than expected: its sha256 is {found}, and that of {whose} is {expected}. "
            "Copy the file again."
        )


def _decompressed(path: Path, stored: bytes) -> bytes:
    """What a gzip file holds, up to more than any table has."""
    try:
        with gzip.open(io.BytesIO(stored)) as file:
            return file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        raise DatasetError(f"{path} is not a whole gzip file. Copy the file again.") from None


def _from_home(table: Table, home: Home, patience: Patience) -> Float[np.ndarray, "n d"]:
    """The table from its public home, kept in the cache once it is known to be right."""
    blob = download(home.address, f"downloading {table.key}", patience)
    values = values_in(table, home, blob)
    path = _cached(table, home)
    if path is not None:
        with contextlib.suppress(OSError), complete_file(path) as file:  # a full disk only costs the next download
            file.write_bytes(blob)
    return values


def _cached(table: Table, home: Home) -> Path | None:
    """Where the cache has a home's file, under a name that says what it is."""
    cache = cache_folder()
    return None if cache is None else cache / "data" / f"{table.key}{home.suffix}"


def _advice(table: Table) -> str:
    """What a person without a connection can do."""
    other = f"name a folder that holds {table.file_names[0]}, by data_dir (--data-dir) or {FOLDER}"
    surest = table.homes[-1]  # the plain text with the study's own digits
    path = _cached(table, surest)
    if path is None:
        return f"Try again later, or {other}."
    return f"Try again later, or save {surest.address} as {path}, or {other}."
