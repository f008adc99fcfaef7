"""A table's verdicts in constant memory: how many rows are flagged, where in the table, and which are the worst."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Int

from offmap.batches import batches_with_inputs
from offmap.progress import report
from offmap.report.charts import Axis, Chart, bars, drawing, line
from offmap.report.markup import Markup, element
from offmap.report.pieces import PLUS_MINUS, figure, figures, number, paragraphs, percent, section, table

ROWS_AT_ONCE = 1 << 14
MOST_BINS = 100  # an even number: bins are merged two by two
MOST_WORST = 20


class WorstRow(NamedTuple):
    """A row's verdict, and which row it is: the first is row 1."""

    row: int
    verdict: dict[str, Any]


class Verdicts(NamedTuple):
    """What the page says of a table: bins of `bin_rows` rows in row order (the last may have fewer), and worst rows."""

    rows: int
    flagged: int
    bin_rows: int
    flagged_by_bin: Int[np.ndarray, " bins"]
    worst: list[WorstRow]


class Bins:
    """Counts of flagged rows in at most `MOST_BINS` bins of equal width, however many rows come."""

    def __init__(self) -> None:
        self.rows, self.width = 0, 1
        self.counts = np.zeros(MOST_BINS, dtype=np.int64)

    def add(self, flagged: Bool[np.ndarray, " n"]) -> None:
        """Count the next rows. When they do not fit, every two bins become one."""
        places = self.rows + np.flatnonzero(flagged)
        self.rows += len(flagged)
        while self.rows > MOST_BINS * self.width:
            self.width *= 2
            self.counts = np.concatenate([self.counts[0::2] + self.counts[1::2], np.zeros(MOST_BINS // 2, np.int64)])
        self.counts += np.bincount(places // self.width, minlength=MOST_BINS)


def verdicts_of(detector: Any, X: Any) -> Verdicts:
    """The verdicts of a frame, an array, or a file given by its path, row batch by row batch."""
    bins, worst = Bins(), list[WorstRow]()
    for batch in batches_of(detector, X):
        verdicts = detector.verdicts(batch)
        candidates = _worst_of(verdicts, first_row=bins.rows + 1)
        bins.add(verdicts["is_ood"])
        worst = heapq.nsmallest(MOST_WORST, [*worst, *candidates], key=_badness)
    return Verdicts(
        rows=bins.rows,
        flagged=int(bins.counts.sum()),
        bin_rows=bins.width,
        flagged_by_bin=bins.counts[: -(-bins.rows // bins.width)],
        worst=worst,
    )


def batches_of(detector: Any, X: Any, rows: int = ROWS_AT_ONCE) -> Iterator[Any]:
    """The rows of a frame, an array, or a file given by its path, some at a time and in order."""
    if isinstance(X, str | Path):
        yield from (inputs for _, inputs in batches_with_inputs(detector, Path(X), "judged rows", rows))
        return
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    sliceable = frame if isinstance(frame, nw.DataFrame) else np.asarray(X)
    for start in range(0, len(sliceable), rows):
        yield nw.to_native(sliceable[start : start + rows], pass_through=True)
        report("judged rows", min(start + rows, len(sliceable)), len(sliceable))


def _worst_of(verdicts: dict[str, np.ndarray], first_row: int) -> Iterable[WorstRow]:
    """The rows of a batch that may be among the worst."""
    order = np.lexsort((-verdicts["ood_score"], verdicts["p_value"]))[:MOST_WORST]
    for place in order.tolist():
        yield WorstRow(first_row + place, {name: values[place] for name, values in verdicts.items()})


def _badness(worst: WorstRow) -> tuple[float, float, int]:
    """Smallest for the worst row: by its p-value, then by U, then by its place."""
    return float(worst.verdict["p_value"]), -np.nan_to_num(float(worst.verdict["ood_score"])), worst.row


def verdicts_section(verdicts: Verdicts | None, name: str, rate: float) -> Markup:
    """What the detector says of the given table."""
    heading = "The table's verdicts"
    if verdicts is None:
        return section("verdicts", heading, paragraphs("No table was given: this page is about the model alone."))
    plural = "s" * (verdicts.bin_rows > 1)
    return section(
        "verdicts",
        heading,
        paragraphs(
            f"{verdicts.flagged:,} of the {verdicts.rows:,} rows of {name} are flagged: "
            f"{percent(verdicts.flagged / verdicts.rows)}. If all of them were ordinary, at most about "
            f"{rate * verdicts.rows:,.0f} should be."
        ),
        figures(
            figure(
                "Share flagged over row order",
                _shares(verdicts, rate),
                f"Each bar is {verdicts.bin_rows:,} row{plural}. The dashed line is the false-alarm rate: where bars "
                "stay above it, that part of the table differs from the training rows.",
                wide=True,
            )
        ),
        element("h3", f"The worst {len(verdicts.worst)} rows"),
        paragraphs("Smallest p-value first, and of equal ones the largest U. The table's first row is row 1."),
        _worst_rows(verdicts.worst),
    )


def _shares(verdicts: Verdicts, rate: float) -> Markup:
    """A bar for each bin of rows."""
    counts = verdicts.flagged_by_bin
    edges = np.minimum(np.arange(len(counts) + 1) * verdicts.bin_rows, verdicts.rows)
    shares = counts / np.diff(edges)
    top = min(1.0, max(1.1 * float(shares.max()), 2 * rate))
    chart = Chart(
        Axis("row", 0.0, float(verdicts.rows)), Axis("flagged", 0.0, top, percent=True), width=920, height=240
    )
    titles = [
        f"rows {first + 1:,} to {last:,}: {count:,} flagged"
        for first, last, count in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    ]
    return drawing(
        chart,
        "Share of flagged rows over row order",
        bars(chart, edges.astype(np.float64), shares, titles, "nu"),
        line(chart, chart.x.ends, np.full(2, rate), "guide", f"false-alarm rate {percent(rate)}"),
    )


def _worst_rows(worst: Sequence[WorstRow]) -> Markup:
    std = f"{PLUS_MINUS}\N{NO-BREAK SPACE}std"
    names = ["row", "prediction", std, "U", "p disagreement", "p novelty", "p", "reason"]
    values = ("prediction", "std_total", "ood_score", "p_disagreement", "p_novelty", "p_value")
    rows = [
        (f"{row:,}", *(number(verdict[value]) for value in values), verdict["reason"] or "not flagged")
        for row, verdict in worst
    ]
    return table(names, rows, names[:-1])
