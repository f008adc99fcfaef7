"""How far rows that a network did not learn from lie from its prediction."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.model_selection import KFold

from offmap.arrays import Array, Data, Float, Key
from offmap.families import Posterior
from offmap.inference.ensemble import Ensemble
from offmap.model import Model

N_FOLDS = 5
ENOUGH_RESIDUALS = 200  # their root-mean-square is then known to about 5%


def held_out_error(key: Key, probe: Ensemble, model: Model, data: Data) -> float:
    """The root-mean-square residual of held-out rows, in units of `data.y`.

    The probe, a small ensemble of the model's network, learns four fifths of the rows and is asked for the rest, for as
    many fifths as it takes to collect enough residuals. With the same key all probes are asked about the same rows.
    """
    order_key, fit_key = jax.random.split(key)
    order = np.random.default_rng(np.asarray(jax.random.key_data(order_key))).permutation(len(data.y))
    n_rows, folds = len(order), min(N_FOLDS, len(order))
    X, y = np.asarray(data.X), np.asarray(data.y)
    residuals: list[np.ndarray] = []
    for kept, left_out in KFold(folds).split(order):
        # Folds of one length, so that one program serves them all.
        rows, asked = order[kept[: n_rows - -(-n_rows // folds)]], order[left_out[: n_rows // folds]]
        fit = probe.fit(fit_key, model, Data(X=jnp.asarray(X[rows]), y=jnp.asarray(y[rows])))
        prediction = _mean_prediction(fit.posterior, fit_key, probe.members, model, jnp.asarray(X[asked]))
        residuals.append(np.asarray(y[asked] - np.asarray(prediction), np.float64))
        if sum(map(len, residuals)) >= ENOUGH_RESIDUALS:
            break
    return float(np.sqrt(np.mean(np.concatenate(residuals) ** 2)))


@functools.partial(jax.jit, static_argnames=("n",))
def _mean_prediction(
    posterior: Posterior, key: Key, n: int, model: Model, X: Float[Array, "rows d"]
) -> Float[Array, " rows"]:
    return jnp.mean(model.predict_draws(posterior.sample(key, n), X), axis=0)
