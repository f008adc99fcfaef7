"""Whether independent chains or populations agree about predictions: R-hat and effective sample size."""

import math
import warnings
from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp
from blackjax.diagnostics import ess_bulk
from blackjax.diagnostics import rhat as rank_normalised_rhat
from sklearn.exceptions import ConvergenceWarning

from offmap.arrays import Array, Data, Float, Key, default_promotion
from offmap.model import Model

RHAT_LIMIT = 1.01
N_CHECKED_INPUTS = 100  # training rows, and as many of nu; and entries of theta
GROWTH = 1.25  # long chains are checked whenever they are so much longer than at the last check


@jax.jit
def diagnose(key: Key, model: Model, data: Data, thetas: Float[Array, "c s p"]) -> dict[str, Array]:
    """R-hat and effective sample size of predictions at training rows and rows of nu, and of some entries of theta."""
    rows = data.X[:: max(1, len(data.X) // N_CHECKED_INPUTS)][:N_CHECKED_INPUTS]
    X = jnp.concatenate([rows, model.inputs.sample(key, N_CHECKED_INPUTS)])
    predictions = jax.lax.map(lambda chain: model.predict_draws(chain, X), thetas)
    some = thetas[:, :, :: -(-thetas.shape[-1] // N_CHECKED_INPUTS)]
    return {
        f"{name}_{of}": statistic
        for of, values in (("predictions", predictions), ("theta", some))
        for name, statistic in (("rhat", rhat(values)), ("ess", ess(values)))
    }


def rhat(values: Float[Array, "c s v"]) -> Float[Array, " v"]:
    """Rank-normalised split R-hat: near 1 when the chains, and the halves of each, agree."""
    with default_promotion():
        return rank_normalised_rhat(values)


def ess(values: Float[Array, "c s v"]) -> Float[Array, " v"]:
    """Bulk effective sample size, over all chains. Draws that resemble each other must be neighbours along `s`."""
    with default_promotion():
        return ess_bulk(values)


def has_mixed(checks: dict[str, Array], enough: float) -> bool:
    """Whether all agree about every checked prediction, and say enough of it."""
    agree = float(jnp.max(checks["rhat_predictions"])) <= RHAT_LIMIT
    return agree and float(jnp.min(checks["ess_predictions"])) >= enough


class Patience(Protocol):
    """How many draws a chain are taken before the first check, how many are effective enough, and when to give up."""

    @property
    def draws(self) -> int:
        """Before the first check."""

    @property
    def enough(self) -> float:
        """Effective draws."""

    @property
    def most_draws(self) -> int:
        """When to give up."""


def drawn_until_mixed(
    draw: Callable[[int], Float[Array, "c n p"]], key: Key, model: Model, data: Data, patience: Patience, remedy: str
) -> tuple[Float[Array, "c s p"], dict[str, Array]]:
    """What `draw` gives, asked for more until the chains have mixed or have as many draws as they may, and the checks.

    The inputs at which predictions are checked depend on `key` alone.
    """
    thetas = draw(patience.draws)
    while not has_mixed(checks := diagnose(key, model, data, thetas), patience.enough):
        n_draws = thetas.shape[1]
        more = min(math.ceil((GROWTH - 1) * n_draws), patience.most_draws - n_draws)
        if more <= 0:
            warn_not_mixed("chains", checks, remedy)
            break
        thetas = jnp.concatenate([thetas, draw(more)], axis=1)
    return thetas, checks


def warn_not_mixed(what: str, checks: dict[str, Array], remedy: str) -> None:
    """Say which prediction mixed worst, and what may help."""
    rhats, sizes = checks["rhat_predictions"], checks["ess_predictions"]
    worst = int(jnp.argmax(rhats))
    n_rows = len(rhats) - N_CHECKED_INPUTS
    where = f"checked training row {worst}" if worst < n_rows else f"OOD input {worst - n_rows}"
    warnings.warn(
        f"The {what} have not mixed: of {len(rhats)} checked predictions the worst, at {where}, has R-hat "
        f"{rhats[worst]:.3f} (limit {RHAT_LIMIT}), and the smallest effective sample size is {jnp.min(sizes):.0f}. "
        f"{remedy} (The worst R-hat of theta is {jnp.max(checks['rhat_theta']):.2f}.)",
        ConvergenceWarning,
        stacklevel=3,
    )
