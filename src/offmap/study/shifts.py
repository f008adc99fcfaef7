"""Rules that hold a part of a table out, so that real rows count as off the map."""

from collections.abc import Callable, Sequence

import numpy as np

from offmap.datasets import DATASETS
from offmap.scaling import Scale

Rule = Callable[[np.ndarray, Sequence[str]], np.ndarray]  # rows and names of their columns -> which rows are held out

TOLERANCE = 1e-6  # a principal component is computed: rows that tie but for rounding must tie


def _first_component(X: np.ndarray) -> np.ndarray:
    """Where rows lie along the direction in which standardised inputs vary most. Its sign plays no part here."""
    rows = Scale.of(X).standardise(X).astype(np.float64)
    return np.asarray(np.round((rows @ np.linalg.eigh(rows.T @ rows)[1][:, -1]) / TOLERANCE) * TOLERANCE)


def outer_half(X: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Rows outside the quartiles of the first principal component: a model of the others must extrapolate."""
    along = _first_component(X)
    low, high = np.quantile(along, [0.25, 0.75])
    return (along < low) | (along > high)


def middle_half(X: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Rows within the quartiles of the first principal component: a model of the others must interpolate."""
    return ~outer_half(X, names)


def where(column: str, holds: Callable[[np.ndarray], np.ndarray]) -> Rule:
    """The rule that holds out the rows at which a column's values are such."""
    return lambda X, names: holds(X[:, list(names).index(column)])


def _hottest_fifth(temperature: np.ndarray) -> np.ndarray:
    return np.asarray(temperature > np.quantile(temperature, 0.8))


_OF_EVERY_TABLE: dict[str, Rule] = {"outer half": outer_half, "middle half": middle_half}
_OF_ITS_OWN: dict[str, dict[str, Rule]] = {
    "boston": {"RAD = 24": where("RAD", lambda index: index == 24)},
    "concrete": {"age > 28 days": where("age", lambda days: days > 28)},
    "yacht": {"Froude number > 0.375": where("froude_number", lambda number: number > 0.375)},
    "energy": {"height 7.0": where("overall_height", lambda height: height == 7.0)},
    "navalC": {"12 to 18 knots": where("v", lambda knots: (knots >= 12) & (knots <= 18))},
    "powerplant": {"hottest fifth": where("AT", _hottest_fifth)},
}
SHIFTS: dict[str, dict[str, Rule]] = {name: _OF_EVERY_TABLE | _OF_ITS_OWN.get(name, {}) for name in DATASETS}
