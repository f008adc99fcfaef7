"""How much memory there is, as the system tells it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from offmap import memory
from offmap.inference import METHODS
from offmap.network import Network

PEAK = """
import resource, sys
import numpy as np
from dataclasses import replace
from offmap import METHODS, DiverseRegressor
from offmap.optimize import Cosine
method, width = METHODS["funn-hyvi"], int(sys.argv[1])
short = replace(method, training=replace(method.training, schedule=Cosine(steps=2)))
X = np.random.default_rng(0).normal(size=(100, 10))
DiverseRegressor(short, noise_std=0.3, hidden=(width, width), random_state=0).fit(X, X[:, 0])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_what_is_free_is_positive_and_at_most_what_the_machine_has() -> None:
    free = memory.free_bytes()
    assert free is not None
    total = re.search(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())
    assert total is not None
    assert 0 < free <= 1024 * int(total[1])


def test_a_containers_limit_counts_where_it_is_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_available", lambda: 1000)
    monkeypatch.setattr(memory, "_allowed", lambda: 600)
    assert memory.free_bytes() == 600
    monkeypatch.setattr(memory, "_allowed", lambda: None)
    assert memory.free_bytes() == 1000
    monkeypatch.setattr(memory, "_available", lambda: None)
    assert memory.free_bytes() is None


@pytest.mark.slow
def test_the_estimate_is_within_a_factor_of_two_of_what_a_fit_holds() -> None:
    """By the system's own count: what a wide network needs beyond a narrow one."""

    def peak(width: int) -> int:
        done = subprocess.run([sys.executable, "-c", PEAK, str(width)], check=True, capture_output=True, text=True)
        return 1024 * int(done.stdout)

    held = peak(500) - peak(10)
    networks = [Network(n_inputs=10, hidden=(width, width)).n_parameters for width in (500, 10)]
    estimate = memory.FLOAT_BYTES * METHODS["funn-hyvi"].networks_at_once * (networks[0] - networks[1])
    assert 0.5 < held / estimate < 2
