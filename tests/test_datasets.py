"""Datasets: the very same numbers in the same order from every place, or a refusal that says why."""

import gzip
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from offmap.datasets import DATASETS, DatasetError, load_dataset, wave
from offmap.datasets.places import table_values
from offmap.datasets.reading import values_in
from offmap.datasets.registry import TABLES, Home
from tests.tiny_table import CSV, LINES, OTHER, SPACED, TINY, VALUES, data_folder_with, zipped

pytestmark = pytest.mark.usefixtures("cache")

# --- what is always there ---


def test_wave_and_diabetes_are_always_there(tmp_path: Path) -> None:
    X, y = wave(0)
    frame = load_diabetes(as_frame=True, scaled=False).frame
    for data_dir in (None, tmp_path / "nowhere"):
        ours = load_dataset("wave", data_dir)
        np.testing.assert_array_equal(ours.X, X)
        np.testing.assert_array_equal(ours.y, y)
        theirs = load_dataset("diabetes", data_dir)
        np.testing.assert_array_equal(theirs.X, frame[list(theirs.feature_names)])
        np.testing.assert_array_equal(theirs.y, frame["target"])


def test_unknown_key_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no dataset 'yatch'") as problem:
        load_dataset("yatch")
    assert all(key in str(problem.value) for key in DATASETS)


def test_every_home_has_its_own_file_in_the_cache() -> None:
    for table in TABLES.values():
        assert len({home.suffix for home in table.homes} - {""}) == len(table.homes)


# --- the real tables, where they are ---


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, data_folder: str) -> Path:
    monkeypatch.setenv("OFFMAP_DATA", data_folder)
    return Path(data_folder)


@pytest.fixture(scope="module")
def data_folder() -> str:
    if not os.environ.get("OFFMAP_DATA"):
        pytest.skip("OFFMAP_DATA is not set: the UCI tables are not here")
    return os.environ["OFFMAP_DATA"]


@pytest.mark.parametrize("key", TABLES)
def test_table_is_what_its_manifest_says_and_numpy_reads(key: str, folder: Path) -> None:
    entry = json.loads((folder / "manifest.json").read_text())[key]
    table = load_dataset(key)
    np.testing.assert_array_equal(
        np.column_stack([table.X, table.y]), np.genfromtxt(folder / entry["file"], delimiter=",", skip_header=1)
    )
    assert (*table.X.shape, table.X.dtype) == (entry["n_rows"], entry["n_features"], np.float64)
    assert (list(table.feature_names), table.target_name) == (entry["feature_names"], entry["target_name"])
    assert TABLES[key].csv_sha256 == entry["sha256_csv"]
    for found, name in (
        (table.y.mean(), "mean"),
        (table.y.std(), "std"),
        (table.y.min(), "min"),
        (table.y.max(), "max"),
    ):
        assert found == pytest.approx(entry[f"target_{name}"], rel=1e-12)


def collection_file(key: str, lines: list[str]) -> bytes:
    """A table as the collection on GitHub writes it."""
    rows = [line.split(",") for line in lines]
    if key == "boston":
        widths = (8, 7, 8, 3, 8, 8, 7, 8, 4, 7, 7, 7, 7, 7)
        return "".join(
            "".join(map(str.rjust, row, widths)) + "\n"
            for row in rows  # columns of fixed width
        ).encode()
    if key == "navalC":  # with a last column that is not ours, on a grid
        decay = [f"{0.975 + 0.001 * (index // 9 % 26):.3f}" for index in range(len(rows))]
        full = [[*row, extra] for row, extra in zip(rows, decay, strict=True)]
        return "".join("".join(f"   {float(cell):.7e}" for cell in row) + "\n" for row in full).encode()
    separator = "\t" if key in ("energy", "powerplant") else " "
    return ("".join(separator.join(row) + "\n" for row in rows) + "\n" * (key == "energy")).encode()


