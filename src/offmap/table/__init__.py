"""From a user's table to numbers: what its columns are, how they are encoded, and what in a row is strange."""

from offmap.table.category import CategoryColumn
from offmap.table.columns import Column, Evidence
from offmap.table.constant import ConstantColumn
from offmap.table.frames import as_table
from offmap.table.measured import BooleanColumn, DateColumn, NumericColumn
from offmap.table.schema import Schema, describe, encode, evidence, feature_columns, feature_names, learn_schema
from offmap.table.target import Target, target_of

__all__ = [
    "BooleanColumn",
    "CategoryColumn",
    "Column",
    "ConstantColumn",
    "DateColumn",
    "Evidence",
    "NumericColumn",
    "Schema",
    "Target",
    "as_table",
    "describe",
    "encode",
    "evidence",
    "feature_columns",
    "feature_names",
    "learn_schema",
    "target_of",
]
