"""Clocks and yardsticks."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

MATMUL_SIZE = 2000


def median_seconds(work: Callable[[], Any], repeats: int) -> float:
    """The median time of `work`, after one call that is not counted (it compiles)."""
    jax.block_until_ready(work())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def matmul_rate() -> float:
    """What the machine can do: floating-point operations a second of a large float32 matrix product."""
    matrix = jax.random.normal(jax.random.key(0), (MATMUL_SIZE, MATMUL_SIZE))
    product = jax.jit(jnp.matmul)
    return 2 * MATMUL_SIZE**3 / median_seconds(lambda: product(matrix, matrix), 9)
