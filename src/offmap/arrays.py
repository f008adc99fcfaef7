"""Array aliases and the containers for training rows: the vocabulary of every other file."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import jax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

__all__ = ["Array", "Batch", "Bool", "Data", "Float", "Int", "Key", "default_promotion", "single_precision"]

Key = PRNGKeyArray


class Data(NamedTuple):
    """Training rows in standardised units: inputs `X` and target `y`."""

    X: Float[Array, "n d"]
    y: Float[Array, " n"]


class Batch(NamedTuple):
    """Rows that count `weight` times: of one gradient step, where 0 is for padding, or such as stand for many."""

    X: Float[Array, "b d"]
    y: Float[Array, " b"]
    weight: Float[Array, " b"]


def single_precision() -> contextlib.AbstractContextManager[None]:
    """For calls into libraries that would mix float32 with the user's float64, where JAX was switched to 64 bits.

    It holds for the thread that enters it.
    """
    return jax.enable_x64(False)


@contextlib.contextmanager
def default_promotion() -> Iterator[None]:
    """For calls into libraries that rely on JAX's default promotion of dtypes and ranks, whatever the user has set."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
