"""The smallest table that has everything which a public one has, and the places where it can be."""

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from offmap.datasets.registry import Home, Table

VALUES = np.array([[0.1, -2.0, 7.25], [1e-5, 1872790.507, 0.0], [9.53333333333333, 3.0, 24.0], [0.98, 5.5, 15.55]])
CSV = "a,b,c\n0.10,-2,7.25\n1e-5,1872790.507,0\n9.53333333333333,3,24.0\n0.98,5.5,15.55\n"
TINY = Table(
    key="tiny",
    rows=4,
    header="a,b,c",
    csv_sha256=hashlib.sha256(CSV.encode()).hexdigest(),
    values_sha256=hashlib.sha256(VALUES.astype("<f8").tobytes()).hexdigest(),
    homes=(Home("http://127.0.0.1:9/tiny.csv"),),
)
LINES = CSV.splitlines()
SPACED = CSV.partition("\n")[2].replace(",", "   ")  # the same numbers as other people write them
OTHER = CSV.replace("7.25", "7.26").encode()  # not the same


def zipped(text: str, name: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._" + name, "junk")
        archive.writestr("some folder/" + name, text)
    return stream.getvalue()


def data_folder_with(path: Path, files: dict[str, bytes], manifest: Any = None) -> Path:
    path.mkdir()
    for name, blob in files.items():
        (path / name).write_bytes(blob)
    if manifest is not None:
        (path / "manifest.json").write_text(json.dumps(manifest))
    return path
