"""Each column's part in a score, where it is known in closed form."""

import functools

import numpy as np
import pytest

from offmap import attribution as module
from offmap.attribution import Background, alike_elsewhere, distance_effects, exchange_effects, learn_background, shares
from offmap.novelty import Reference, learn_reference, place

RNG = np.random.default_rng(0)
ROWS, NEW = RNG.normal(size=(300, 5)), 2 * RNG.normal(size=(20, 5))
GROUPS = [slice(0, 1), slice(1, 3), slice(3, 5)]  # the second and third column have two features each


@pytest.fixture(scope="module")
def reference() -> Reference:
    return learn_reference(ROWS, np.ones(5))


@pytest.fixture(scope="module")
def background(reference: Reference) -> Background:
    return learn_background(reference, ROWS, GROUPS)


def gap(first: np.ndarray, second: np.ndarray, group: slice) -> float:
    return float(np.sum((first[group] - second[group]) ** 2))


def test_rows_that_are_alike_elsewhere(background: Background, reference: Reference) -> None:
    points = place(reference, NEW)
    alike = alike_elsewhere(points, background.points, GROUPS, k=4)
    for point, places in zip(points, alike, strict=True):
        for column, chosen in enumerate(places):
            others = [group for group in GROUPS if group != GROUPS[column]]
            distances = [sum(gap(point, row, group) for group in others) for row in background.points]
            assert set(chosen) == set(np.argsort(distances)[:4])


def test_distance_effects_are_relative_to_what_is_usual(background: Background, reference: Reference) -> None:
    points = place(reference, NEW)
    alike = alike_elsewhere(points, background.points, GROUPS)
    beyond = np.zeros((len(NEW), 3))
    beyond[0, 1] = 40.0
    effects = distance_effects(background, points, alike, GROUPS, beyond)
    for row, point in enumerate(points):
        for column, group in enumerate(GROUPS):
            mean = np.mean([gap(point, background.points[place_], group) for place_ in alike[row, column]])
            expected = (mean + beyond[row, column]) / background.usual[column] - 1
            assert effects[row, column] == pytest.approx(expected)


def test_ordinary_rows_are_as_usual_on_average(background: Background, reference: Reference) -> None:
    fresh = place(reference, np.random.default_rng(1).normal(size=(400, 5)))
    alike = alike_elsewhere(fresh, background.points, GROUPS)
    effects = distance_effects(background, fresh, alike, GROUPS, np.zeros((400, 3)))
    # Both means are estimates: the usual one from 150 rows asked, each gap of two or one degrees of freedom.
    error = effects.std(axis=0) * np.sqrt(1 / 400 + 1 / 150)
    assert (np.abs(effects.mean(axis=0)) < 4 * error).all()


def test_a_sum_over_columns_is_taken_apart_exactly(background: Background, reference: Reference) -> None:
    """For a score that adds up over columns, both sides say the same: the column's value less that of the others."""

    def term(features: np.ndarray, column: int) -> np.ndarray:
        return np.sum(np.sin(features[..., GROUPS[column]]) + features[..., GROUPS[column]] ** 2, axis=-1) * (
            column + 1
        )

    alike = alike_elsewhere(place(reference, NEW), background.points, GROUPS)
    terms = [functools.partial(term, column=column) for column in range(3)]
    effects = exchange_effects(
        lambda features: np.sum([one(features) for one in terms], axis=0), background, NEW, alike, GROUPS
    )
    for column in range(3):
        others = term(background.features[alike[:, column]], column).mean(axis=1)
        np.testing.assert_allclose(effects[:, column], term(NEW, column) - others)


def test_two_columns_that_matter_only_together_have_the_same_effect() -> None:
    """A product of two columns is symmetric in them, and so is what they account for; a third has no part."""
    rows = np.concatenate([np.zeros((1, 3)), 9 + RNG.normal(size=(50, 3))])
    background = Background(features=rows, points=rows, usual=np.ones(3))
    alike = np.zeros((1, 3, 1), int)  # the row at 0
    groups = [slice(0, 1), slice(1, 2), slice(2, 3)]
    effects = exchange_effects(
        lambda features: features[:, 0] * features[:, 1], background, np.array([[3.0, 4.0, 5.0]]), alike, groups
    )
    np.testing.assert_allclose(effects, [[6.0, 6.0, 0.0]])  # falls by 12, and rises by nothing


def test_two_columns_of_which_one_is_enough_have_a_part_each() -> None:
    rows = np.zeros((10, 3))
    background = Background(features=rows, points=rows, usual=np.ones(3))
    groups = [slice(0, 1), slice(1, 2), slice(2, 3)]
    effects = exchange_effects(
        lambda features: features.max(axis=1), background, np.array([[3.0, 3.0, 0.0]]), np.zeros((1, 3, 2), int), groups
    )
    np.testing.assert_allclose(effects, [[1.5, 1.5, 0.0]])  # falls by nothing, and rises by 3


def test_pieces_give_what_the_whole_gives(
    background: Background, reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike = alike_elsewhere(place(reference, NEW), background.points, GROUPS)
    whole = exchange_effects(lambda features: np.prod(features, axis=1), background, NEW, alike, GROUPS)
    monkeypatch.setattr(module, "AT_ONCE", 1)
    pieces = exchange_effects(lambda features: np.prod(features, axis=1), background, NEW, alike, GROUPS)
    np.testing.assert_array_equal(pieces, whole)


def test_the_background_is_spread_over_the_table(reference: Reference) -> None:
    many = np.column_stack([np.arange(2500.0), RNG.normal(size=(2500, 4))])
    background = learn_background(learn_reference(many, np.ones(5)), many, GROUPS)
    np.testing.assert_array_equal(background.features[:, 0], np.arange(0, 2500, 3))


def test_shares_are_parts_of_one() -> None:
    effects = RNG.normal(size=(30, 6))
    parts = shares(effects)
    np.testing.assert_allclose(parts.sum(axis=1), 1)
    assert (parts >= 0).all()
    assert (parts[effects < 0][parts[effects < 0] > 0] == 1 / 6).all()
    best = effects.argmax(axis=1)[effects.max(axis=1) > 0]
    np.testing.assert_array_equal(parts[effects.max(axis=1) > 0].argmax(axis=1), best)
