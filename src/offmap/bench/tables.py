"""The tables that the figures are measured on: boston's shape made up, and the real ones where they are."""

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp

from offmap.arrays import Data
from offmap.datasets import Dataset, load_dataset
from offmap.inputs import UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.prior import GaussianPrior
from offmap.scaling import Scale

ROWS, COLUMNS = 455, 13  # the training rows of boston
NOISE_STD = 0.3


def made_up(rows: int = ROWS, columns: int = COLUMNS, hidden: tuple[int, ...] = (50,)) -> tuple[Model, Data]:
    """A table of that size. The time of a step depends on the shapes alone, so its values may be made up."""
    x_key, noise_key = jax.random.split(jax.random.key(0))
    X = jax.random.normal(x_key, (rows, columns))
    y = jnp.tanh(X[:, 0] + X[:, 1] * X[:, 2]) + NOISE_STD * jax.random.normal(noise_key, (rows,))
    return _model(X, hidden, NOISE_STD), Data(X=X, y=y)


def real(keys: list[str], data_dir: Path | None) -> Iterator[Dataset]:
    """Those tables, where their folder was named: measuring is no reason to download anything."""
    if data_dir is not None or os.environ.get("OFFMAP_DATA"):
        yield from (load_dataset(key, data_dir) for key in keys)


def standardised(table: Dataset, noise_std: float) -> tuple[Model, Data]:
    """All rows of a table, and a model of them with that noise, in units of the standardised target."""
    X = jnp.asarray(Scale.of(table.X).standardise(table.X))
    return _model(X, (50,), noise_std), Data(X=X, y=jnp.asarray(Scale.of(table.y).standardise(table.y)))


def _model(X: jax.Array, hidden: tuple[int, ...], noise_std: float) -> Model:
    network = Network(n_inputs=X.shape[1], hidden=hidden)
    inputs = UniformBox.around(X)
    return Model(network=network, prior=GaussianPrior(), noise_std=jnp.float32(noise_std), inputs=inputs)
