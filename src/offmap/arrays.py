"""Array aliases and the containers for training rows: the vocabulary of every other file."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

__all__ = ["Array", "Batch", "Bool", "Data", "Float", "Int", "Key"]

Key = PRNGKeyArray


class Data(NamedTuple):
    """Training rows in standardised units: inputs `X` and target `y`."""

    X: Float[Array, "n d"]
    y: Float[Array, " n"]


class Batch(NamedTuple):
    """Rows of one gradient step. `weight` is 1 for a row and 0 for padding, so every batch has one shape."""

    X: Float[Array, "b d"]
    y: Float[Array, " b"]
    weight: Float[Array, " b"]