@pytest.mark.parametrize("key", ["boston", "energy", "wine", "navalC", "powerplant", "protein"])
def test_collection_holds_our_rows_in_our_order(key: str, folder: Path) -> None:
    """The file rebuilt from our rows has the id that git gave to the collection's own, so it is the same file."""
    entry = json.loads((folder / "manifest.json").read_text())[key]
    stored = (folder / entry["file"]).read_bytes()
    text = gzip.decompress(stored) if entry["compressed"] else stored
    blob = collection_file(key, text.decode().splitlines()[1:])
    assert hashlib.sha1(b"blob %d\0" % len(blob) + blob).hexdigest() in entry["source"]
    if key == "navalC":  # which the UCI archive's zip holds, too
        assert hashlib.sha256(blob).hexdigest() == "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6"
        values_in(TABLES[key], TABLES[key].homes[0], zipped(blob.decode(), "data.txt"))
    table = load_dataset(key)
    found = values_in(TABLES[key], TABLES[key].homes[-1], blob)
    np.testing.assert_array_equal(found, np.column_stack([table.X, table.y]))


def test_target_may_come_first_in_the_public_file(folder: Path) -> None:
    table = load_dataset("protein")
    rows = np.column_stack([table.y, table.X])
    text = "RMSD,F1,F2,F3,F4,F5,F6,F7,F8,F9\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows.tolist())
    found = values_in(TABLES["protein"], TABLES["protein"].homes[0], zipped(text, "CASP.csv"))
    np.testing.assert_array_equal(found, np.column_stack([table.X, table.y]))


# --- formats ---

FORMATS = {
    "csv": CSV,
    "windows, with a mark at the start": "\ufeff" + CSV.replace("\n", "\r\n"),
    "blanks, no header": SPACED,
    "a mark at the start, no header": "\ufeff" + SPACED,
    "blanks before and after": "\n".join("  " + line + " \t" for line in SPACED.splitlines()) + "\n\n \n",
    "semicolons, quoted header": '"a b";"b";"c"\n' + CSV.partition("\n")[2].replace(",", ";"),
    "arff": "% said\n@relation t\n@attribute a numeric\n@attribute b {'-2','3'}\n\n@data\n"
    + SPACED.replace("-2", "'-2'"),
    "seventeen digits": CSV.replace("0.98", "0.98000000000000009").replace("15.55", "15.550000000000001"),
    "a column more": "".join(line + f",{index}\n" for index, line in enumerate(CSV.splitlines())),
}


@pytest.mark.parametrize("text", FORMATS.values(), ids=FORMATS.keys())
def test_any_text_of_the_same_numbers_will_do(text: str) -> None:
    np.testing.assert_array_equal(values_in(TINY, TINY.homes[0], text.encode()), VALUES)
    home = Home("http://127.0.0.1:9/tiny.zip", member="tiny.data")
    np.testing.assert_array_equal(values_in(TINY, home, zipped(text, "tiny.data")), VALUES)


WRONG = {
    "altered value": (CSV.replace("7.25", "7.26"), "sha256 is [0-9a-f]{64}, expected " + TINY.values_sha256),
    "value altered in the tenth digit": (CSV.replace(".507", ".5071"), "not those of tiny"),
    "rows in another order": ("\n".join([*LINES[:2], LINES[3], LINES[2], LINES[4]]), "order of its rows"),
    "columns in another order": (
        "c,a,b\n7.25,0.1,-2\n0,1e-5,1872790.507\n24,9.53333333333333,3\n15.55,.98,5.5",
        "order",
    ),
    "a row missing": ("\n".join(LINES[:-1]), "3 rows of 3 numbers, and tiny has 4 of 3"),
    "a row too many": (CSV + "1,2,3\n", "5 rows of 3 numbers"),
    "a short row": (CSV.replace("9.53333333333333,3,", "9.53333333333333,"), "row 3 has 2 numbers"),
    "a long row": (CSV.replace("24.0", "24.0,1"), "row 3 has 4 numbers"),
    "too few columns": ("a,b\n1,2\n3,4\n", "row 1 has 2 numbers"),
    "a page": ("<!doctype html>\n<html>\n<p>Please log in</p>\n", "line 2 is not a row of numbers"),
    "a word": (CSV.replace("0.98", "much"), "line 5 is not a row of numbers"),
    "nothing": ("", "0 rows"),
    "not a number": (CSV.replace("7.25", "nan"), "not those of tiny"),
}


@pytest.mark.parametrize(("text", "complaint"), WRONG.values(), ids=WRONG.keys())
def test_other_numbers_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(DatasetError, match=complaint):
        values_in(TINY, TINY.homes[0], text.encode())


