"""Starting: what a second process spends on compiling, and how long `offmap --help` and `import offmap` take."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from offmap.bench.figure import Figure

FIT = """
import jax, numpy as np
seconds = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, duration, **_: seconds.append(duration) if "backend_compile" in name else None
)
from offmap import DiverseRegressor
X = np.random.default_rng(0).normal(size=(455, 13))
DiverseRegressor(random_state=0).fit(X, X[:, 0])
print(sum(seconds))
"""


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def measure(quick: bool) -> Iterator[Figure]:
    """The figures of starting."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"OFFMAP_CACHE": cache}
        first, second = (
            float(
                subprocess.run(
                    [sys.executable, "-c", FIT], env=environment, check=True, capture_output=True, text=True
                ).stdout
            )
            for _ in range(2)
        )
    yield Figure("compiling in a second process's fit", second, "s", second, first, "<= 1")
    for name, command in (
        ("offmap --help", [sys.executable, "-m", "offmap", "--help"]),
        ("import offmap", [sys.executable, "-c", "import offmap"]),
    ):
        value = min(_seconds(command) for _ in range(3))
        yield Figure(name, value, "s", value, None, "<= 0.5")
