"""A table with numbers, truths, text, dates, holes and columns to leave out, and short ways to ask about columns."""

from typing import Any

import numpy as np
import pyarrow as pa

from offmap.table import Schema, evidence, learn_schema

N = 200
RANDOM = np.random.default_rng(0)
COLOURS = ["red", "green", "blue", "teal"]
TABLE = pa.table(
    {
        "age": RANDOM.integers(18, 92, N),
        "bmi": pa.array(np.where(RANDOM.random(N) < 0.2, np.nan, RANDOM.normal(25, 4, N)), from_pandas=True),
        "smoker": RANDOM.random(N) < 0.3,
        "colour": [COLOURS[choice] for choice in RANDOM.choice(4, N, p=[0.5, 0.3, 0.19, 0.01])],
        "visit": pa.array(RANDOM.integers(18_000, 19_000, N).astype(np.int32), pa.date32()),
        "name": [f"person {row}" for row in range(N)],
        "country": ["FR"] * N,
        "empty": pa.nulls(N, pa.float64()),
    }
)
SCHEMA = learn_schema(TABLE)


def one(values: Any, name: str = "x", **others: Any) -> Schema:
    """The schema of a table of this column, and of one more that can always be learned from."""
    return learn_schema(pa.table({name: values, "other": [0.5, *range(1, len(values))], **others}))


def kept(values: Any, name: str = "x") -> Any:
    return next(column for column in one(values, name).columns if column.name == name)


def why_left_out(values: Any, name: str = "x") -> str:
    return dict(one(values, name).left_out)[name]


def phrases(schema: Schema, frame: Any) -> list[list[str]]:
    return [[item.text for item in row] for row in evidence(schema, frame)]
