"""How much memory there is, as the system tells it."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from offmap import memory, optimize
from offmap.arrays import Data
from offmap.inference import METHODS
from offmap.inputs import UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.prior import GaussianPrior


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


@pytest.mark.parametrize("name", ["mfvi", "funn-mfvi", "nn-hyvi", "funn-hyvi"])
def test_the_estimate_is_within_a_factor_of_two_of_what_the_compiler_sets_aside(name: str) -> None:
    method: Any = METHODS[name]
    network = Network(n_inputs=10, hidden=(300, 300))
    X = jnp.zeros((100, 10))
    model = Model(
        network=network, prior=GaussianPrior(), noise_std=jnp.float32(0.3), inputs=UniformBox(X[0] - 1, X[0] + 1)
    )
    family = method.family.initial(jax.random.key(0), network)
    loop = optimize._start(method.training, False, len(X), jax.random.key(0), family)
    program = optimize._run.lower(method, False, model, Data(X=X, y=X[:, 0]), loop, jnp.int32(2)).compile()
    sizes: Any = program.memory_analysis()
    held = sizes.temp_size_in_bytes + sizes.argument_size_in_bytes + sizes.output_size_in_bytes
    estimate = memory.FLOAT_BYTES * method.networks_at_once * network.n_parameters
    assert 0.5 < held / estimate < 2
