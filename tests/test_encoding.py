"""Tables as folds see them: what a fold never saw says nothing, as if the fold's rows had been the whole table."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from offmap.encoding import (
    Lost,
    Rows,
    box_rows,
    cell_texts,
    column_groups,
    column_weights,
    encoded,
    evidence_in,
    is_mixed_frame,
    lost_values,
    never_varied,
    number_columns,
    seen_by_fold,
    take,
)
from offmap.table import encode, evidence, feature_names, learn_schema

TABLE = pa.table(
    {
        "kind": ["a", "b"] * 10 + ["rare1", "rare2", None, "a"],
        "size": [*map(float, range(21)), None, 3.0, 4.0],
        "flag": [True, False] * 12,
    }
)
SCHEMA = learn_schema(TABLE)
LEARNED, KEPT_BACK = np.arange(20), np.arange(20, 24)


@pytest.mark.parametrize(
    ("frame", "mixed"),
    [
        (np.ones((3, 2)), False),
        ([[1.0, 2.0]], False),
        (pd.DataFrame({"x": [1, 2]}), False),
        (pl.DataFrame({"x": [1.5, 2.0]}), False),
        (pd.DataFrame({"x": [1.0, np.nan]}), True),
        (pl.DataFrame({"x": [1, None]}), True),
        (pl.DataFrame({"x": [1.0, float("nan")]}), True),
        (pd.DataFrame({"x": ["1", "2"]}), True),
        (pd.DataFrame({"x": [True, False]}), True),
        (pd.DataFrame({"x": pd.to_datetime(["2020-01-01"])}), True),
        (pa.table({"x": [1.0]}), True),
        (pl.DataFrame({"x": [1]}).lazy(), False),  # refused elsewhere
    ],
    ids=str,
)
def test_which_frames_need_a_schema(frame: Any, mixed: bool) -> None:
    assert is_mixed_frame(frame) is mixed


def test_rows_of_the_box_hold_cells_that_a_row_may_hold() -> None:
    box = box_rows(SCHEMA.columns, 4000)
    kind, size, flag = (box[:, group] for group in column_groups(SCHEMA.columns))
    assert set(map(tuple, kind)) == set(map(tuple, np.eye(kind.shape[1])))
    np.testing.assert_allclose(kind.mean(axis=0), 1 / kind.shape[1], atol=0.03)
    assert 0 <= size[:, 0].min() < 0.1 < 19.9 < size[:, 0].max() <= 20
    assert not size[:, 1].any()  # never missing
    np.testing.assert_allclose([flag.mean(), flag.std()], 0.5, atol=0.03)


def test_the_box_of_numbers_is_the_papers() -> None:
    X = np.random.default_rng(1).normal(size=(50, 3)) * [1.0, 10.0, 0.1]
    expected = np.random.default_rng(0).uniform(X.min(axis=0), X.max(axis=0), (2000, 3))
    np.testing.assert_allclose(box_rows(number_columns(X, None)), expected, rtol=1e-12)


def test_what_cannot_be_read_is_unknown_though_holes_are_known() -> None:
    new = pa.table({"kind": ["a"] * 4, "size": ["1", None, "broken", "inf"], "flag": [True] * 4})
    unknown = seen_by_fold(SCHEMA.columns, encoded(SCHEMA, new), ()).unknown
    np.testing.assert_array_equal(unknown[:, 1], [False, False, True, True])


def test_what_cannot_be_read_is_known_where_training_had_such() -> None:
    odd = [*map(str, range(99)), "<5"]
    schema = learn_schema(pa.table({"size": odd}))
    rows = encoded(schema, pa.table({"size": ["1", None, "<9"]}))
    np.testing.assert_array_equal(seen_by_fold(schema.columns, rows, ()).unknown[:, 0], [False, False, False])
    lost = lost_values(schema.columns, encoded(schema, pa.table({"size": odd})), np.arange(90), np.arange(90, 100))
    assert lost == (Lost(0, (), missing=False, unreadable=True),)
    np.testing.assert_array_equal(seen_by_fold(schema.columns, rows, lost).unknown[:, 0], [False, False, True])


def test_another_value_in_a_column_that_never_varied_is_unknown_and_no_number() -> None:
    table = pa.table({"size": [1.0, 2.0, 3.0], "site": ["A"] * 3, "height": [1e-9] * 3})
    schema = learn_schema(table)
    columns = schema.columns
    rows = encoded(schema, pa.table({"size": [2.0, 2.0, 2.0], "site": ["A", "B", None], "height": [1e-9, 1e-9, 2e-9]}))
    assert rows.features.shape == (3, 1)
    assert lost_values(columns, encoded(schema, table), np.array([0, 1]), np.array([2])) == ()
    seen = seen_by_fold(columns, rows, ())
    np.testing.assert_array_equal(seen.unknown, [[0, 0, 0], [0, 1, 0], [0, 1, 1]])
    np.testing.assert_array_equal(column_weights(columns), [1.0])
    assert column_groups(columns) == [slice(0, 1), slice(1, 1), slice(1, 1)]
    assert box_rows(columns).shape == (2000, 1)
    assert cell_texts(columns, rows.features[0]) == {"size": "2", "site": "'A'", "height": "1e-09"}


def test_a_fold_that_saw_one_number_only_knows_no_other() -> None:
    """Exactly as the model would if no row at all had shown another: so a row kept back is judged as a new one is."""
    table = pa.table({"size": [1.0, 2.0, 3.0, 4.0], "flag": [0, 0, 0, 1], "dose": [5.0, None, 5.0, 7.0]})
    schema = learn_schema(table)
    lost = lost_values(schema.columns, encoded(schema, table), np.array([0, 1, 2]), np.array([3]))
    assert lost == (
        Lost(1, (), missing=False, only=0.0),
        Lost(2, (), missing=False, only=5.0),
    )
    seen = seen_by_fold(schema.columns, encoded(schema, table), lost)
    np.testing.assert_array_equal(seen.unknown, [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 1]])
    np.testing.assert_array_equal(seen.features[3], [4.0, 0.0, 5.0, 0.0])  # the usual values, none missing


def test_numbers_that_never_varied_are_unknown_when_they_do() -> None:
    features = np.array([[1.0, 1e-9, 0.0], [2.0, 1e-9, 0.0], [3.0, 1e-9, 4.0]])
    columns = number_columns(features, ["size", "height", "rain"])
    lost = lost_values(columns, Rows(features, None), np.array([0, 1]), np.array([2]))
    assert lost == (Lost(1, (), missing=False, only=1e-9), Lost(2, (), missing=False, only=0.0))
    assert never_varied(columns) == lost[:1]
    new = np.array([[5.0, 1e-9, 0.0], [1.0, 2e-9, 4.0]])
    seen = seen_by_fold(columns, Rows(new, None), lost)
    np.testing.assert_array_equal(seen.unknown, [[0, 0, 0], [0, 1, 1]])
    assert seen.features is new  # predictors that differ about a number which never varied may say so
    (_, found) = evidence_in(columns, Rows(new, None))
    assert [item.text for item in found] == ["height is 2e-09, and was always 1e-09 in training"]


def test_what_only_the_others_showed() -> None:
    assert lost_values(SCHEMA.columns, encoded(SCHEMA, TABLE), LEARNED, KEPT_BACK) == (
        Lost(column=0, values=("rare1", "rare2"), missing=True),
        Lost(column=1, values=(), missing=True),
    )
    assert lost_values(SCHEMA.columns, encoded(SCHEMA, TABLE), np.arange(24), KEPT_BACK) == ()


def test_a_fold_is_blind_to_what_a_schema_of_its_own_rows_would_not_know() -> None:
    new = pa.table(
        {
            "kind": ["a", "rare1", None, "new", "rare2", "b"],
            "size": [1.0, 2.0, None, 40.0, 5.0, None],
            "flag": [True, None, False, True, False, True],
        }
    )
    rows = encoded(SCHEMA, new)
    features, unknown = seen_by_fold(
        SCHEMA.columns, rows, lost_values(SCHEMA.columns, encoded(SCHEMA, TABLE), LEARNED, KEPT_BACK)
    )
    own = learn_schema(TABLE.slice(0, 20))
    kinds = [{item.column for item in found if item.kind != "range"} for found in evidence(own, new)]
    assert [{SCHEMA.columns[c].name for c in np.flatnonzero(row)} for row in unknown] == kinds
    # In what both schemas encode, the numbers are the same; a feature that the fold's own has not got is always 0.
    by_own = dict(zip(feature_names(own), encode(own, new).T, strict=True))
    missing_size = np.array([False, False, True, False, False, True])
    for name, values in zip(feature_names(SCHEMA), features.T, strict=True):
        if name == "size":  # filled with the median of the whole table
            np.testing.assert_array_equal(values[~missing_size], by_own[name][~missing_size])
            np.testing.assert_array_equal(values[missing_size], np.median(TABLE["size"].drop_null().to_numpy()))
        else:
            np.testing.assert_array_equal(values, by_own.get(name, np.zeros(6)), err_msg=name)


def test_a_fold_that_saw_everything_sees_the_encoding() -> None:
    rows = encoded(SCHEMA, TABLE)
    features, unknown = seen_by_fold(SCHEMA.columns, rows, ())
    np.testing.assert_array_equal(features, encode(SCHEMA, TABLE))
    assert not unknown.any()


def test_numbers_are_seen_as_they_are() -> None:
    features = np.array([[1.0, 5.0], [2.0, 7.0]])
    columns = number_columns(features, ["age", "dose"])
    assert [(column.name, column.low, column.high) for column in columns] == [("age", 1.0, 2.0), ("dose", 5.0, 7.0)]  # type: ignore[attr-defined]
    seen = seen_by_fold(columns, Rows(features, None), ())
    assert seen.features is features
    assert not seen.unknown.any()
    (found, nothing) = evidence_in(columns, Rows(np.array([[3.0, 6.0], [1.5, 5.0]]), None))
    assert [item.text for item in found] == ["age 3 is beyond the training range 1 to 2"]
    assert nothing == []
    assert [column.name for column in number_columns(features, None)] == ["x0", "x1"]


def test_features_of_a_category_share_the_weight_of_one_column() -> None:
    weights = column_weights(SCHEMA.columns)
    kind, size, flag = column_groups(SCHEMA.columns)
    assert kind.stop - kind.start == 4  # a, b, other, missing
    assert np.sum(weights[kind] ** 2) == pytest.approx(1)
    np.testing.assert_array_equal(weights[size], [1, 1])
    np.testing.assert_array_equal(weights[flag], [1])


def test_values_as_a_person_writes_them() -> None:
    rows = encoded(SCHEMA, TABLE)
    shown = [cell_texts(SCHEMA.columns, rows.features[row]) for row in (0, 20, 21, 22)]
    assert shown == [
        {"kind": "a", "size": "0", "flag": "true"},
        {"kind": "other", "size": "20", "flag": "true"},
        {"kind": "other", "size": "missing", "flag": "false"},
        {"kind": "missing", "size": "3", "flag": "true"},
    ]
    unseen = encoded(SCHEMA, pa.table({"kind": ["new"], "size": [1.0], "flag": [True]}))
    assert cell_texts(SCHEMA.columns, unseen.features[0])["kind"] == "(never seen)"


def test_some_of_the_rows() -> None:
    rows = encoded(SCHEMA, TABLE)
    some = take(rows, np.array([22, 3]))
    assert some.table is not None
    assert some.table["kind"].to_pylist() == [None, "b"]
    np.testing.assert_array_equal(some.features, rows.features[[22, 3]])


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="columns, but no rows"):
        encoded(SCHEMA, TABLE.slice(0, 0))
