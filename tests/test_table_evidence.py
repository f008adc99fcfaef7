"""What is strange about a cell is said, and is never a crash."""

import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa

from offmap.table import (
    encode,
    evidence,
)
from tests.mixed_table import SCHEMA, TABLE, one, phrases


def test_what_is_strange_is_said() -> None:
    new = TABLE.slice(0, 6).to_pylist()
    new[1] |= {"age": 97, "colour": "mauve"}
    new[2] |= {"age": None, "bmi": None, "smoker": None, "colour": None, "visit": None}
    new[3] |= {"bmi": math.inf, "visit": datetime.date(2031, 5, 1)}
    new[4] |= {"bmi": 1.0, "colour": "teal", "country": "DE"}
    low, high = min(TABLE["age"].to_pylist()), max(TABLE["age"].to_pylist())
    first, last = min(TABLE["visit"].to_pylist()), max(TABLE["visit"].to_pylist())
    bmi = [value for value in TABLE["bmi"].to_pylist() if value]
    said = phrases(SCHEMA, pa.Table.from_pylist(new))
    never = "is missing, which it never was in training"
    assert said[0] == said[5] == []
    assert said[1] == [
        f"age 97 is beyond the training range {low} to {high}",
        "colour 'mauve' was never seen in training",
    ]
    assert said[2] == [f"age {never}", f"smoker {never}", f"colour {never}", f"visit {never}"]
    assert said[3] == [
        "bmi 'inf' is too large to compute with",
        f"visit 2031-05-01 is beyond the training range {first} to {last}",
    ]
    assert said[4] == [
        f"bmi 1 is beyond the training range {min(bmi):.6g} to {max(bmi):.6g}",
        "country is 'DE', and was always 'FR' in training",
    ]
    kinds = [[(item.column, item.kind) for item in row] for row in evidence(SCHEMA, pa.Table.from_pylist(new))]
    assert kinds[1] == [("age", "range"), ("colour", "unseen")]
    assert kinds[2] == [(name, "missing") for name in ("age", "smoker", "colour", "visit")]
    assert kinds[3] == [("bmi", "unreadable"), ("visit", "range")]


def test_text_where_numbers_were_is_evidence_and_no_crash() -> None:
    new = pa.table({name: ["soon, perhaps", "1"] for name in TABLE.column_names})
    said = phrases(SCHEMA, new)
    assert said[0] == [
        "age 'soon, perhaps' is not a number",
        "bmi 'soon, perhaps' is not a number",
        "smoker 'soon, perhaps' was never seen in training",
        "colour 'soon, perhaps' was never seen in training",
        "visit 'soon, perhaps' is not a date (such as 2024-05-31)",
        "country is 'soon, perhaps', and was always 'FR' in training",
    ]
    encoded = encode(SCHEMA, new)
    age, bmi = (np.nanmedian(TABLE[name].to_numpy()) for name in ("age", "bmi"))
    np.testing.assert_array_equal(encoded[0, :4], [age, bmi, 1, 0])
    np.testing.assert_array_equal(encoded[0, 4:8], 0)
    assert encoded[1, 3] == 1


def test_any_type_in_any_column_is_no_crash() -> None:
    rows: list[Any] = [
        [1, 2],
        [1.5, None],
        [True, False],
        ["a", None],
        [b"a", b"\xff"],
        [[1], [2]],
        [{"a": 1}, None],
        [None, None],
        [datetime.date(2024, 1, 1), None],
        [datetime.timedelta(1), None],
        [datetime.time(1), None],
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([1, 2**63 - 1], pa.timestamp("s")),
    ]
    for values in rows:
        new = pa.table(dict.fromkeys(TABLE.column_names, pa.array(values)))
        assert np.isfinite(encode(SCHEMA, new)).all()
        assert len(evidence(SCHEMA, new)) == 2


def test_values_close_to_the_bounds_are_told_apart() -> None:
    schema = one([0.0, 1.0, 0.5])
    new = pa.table({"x": [1.0, 1 + 1e-8, -1e-300, 1 + 2e-16], "other": [1.0] * 4})
    said = phrases(schema, new)
    assert said[0] == []
    assert said[1] == ["x 1.00000001 is beyond the training range 0 to 1"]
    assert said[2] == ["x -1e-300 is beyond the training range 0 to 1"]
    assert said[3] == ["x 1.0000000000000002 is beyond the training range 0 to 1"]
    schema = one([100193.2941, 102244.8442, 101000.5])
    assert phrases(schema, pa.table({"x": [102244.8461], "other": [1]})) == [
        ["x 102244.846 is beyond the training range 100193 to 102244.844"]
    ]
    schema = one(["2024-05-01", "2024-05-02", "2024-05-02"])
    said = phrases(schema, pa.table({"x": ["2024-05-02 00:00:00.25", "2024-05-02 12:00"], "other": [1, 1]}))
    assert said[0] == ["x 2024-05-02 00:00:00.250000 is beyond the training range 2024-05-01 to 2024-05-02"]
    assert said[1] == ["x 2024-05-02 12:00:00 is beyond the training range 2024-05-01 to 2024-05-02"]


def test_the_word_that_training_never_had() -> None:
    said = phrases(one([True, None, True]), pa.table({"x": ["no", "yes", "maybe"], "other": [1, 1, 1]}))
    assert said == [["x is false, and was always true in training"], [], ["x 'maybe' was never seen in training"]]


def test_long_text_is_cut() -> None:
    schema = one(["a", "b"] * 5)
    (row,) = phrases(schema, pa.table({"x": ["line\n" + 500 * "z"], "other": [1]}))
    assert row == [f"x 'line\\n{'z' * 35}...' was never seen in training"]
