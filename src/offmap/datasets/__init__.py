"""Data to try things on: the paper's wave, the tables of its study by key, and scikit-learn's diabetes."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.datasets import load_diabetes

from offmap.datasets.places import table_values
from offmap.datasets.registry import TABLES, DatasetError

__all__ = ["DATASETS", "Dataset", "DatasetError", "load_dataset", "wave"]

DATASETS = ("wave", *TABLES, "diabetes")


class Dataset(NamedTuple):
    """A table to learn from, in its own units, in the row order that the study's split starts from."""

    key: str
    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    feature_names: tuple[str, ...]
    target_name: str


def load_dataset(key: str, data_dir: str | Path | None = None) -> Dataset:
    """The dataset called `key`, one of `DATASETS`.

    The UCI tables come from the folder `data_dir`, else from the one in the environment's OFFMAP_DATA, else from the
    user's cache, else from their public homes. Whatever the way, they are the same numbers in the same order, or an
    error. `wave` and `diabetes` are always there.

    >>> load_dataset("diabetes").X.shape
    (442, 10)
    """
    if key == "wave":
        X, y = wave()
        return Dataset(key=key, X=X, y=y, feature_names=("x",), target_name="y")
    if key == "diabetes":
        table = load_diabetes(scaled=False)
        names = tuple(table.feature_names)
        return Dataset(key=key, X=table.data, y=table.target, feature_names=names, target_name="progression")
    if key not in TABLES:
        raise DatasetError(f"There is no dataset {key!r}. Choose one of: {', '.join(DATASETS)}.")
    values, columns = table_values(TABLES[key], data_dir), TABLES[key].columns
    X, y = values[:, :-1].copy(), values[:, -1].copy()
    return Dataset(key=key, X=X, y=y, feature_names=columns[:-1], target_name=columns[-1])


def wave(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The paper's synthetic table: 120 rows in two patches, y = cos(4 (x + 0.2)) + N(0, 0.1^2).

    x is uniform on [-1, -0.5] and [0.5, 1]; nothing is known between and beyond. The paper's nu is uniform on [-4, 2].
    """
    random = np.random.default_rng(seed)
    x = random.uniform(0.5, 1.0, 120) * random.choice([-1.0, 1.0], 120)
    return x[:, None], np.cos(4 * (x + 0.2)) + 0.1 * random.standard_normal(120)
