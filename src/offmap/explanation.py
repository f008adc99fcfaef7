"""Why a row is strange: each column's part in it, the nearest training rows, and what to say."""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from offmap.attribution import Background, ByColumn, alike_elsewhere, distance_effects, exchange_effects, shares
from offmap.encoding import Rows, cell_texts, column_groups, evidence_in, never_varied, seen_by_fold, take
from offmap.folds import Fold
from offmap.novelty import place, unknown_parts
from offmap.ood import PValues
from offmap.phrases import Findings, Share, ranked
from offmap.predictive import epistemic_uncertainty
from offmap.table import Column, Evidence

__all__ = ["KINDS", "Explanation", "Share", "column_parts", "explained", "findings", "which_spoke"]

KINDS = ("disagreement", "novelty")
AT_ONCE = 500  # rows: bounds the memory
N_DRAWS = 200  # of all folds together: enough to see which columns matter
LEAST_UNCERTAINTY = -100.0  # nats: a finite floor for differences of U, below any spread that float32 can hold


class Explanation(NamedTuple):
    """Why a row is strange, or what is least usual about it if it is not.

    sentence: in words. spoke: which of "disagreement" and "novelty" raised the alarm; empty for a row not flagged.
    shares: every column's part, the largest first. neighbours: the nearest training rows, as places in the training
    table, nearest first. evidence: what training never showed.
    """

    sentence: str
    spoke: tuple[str, ...]
    shares: tuple[Share, ...]
    neighbours: tuple[int, ...]
    evidence: tuple[Evidence, ...]


def which_spoke(p_values: PValues, evidence: str, rate: float) -> Bool[np.ndarray, "n 2"]:
    """Which of `KINDS` raised the alarm: those with a p-value within the rate, or else the one with the smaller."""
    flagged = getattr(p_values, evidence) <= rate
    each = np.column_stack([p_values.disagreement, p_values.novelty])
    each = np.where([evidence in ("both", kind) for kind in KINDS], each, np.inf)
    return np.asarray(flagged[:, None] & (each <= np.maximum(each.min(axis=1), rate)[:, None]))


def findings(
    folds: Sequence[Fold],
    background: Background,
    columns: Sequence[Column],
    rows: Rows,
    spoke: Bool[np.ndarray, "n 2"],
) -> Iterator[Findings]:
    """What there is to say about each of the rows. A row's answer does not depend on the rows around it."""
    names = [column.name for column in columns]
    for first in range(0, len(spoke), AT_ONCE):
        chosen = np.arange(first, min(first + AT_ONCE, len(spoke)))
        some, kinds = take(rows, chosen), spoke[chosen]
        parts, evidence = column_parts(folds, background, columns, some, kinds), evidence_in(columns, some)
        for row in range(len(chosen)):
            yield Findings(
                shares=ranked(names, parts[row]),
                spoke=tuple(kind for kind, said in zip(KINDS, kinds[row], strict=True) if said),
                evidence=tuple(evidence[row]),
                values=cell_texts(columns, some.features[row]),
            )


def column_parts(
    folds: Sequence[Fold],
    background: Background,
    columns: Sequence[Column],
    rows: Rows,
    spoke: Bool[np.ndarray, "n 2"],
) -> ByColumn:
    """By column, the part in a row's disagreement or novelty, whichever spoke; the mean of the two where both did.

    Where neither did, novelty is asked, which every detector has.
    """
    spoke = np.where(spoke.any(axis=1, keepdims=True), spoke, [False, True])
    groups, reference = column_groups(columns), folds[0].reference
    features, unknown = seen_by_fold(columns, rows, never_varied(columns))
    points = place(reference, features)
    alike = alike_elsewhere(points, background.points, groups)
    parts = np.zeros((2, len(points), len(groups)))
    disagree, far = spoke.T
    if disagree.any():
        score = functools.partial(_mean_uncertainty, folds)
        parts[0, disagree] = shares(exchange_effects(score, background, features[disagree], alike[disagree], groups))
    beyond = unknown_parts(reference, features[far], unknown[far])
    parts[1, far] = shares(distance_effects(background, points[far], alike[far], groups, beyond))
    return np.asarray(parts.sum(axis=0) / spoke.sum(axis=1, keepdims=True))


def _mean_uncertainty(folds: Sequence[Fold], features: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """U, averaged over the folds."""
    each = max(2, N_DRAWS // len(folds))
    scores = [epistemic_uncertainty(fold.regressor._moments(features, each)[1]) for fold in folds]
    return np.maximum(scores, LEAST_UNCERTAINTY).mean(axis=0)


def explained(found: Findings, sentence: str, neighbours: Int[np.ndarray, " k"]) -> Explanation:
    """The findings about a row as the user gets them."""
    return Explanation(
        sentence=sentence,
        spoke=found.spoke,
        shares=found.shares,
        neighbours=tuple(neighbours.tolist()),
        evidence=found.evidence,
    )
