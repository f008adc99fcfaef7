"""The page's verdicts of tables of any length and kind: every row once, the worst first, in the memory of a batch."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offmap.report import verdicts
from offmap.report.verdicts import Bins, batches_of, verdicts_of
from offmap.table import as_table
from tests.small_models import tiny_detector


@given(n=st.integers(1, 5000), cuts=st.lists(st.integers(0, 5000), max_size=5))
def test_bins_count_every_row_once_in_any_chunks(n: int, cuts: list[int]) -> None:
    flagged, bins = np.random.default_rng(n).random(n) < 0.3, Bins()
    for chunk in np.split(flagged, sorted(min(cut, n) for cut in cuts)):
        bins.add(chunk)
    n_bins = -(-n // bins.width)
    assert n_bins <= 100
    assert bins.width == 1 or n_bins > 50
    starts = np.arange(0, n, bins.width)
    np.testing.assert_array_equal(bins.counts[:n_bins], np.add.reduceat(flagged.astype(int), starts))
    assert not bins.counts[n_bins:].any()


class Oracle:
    """A detector whose verdicts depend on the row's number alone."""

    def verdicts(self, X: np.ndarray) -> dict[str, np.ndarray]:
        """p-values with many ties."""
        row = X[:, 0].astype(np.int64)
        p_value = ((row * 7919) % 1009 // 3 + 1) / 400
        score = ((row * 104729) % 100_003).astype(np.float64)
        zeros = dict.fromkeys(("prediction", "std_epistemic", "std_total", "p_disagreement", "p_novelty"), 0.0 * score)
        reason = np.where(p_value <= 0.05, "odd", "").astype(object)
        return {**zeros, "ood_score": score, "p_value": p_value, "is_ood": p_value <= 0.05, "reason": reason}


@pytest.mark.parametrize("n", [1, 19, 20, 101, 40_000])
def test_worst_rows_are_those_of_a_full_sort(n: int) -> None:
    X = np.arange(n, dtype=np.float64)[:, None]
    whole = Oracle().verdicts(X)
    order = sorted(range(n), key=lambda row: (whole["p_value"][row], -whole["ood_score"][row], row))[:20]
    found = verdicts_of(Oracle(), X)
    assert [worst.row - 1 for worst in found.worst] == order
    assert [worst.verdict["reason"] for worst in found.worst] == [whole["reason"][row] for row in order]
    assert (found.rows, found.flagged) == (n, whole["is_ood"].sum())


def test_a_million_rows_take_the_memory_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(detector: Any, path: Path, what: str, size: int) -> Iterator[tuple[None, np.ndarray]]:
        return ((None, np.arange(first, first + size, dtype=float)[:, None]) for first in range(0, 64 * size, size))

    monkeypatch.setattr(verdicts, "batches_with_inputs", stream)
    tracemalloc.start()
    found = verdicts_of(Oracle(), Path("endless.parquet"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.rows == 64 * verdicts.ROWS_AT_ONCE > 1_000_000
    assert peak < 5_000_000  # the verdicts of all rows are 80 MB


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars", "pyarrow", "csv"])
def test_batches_are_the_rows_in_order(kind: str, tmp_path: Path) -> None:
    table = pa.table({"a": np.arange(10.0), "b": np.arange(10.0) ** 2})
    pyarrow.csv.write_csv(table, tmp_path / "table.csv")
    given_as: dict[str, Any] = {
        "numpy": np.column_stack([table["a"], table["b"]]),
        "pandas": table.to_pandas(),
        "polars": pl.DataFrame(table.to_pydict()),
        "pyarrow": table,
        "csv": tmp_path / "table.csv",
    }
    named = tiny_detector(false_alarm_rate=0.2).fit(table, np.arange(10.0))
    batches = list(batches_of(named, given_as[kind], rows=4))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    if kind != "csv":
        assert {type(batch) for batch in batches} == {type(given_as[kind])}
    values = [np.asarray(batch if kind == "numpy" else _columns(batch), dtype=float) for batch in batches]
    np.testing.assert_array_equal(np.concatenate(values), given_as["numpy"])


def _columns(batch: Any) -> np.ndarray:
    return np.column_stack([column.to_numpy() for column in as_table(batch).columns])
