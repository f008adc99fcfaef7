"""Which columns make a row strange, in numbers: what changes when a value is exchanged for a usual one."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from offmap.artifact import storable
from offmap.novelty import Reference, place

N_ALIKE = 8
MOST_ROWS, MOST_ASKED = 1000, 200  # training rows to exchange values with, and to learn from what is usual
AT_ONCE = 4_000_000  # floats held at once
LEAST_USUAL = 0.01  # squared standard deviations: a column that others decide, to rounding, differs by nothing at all

Points = Float[np.ndarray, "n d"]
ByColumn = Float[np.ndarray, "n c"]
Alike = Int[np.ndarray, "n c k"]
Score = Callable[[Points], Float[np.ndarray, " n"]]


@storable
class Background(NamedTuple):
    """Training rows to exchange values with: their `features`, and as `points` in the space of distances.

    usual: by column, how far an ordinary row is from those that are alike in all other columns, squared.
    """

    features: Float[np.ndarray, "m d"]
    points: Float[np.ndarray, "m d"]
    usual: Float[np.ndarray, " c"]


def learn_background(reference: Reference, features: Points, groups: Sequence[slice]) -> Background:
    """At most 1,000 of the training rows, evenly spread over the table, and what is usual among them."""
    features = features[:: -(-len(features) // MOST_ROWS)]
    points = place(reference, features)
    asked = points[:: -(-len(points) // MOST_ASKED)]
    k = min(N_ALIKE + 1, len(points))
    parts = _gaps(asked, points, alike_elsewhere(asked, points, groups, k), groups).mean(axis=0)
    # Each asked row is the one most alike to itself, at no distance: the mean is over the others.
    return Background(features=features, points=points, usual=np.maximum(parts * k / max(k - 1, 1), LEAST_USUAL))


def alike_elsewhere(points: Points, rows: Points, groups: Sequence[slice], k: int = N_ALIKE) -> Alike:
    """For each point and column, the `k` rows that are nearest by all the other columns."""
    k, found = min(k, len(rows)), []
    starts = [group.start for group in groups if group.stop > group.start]
    filled = [column for column, group in enumerate(groups) if group.stop > group.start]
    for point in points:
        apart = np.zeros((len(rows), len(groups)))
        apart[:, filled] = np.add.reduceat((rows - point) ** 2, starts, axis=1)
        elsewhere = apart.sum(axis=1, keepdims=True) - apart
        found.append(np.argpartition(elsewhere, k - 1, axis=0)[:k].T)
    return np.array(found, dtype=int).reshape(len(points), len(groups), k)


def distance_effects(
    background: Background, points: Points, alike: Alike, groups: Sequence[slice], beyond: ByColumn
) -> ByColumn:
    """How much further than usual a row is, by each column, from rows that are alike in all the other columns.

        effect_c = mean over them of (x_c - r_c)^2 / usual_c - 1

    That is what the squared distance to such a row loses when the value is exchanged for that row's. `beyond` is added
    to the squared distance where a value was never seen. Two columns that are strange only together both have it.
    """
    return (_gaps(points, background.points, alike, groups) + beyond) / background.usual - 1


def _gaps(points: Points, rows: Points, alike: Alike, groups: Sequence[slice]) -> ByColumn:
    by_column = [
        np.mean(np.sum((points[:, None, group] - rows[alike[:, column], group]) ** 2, axis=2), axis=1)
        for column, group in enumerate(groups)
    ]
    return np.stack(by_column, axis=1)


def exchange_effects(
    score: Score, background: Background, features: Points, alike: Alike, groups: Sequence[slice]
) -> ByColumn:
    """How much a column matters to a row's score, asked from both sides and averaged.

    How far the score falls when the column's value is exchanged for that of a training row which is alike in all other
    columns, and how far that row's score rises when it is given the value. The first alone is blind where two columns
    are far out and either is enough; the second alone, where a value is strange only beside the row's others.
    """
    k, usual_scores = alike.shape[2], score(background.features)
    size = max(1, AT_ONCE // (2 * len(groups) * k * features.shape[1]))
    parts = []
    for first in range(0, len(features), size):
        rows, usual = features[first : first + size], background.features[alike[first : first + size]]
        without, with_it = np.broadcast_to(rows[:, None, None], usual.shape).copy(), usual.copy()
        for column, group in enumerate(groups):
            without[:, column, :, group] = usual[:, column, :, group]
            with_it[:, column, :, group] = rows[:, None, group]
        falls = _scored(score, rows)[:, None] - _scored(score, without).mean(axis=2)
        rises = np.mean(_scored(score, with_it) - usual_scores[alike[first : first + size]], axis=2)
        parts.append((falls + rises) / 2)
    return np.concatenate(parts)


def _scored(score: Score, rows: Float[np.ndarray, "*axes d"]) -> Float[np.ndarray, "*axes"]:
    """The score of each of the rows, whatever the axes they lie along."""
    return score(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape[:-1])


def shares(effects: ByColumn) -> ByColumn:
    """Positive effects as parts of their sum; equal parts where there is none.

    >>> shares(np.array([[3.0, -2.0, 1.0], [-1.0, -1.0, 0.0]])).round(2)
    array([[0.75, 0.  , 0.25],
           [0.33, 0.33, 0.33]])
    """
    positive = np.maximum(effects, 0)
    positive = np.where(positive.sum(axis=1, keepdims=True) > 0, positive, 1.0)
    return positive / positive.sum(axis=1, keepdims=True)
