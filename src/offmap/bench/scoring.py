"""Scoring: rows a second for 1,000 predictors, the share of the machine's rate, and memory that does not grow."""

import subprocess
import sys
from collections.abc import Iterator

import jax
import numpy as np

from offmap.bench.figure import Figure
from offmap.bench.timing import matmul_rate, median_seconds
from offmap.network import Network
from offmap.predictive import in_chunks, moments

COLUMNS, HIDDEN, DRAWS = 13, 50, 1000
PEAK = """
import resource, sys
import jax, numpy as np
from offmap.network import Network
from offmap.predictive import in_chunks, moments
rows, network = int(sys.argv[1]), Network(n_inputs=13)
thetas = jax.random.normal(jax.random.key(0), (1000, network.n_parameters))
piece = np.ones((100_000, 13), np.float32)
for _ in range(rows // len(piece)):
    in_chunks(network, thetas, piece, moments)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def measure(quick: bool) -> Iterator[Figure]:
    """The figures of scoring."""
    network, rows = Network(n_inputs=COLUMNS, hidden=(HIDDEN,)), 20_000 if quick else 100_000
    thetas = jax.random.normal(jax.random.key(0), (DRAWS, network.n_parameters))
    X = np.random.default_rng(0).normal(size=(rows, COLUMNS)).astype(np.float32)
    seconds, rate = median_seconds(lambda: in_chunks(network, thetas, X, moments), 3), matmul_rate()
    achieved = 2 * rows * DRAWS * HIDDEN * (COLUMNS + 1) / seconds
    yield Figure("rows scored by 1,000 predictors", rows / seconds, "rows/s", seconds)
    yield Figure("scoring's share of the matrix-multiply rate", achieved / rate, "share", achieved, rate, ">= 0.35")
    few, many = 100_000, 1_000_000 if quick else 10_000_000
    small, large = (_peak_memory(n) for n in (few, many))
    yield Figure(f"peak memory, {many:,} rows / {few:,} rows", large / small, "times", large, small, "<= 1.2")


def _peak_memory(rows: int) -> float:
    """Peak resident memory, in MB, of a process that scores that many rows piece by piece."""
    done = subprocess.run([sys.executable, "-c", PEAK, str(rows)], check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024
