"""The cache folder, and that what one process compiled the next one need not."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from offmap import cache
from offmap.cache import cache_folder, make_room_for_programs

FIT = """
import jax, numpy as np
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if name.endswith("cache_hits") else None)
from dataclasses import replace
from offmap import METHODS, DiverseRegressor
from offmap.schedules import Constant
method = METHODS["mfvi"]
method = replace(method, training=replace(method.training, schedule=Constant(epochs=2)))
X = np.arange(20.0)[:, None]
model = DiverseRegressor(method, noise_std=1.0, random_state=0).fit(X, X[:, 0])
print(len(hits), float(model.predict(X)[0]))
"""


def test_folder_is_the_users_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OFFMAP_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("OFFMAP_CACHE", "off")
    assert cache_folder() is None
    monkeypatch.delenv("OFFMAP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "offmap"


def test_a_second_process_finds_what_the_first_compiled(tmp_path: Path) -> None:
    environment = os.environ | {"OFFMAP_CACHE": str(tmp_path), "OFFMAP_KERNELS": "off"}

    def run() -> list[str]:
        return subprocess.run(
            [sys.executable, "-c", FIT], env=environment, check=True, capture_output=True, text=True
        ).stdout.split()

    first, second = run(), run()
    assert int(first[0]) == 0
    assert int(second[0]) > 0
    assert first[1] == second[1]


@pytest.mark.skipif(not cache.PROCESS_MAPS.exists(), reason="only Linux counts a process's pieces of memory")
def test_programs_are_forgotten_before_they_fill_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def pieces() -> int:
        return cache.PROCESS_MAPS.read_bytes().count(b"\n")

    @jax.jit
    def program(x: jax.Array) -> jax.Array:
        return jnp.tanh(x) @ x

    before = pieces()
    for n in range(1, 30):
        program(jnp.ones(n))
    filled = pieces()
    assert filled > before
    make_room_for_programs()
    assert pieces() == filled, "there is room enough"
    monkeypatch.setattr(cache, "MOST_MAPS", tmp_path / "limit")
    cache.MOST_MAPS.write_text(f"{2 * before}\n", encoding="ascii")
    make_room_for_programs()
    assert pieces() < (before + filled) / 2
    assert program(jnp.ones(3)) == pytest.approx(3 * jnp.tanh(1.0)), "what was forgotten is compiled again"
