"""offmap score: every row of a table comes back, in order, with its verdict, in memory that does not grow with them."""

import copy
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from offmap.artifact import ModelFileError
from offmap.batches import batches_with_inputs
from offmap.checks import chosen_by_name, is_number, listed
from offmap.detector import OODDetector, load
from offmap.discoveries import CountedPValues
from offmap.explanation import KINDS
from offmap.tablefiles import table_writer

COLUMNS = (
    *("prediction", "std_epistemic", "std_total", "ood_score"),
    *("p_disagreement", "p_novelty", "p_value", "is_ood", "reason"),
)
SMALLEST_RATE = sys.float_info.min  # below every p-value, so that nothing is flagged


@dataclass(frozen=True)
class Scoring:
    """How rows are judged, and what the new columns are called.

    false_alarm_rate: flag at this rate instead of the model's.
    false_discovery_rate: flag so that at most this share of the flagged rows of the file is expected to be ordinary
        (Benjamini-Hochberg). Reads the table twice.
    evidence: judge by "disagreement", by "novelty" or by "both", instead of as the model does.
    prefix: goes before the name of each new column.
    rows_at_once: rows held in memory; None for as many as fit comfortably. No result depends on it.
    """

    false_alarm_rate: float | None = None
    false_discovery_rate: float | None = None
    evidence: str | None = None
    prefix: str = ""
    rows_at_once: int | None = None

    def __post_init__(self) -> None:
        rates = {"--alpha": self.false_alarm_rate, "--fdr": self.false_discovery_rate}
        for name, rate in rates.items():
            if rate is not None and not (is_number(rate) and 0 < rate < 1):
                raise ValueError(f"{name} is {rate:g}, but it must lie between 0 and 1.")
        if all(rate is not None for rate in rates.values()):
            raise ValueError("--alpha and --fdr are two ways to flag rows: pass one of them.")


class Scored(NamedTuple):
    """What was done, and the p-value up to which rows were flagged."""

    rows: int
    flagged: int
    seconds: float
    threshold: float


def load_detector(path: Path) -> OODDetector:
    """The detector in a model directory; an error when it holds something else."""
    model = load(path)
    if not isinstance(model, OODDetector):
        raise ModelFileError(
            f"{path} holds a {type(model).__name__}, which has no alarm. Save an OODDetector, or use `offmap fit`."
        )
    return model


def score_file(
    detector: OODDetector, table: Path, out: Path | None = None, scoring: Scoring = Scoring(), force: bool = False
) -> Scored:
    """Write the rows of the file `table` with the columns of `detector.verdicts` to `out`: None for CSV on stdout."""
    started = time.monotonic()
    detector = detector if scoring.evidence is None else judging_by(detector, scoring.evidence)
    with table_writer(out, force) as append:
        threshold = _threshold(detector, table, scoring)
        n_rows = n_flagged = 0
        for rows, X in _batches(detector, table, scoring, "scored rows"):
            verdicts = detector.verdicts(X, false_alarm_rate=max(threshold, SMALLEST_RATE))
            append(_joined(rows, verdicts, scoring.prefix))
            n_rows += rows.num_rows
            n_flagged += int(np.sum(verdicts["is_ood"]))
    return Scored(rows=n_rows, flagged=n_flagged, seconds=time.monotonic() - started, threshold=threshold)


def judging_by(detector: OODDetector, evidence: str) -> OODDetector:
    """The same detector, judging rows by another kind of evidence."""
    chosen_by_name(evidence, dict.fromkeys(("both", *KINDS)), "--evidence")
    if evidence != "novelty" and not detector.folds_[0].has_predictors:
        raise ValueError(
            f"--evidence is {evidence}, but this model has no predictors that could disagree: only novelty."
        )
    other = copy.copy(detector)
    other.evidence = evidence  # type: ignore[assignment]  # just checked
    return other


def describe_scored(scored: Scored, scoring: Scoring, n_calibration: int) -> list[str]:
    """What was done, in a line or two."""
    speed = scored.rows / max(scored.seconds, 1e-9)
    lines = [
        f"{scored.rows:,} rows in {scored.seconds:.1f} s ({speed:,.0f} per second); {scored.flagged:,} flagged "
        f"({scored.flagged / scored.rows:.2%})"
    ]
    smallest = 1 / (n_calibration + 1)
    why = f"the model was calibrated on {n_calibration:,} rows, so no p-value is below {smallest:.2g}"
    if scoring.false_discovery_rate is not None and not scored.flagged:
        needed = smallest / scoring.false_discovery_rate
        lines.append(f"note: {why}, and --fdr can flag rows only where at least {needed:.1%} of them are that strange.")
    elif scoring.false_discovery_rate is None and scored.threshold < smallest:
        lines.append(f"note: {why}, and nothing can be flagged at a rate of {scored.threshold:g}. Choose a larger one.")
    return lines


def _threshold(detector: OODDetector, table: Path, scoring: Scoring) -> float:
    """The p-value up to which rows are flagged. A rate of false discoveries takes a pass of its own to find it."""
    if scoring.false_discovery_rate is None:
        return detector.false_alarm_rate if scoring.false_alarm_rate is None else scoring.false_alarm_rate
    counted = CountedPValues()
    for _, X in _batches(detector, table, scoring, "first pass, rows"):
        counted.add(detector.p_values(X))
    return counted.threshold(scoring.false_discovery_rate)


def _batches(detector: OODDetector, table: Path, scoring: Scoring, what: str) -> Iterator[tuple[pa.Table, Any]]:
    """The same batches, once it is clear that the names of the new columns are free."""
    new = {f"{scoring.prefix}{name}" for name in COLUMNS}
    for rows, inputs in batches_with_inputs(detector, table, what, scoring.rows_at_once):
        taken = [repr(name) for name in rows.column_names if name in new]
        if taken:
            raise ValueError(
                f"{table} has columns with names that are given to the verdicts: {listed(taken, most=9)}. Rename them, "
                "or pass --prefix offmap_ to name the verdicts otherwise."
            )
        yield rows, inputs


def _joined(rows: pa.Table, verdicts: dict[str, np.ndarray], prefix: str) -> pa.Table:
    """The rows with the verdicts beside them."""
    for name, values in verdicts.items():
        cells = pa.array(values, pa.string() if values.dtype == object else None, from_pandas=True)  # NaN is nothing
        rows = rows.append_column(f"{prefix}{name}", cells)
    return rows
