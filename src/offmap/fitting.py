"""offmap fit: from a table in a file to a model directory, saying what was found and how good it is."""

import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from offmap.artifact import refuse_to_overwrite
from offmap.detector import OODDetector
from offmap.quality import describe_quality, doubts, quality_of
from offmap.table import Schema, describe, encode, feature_names, learn_schema, target_of
from offmap.table.cells import number_text
from offmap.tablefiles import SUFFIXES, read_table

FEWEST_ROWS = 20  # with fewer, nothing can be flagged at a false-alarm rate of 5%
MOST_FEATURES = 500  # time and memory grow with them: a thousand would take hours, and few tables have the rows for it

MANY_COPIES = 0.1  # of the rows

Say = Callable[[str], None]


def default_model_path(table: Path) -> Path:
    """Where a table's model goes unless told otherwise: beside where the command runs, under the table's name.

    >>> default_model_path(Path("data/houses.csv.gz")).name
    'houses-model'
    """
    suffix = next((suffix for suffix in SUFFIXES[::-1] if table.name.lower().endswith(suffix)), table.suffix)
    return Path(f"{table.name[: len(table.name) - len(suffix)]}-model")


def fit_file(
    table: Path, target: str, detector: OODDetector, out: Path | None = None, force: bool = False, say: Say = print
) -> Path:
    """Fit `detector` to the rows of the file `table` that have a `target`, and write it to `out`. The path written."""
    out = default_model_path(table) if out is None else out
    refuse_to_overwrite(out, force, how="--force")
    rows = read_table(table)
    _refuse_too_few(table, rows.num_rows)
    y, kept = target_of(rows, target)
    _refuse_too_few(table, len(y), f" with a {target!r}")
    inputs = rows.drop_columns(target).filter(pa.array(kept))
    schema = learn_schema(inputs)
    _refuse_too_many_features(table, schema)
    say(f"{table}: to predict {target!r} ({number_text(float(y.min()))} to {number_text(float(y.max()))})")
    for line in [*_missing_targets(target, int(np.sum(~kept))), *describe(schema)]:
        say(f"  {line}")
    started = time.monotonic()
    complaints = _fit(detector, inputs, y)
    features = encode(schema, inputs)
    quality = quality_of(detector, features, y)
    # Kept with the model, for `offmap show` and the report.
    detector.target_name_, detector.quality_ = target, quality._asdict()
    detector.save(out, overwrite=force)
    say(f"fitted and calibrated ({detector.calibration_}) in {time.monotonic() - started:.0f} s")
    for line in describe_quality(quality):
        say(f"  {line}")
    for line in [*complaints, *doubts(quality), *_copies(features, y)]:
        say(f"warning: {line}")
    say(f"the model is in {out}")
    return out


def _refuse_too_few(table: Path, count: int, which: str = "") -> None:
    if count < FEWEST_ROWS:
        raise ValueError(
            f"{table} has {count} row{'s' * (count != 1)}{which}, too few to learn from. At least {FEWEST_ROWS} are "
            "needed, and some hundreds for a useful model."
        )


def _missing_targets(target: str, count: int) -> list[str]:
    return [f"{count:,} row{'s' * (count > 1)} without a {target!r} left out"] * (count > 0)


def _copies(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> list[str]:
    """A warning where so many rows are there twice that what was measured on rows held back says little of new ones."""
    count = len(y) - len(np.unique(np.column_stack([X, y]), axis=0))
    if count <= MANY_COPIES * len(y):
        return []
    return [
        f"{count:,} of the {len(y):,} rows are copies of others, so that rows held back were often learned all the "
        "same. Unless new rows will be such copies, too, expect more false alarms and a larger error than measured "
        "here. Keep one of each."
    ]


def _refuse_too_many_features(table: Path, schema: Schema) -> None:
    """An error, before hours of fitting, that says which columns are many."""
    width = len(feature_names(schema))
    if width > MOST_FEATURES:
        raise ValueError(
            f"{table} has {len(schema.columns):,} columns to learn from, as {width:,} numbers, and at most "
            f"{MOST_FEATURES:,} can be learned from. Keep those that should matter for the target."
        )


def _fit(detector: OODDetector, inputs: pa.Table, y: Float[np.ndarray, " n"]) -> list[str]:
    """Fit, and return what the methods complain about, each once."""
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        detector.fit(inputs, y)
    return list(dict.fromkeys(str(complaint.message) for complaint in complaints))