@pytest.mark.parametrize(
    ("blob", "complaint"),
    [
        (CSV.encode(), "not a whole zip archive"),
        (zipped(CSV, "tiny.data")[:-30], "not a whole zip archive"),
        (zipped(CSV, "other.data"), r"without tiny.data; it holds __MACOSX/._other.data, some folder/other.data"),
    ],
)
def test_broken_archive_is_refused(blob: bytes, complaint: str) -> None:
    with pytest.raises(DatasetError, match=complaint):
        values_in(TINY, Home("http://127.0.0.1:9/tiny.zip", member="tiny.data"), blob)


# --- a folder that the user names ---


def sha256(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()


PACKED = gzip.compress(CSV.encode(), mtime=0)
ENTRY = {"file": "tiny.csv.gz", "sha256": sha256(PACKED), "sha256_csv": TINY.csv_sha256}


@pytest.mark.parametrize(
    ("files", "manifest"),
    [
        ({"tiny.csv": CSV.encode()}, None),
        ({"tiny.csv.gz": PACKED}, {"tiny": ENTRY}),
        ({"tiny.csv": CSV.encode()}, {"tiny": ENTRY}),  # unpacked since: only the CSV's checksum applies
        ({"tiny.csv": CSV.encode()}, {"other": ENTRY}),
    ],
    ids=["plain, no manifest", "gzip", "unpacked", "not in the manifest"],
)
def test_folder_gives_the_table(tmp_path: Path, files: dict[str, bytes], manifest: Any) -> None:
    found = table_values(TINY, data_folder_with(tmp_path / "data", files, manifest))
    np.testing.assert_array_equal(found, VALUES)


REFUSED: dict[str, tuple[dict[str, bytes], Any, str]] = {
    "other rows": (
        {"tiny.csv": OTHER},
        None,
        f"sha256 is {sha256(OTHER)}, and that of offmap for tiny is {TINY.csv_sha256}",
    ),
    "other rows, and the manifest agrees with them": (
        {"tiny.csv": OTHER},
        {"tiny": {"file": "tiny.csv", "sha256": sha256(OTHER), "sha256_csv": sha256(OTHER)}},
        "that of offmap for tiny",
    ),
    "the manifest says other rows": (
        {"tiny.csv": CSV.encode()},
        {"tiny": ENTRY | {"sha256_csv": "0" * 64}},
        rf"sha256 is {TINY.csv_sha256}, and that of .*manifest.json is 0000",
    ),
    "the manifest says another file": (
        {"tiny.csv.gz": PACKED},
        {"tiny": ENTRY | {"sha256": "0" * 64}},
        rf"sha256 is {sha256(PACKED)}, and that of .*manifest.json is 0000",
    ),
    "a gzip file cut short": ({"tiny.csv.gz": PACKED[:-9]}, None, "tiny.csv.gz is not a whole gzip file"),
    "a manifest of another kind": ({"tiny.csv": CSV.encode()}, ["tiny"], "manifest.json is not a manifest"),
    "a manifest's entry of another kind": ({"tiny.csv": CSV.encode()}, {"tiny": 3}, "manifest.json is not a manifest"),
    "no such file": ({"b.csv": b"", "a.csv": b""}, None, r"neither tiny.csv nor tiny.csv.gz. There is: a.csv, b.csv\."),
    "an empty folder": ({}, None, "There is: nothing"),
}


@pytest.mark.parametrize(("files", "manifest", "complaint"), REFUSED.values(), ids=REFUSED.keys())
def test_folder_with_something_else_is_refused(
    tmp_path: Path, files: dict[str, bytes], manifest: Any, complaint: str
) -> None:
    folder = data_folder_with(tmp_path / "data", files, manifest)
    with pytest.raises(DatasetError, match=complaint):
        table_values(TINY, folder)


def test_broken_manifest_is_refused(tmp_path: Path) -> None:
    folder = data_folder_with(tmp_path / "data", {"tiny.csv": CSV.encode(), "manifest.json": b'{"tiny": '})
    with pytest.raises(DatasetError, match=r"manifest.json is not a manifest"):
        table_values(TINY, folder)
