"""Novelty: how far a row's inputs are from every training row, whether or not that matters for the target."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from offmap.artifact import storable
from offmap.scaling import Scale

N_NEIGHBOURS = 5
# Training rows that new rows are compared with: more add little, and the time grows with them.
MOST_ROWS, MOST_FLOATS = 10_000, 20_000_000
AT_ONCE = 2_000_000  # floats of neighbours held at once
FEW_PAIRS = 2_000_000
USUAL = 0.99  # the share of training rows that are nearer to the others than one unknown cell counts


@storable
class Reference(NamedTuple):
    """Training rows in units of their spread, and what one unknown cell adds to a distance.

    The features of a column have `weight` each: those of a category share the weight of one column, so that a column of
    twenty categories does not drown the others.
    """

    scale: Scale
    weight: Float[np.ndarray, " d"]
    rows: Float[np.ndarray, "m d"]
    unknown: float


class Neighbours(NamedTuple):
    """The nearest reference rows, nearest first, and their distances."""

    places: Int[np.ndarray, "n k"]
    distances: Float[np.ndarray, "n k"]


def learn_reference(features: Float[np.ndarray, "m d"], weight: Float[np.ndarray, " d"]) -> Reference:
    """What new rows are compared with.

    A cell that holds what training never showed has no distance of its own: it is encoded as nothing at all. So that
    it counts, the row is moved away by the distance that 99% of training rows keep from the others.
    """
    scale = Scale.of(features)
    bare = Reference(scale=scale, weight=weight, rows=np.zeros((0, 0)), unknown=0.0)
    reference = bare._replace(rows=place(bare, features))
    among = nearest(reference, reference.rows, skip_self=True).distances.mean(axis=1)
    usual = float(np.quantile(among, USUAL))
    return reference._replace(unknown=usual if usual > 0 else 1.0)


def place(reference: Reference, features: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Where rows lie in the space of the reference: standardised, and weighted."""
    return np.asarray(reference.scale.standardise(features), np.float64) * reference.weight


def nearest(reference: Reference, points: Float[np.ndarray, "n d"], skip_self: bool = False) -> Neighbours:
    """The five nearest reference rows of points in their space. `skip_self`: the points are the reference rows."""
    k = min(N_NEIGHBOURS, len(reference.rows) - skip_self)
    places = (_few if len(points) * len(reference.rows) <= FEW_PAIRS else _many)(reference, points, k, skip_self)
    size = max(1, AT_ONCE // (k * points.shape[1]))
    parts = [_distances(reference, points[i : i + size], places[i : i + size]) for i in range(0, len(points), size)]
    distances = np.concatenate(parts)
    order = np.argsort(distances, axis=1, kind="stable")
    return Neighbours(*(np.take_along_axis(values, order, axis=1) for values in (places, distances)))


def _few(reference: Reference, points: Float[np.ndarray, "n d"], k: int, skip_self: bool) -> Int[np.ndarray, "n k"]:
    """The `k` nearest by all distances: for a few points, quicker than to wake all processors."""
    distances = cdist(points, reference.rows, "sqeuclidean")
    if skip_self:
        np.fill_diagonal(distances, np.inf)
    return np.argpartition(distances, k - 1, axis=1)[:, :k]


def _many(reference: Reference, points: Float[np.ndarray, "n d"], k: int, skip_self: bool) -> Int[np.ndarray, "n k"]:
    """The `k` nearest by products of matrices: quick, though close rows lose digits, so it tells no distances."""
    index = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(reference.rows)
    return np.asarray(index.kneighbors(None if skip_self else points, return_distance=False))


def _distances(
    reference: Reference, points: Float[np.ndarray, "n d"], places: Int[np.ndarray, "n k"]
) -> Float[np.ndarray, "n k"]:
    return np.sqrt(np.sum((points[:, None, :] - reference.rows[places]) ** 2, axis=-1))


def novelty(
    reference: Reference, features: Float[np.ndarray, "n d"], n_unknown: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """The mean distance to the five nearest training rows, and `reference.unknown` for each unknown cell.

    In standard deviations of the columns, all directions alike. Rounded to float32, so that the order in which numbers
    are summed does not decide between rows that are equally far.
    """
    distance = nearest(reference, place(reference, features)).distances.mean(axis=1)
    return np.asarray(distance + n_unknown * reference.unknown, np.float32)


def unknown_parts(
    reference: Reference, features: Float[np.ndarray, "n d"], unknown: Bool[np.ndarray, "n c"]
) -> Float[np.ndarray, "n c"]:
    """How much of the squared novelty each unknown cell accounts for: what it would lose if the cell were known.

        (D + m u)^2 - (D + (m - 1) u)^2 = u (2 D + (2 m - 1) u)

    `D` is the row's distance, `m` the number of its unknown cells, and `u` what each of them adds.
    """
    parts, rows = np.zeros(unknown.shape), unknown.any(axis=1)
    if rows.any():
        some, each = unknown[rows], reference.unknown
        n_unknown = some.sum(axis=1)
        distance = novelty(reference, features[rows], np.zeros_like(n_unknown))
        parts[rows] = some * (each * (2 * distance + (2 * n_unknown - 1) * each))[:, None]
    return parts
