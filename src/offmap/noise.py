"""noise_std="auto": how far rows that a network did not learn from lie from its prediction."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.model_selection import KFold

from offmap.arrays import Array, Data, Float, Key
from offmap.families import Posterior
from offmap.inference import SMALL_TABLE
from offmap.inference.ensemble import Ensemble
from offmap.model import Model
from offmap.optimize import Training
from offmap.progress import part
from offmap.schedules import Cosine

N_FOLDS = 5
ENOUGH_RESIDUALS = 200  # their root-mean-square is then known to about 5%
SMALLEST = 0.01  # of the target's std: below it a network of 32-bit floats fits nothing but rounding

# Two lengths of training: some tables need the long one, and on noisy ones the long one overfits.
_PROBES = [
    Ensemble(members=5, training=Training(learning_rate=0.01, batch_size=100, schedule=schedule))
    for schedule in (Cosine(steps=300), Cosine(steps=3000, enough_for=SMALL_TABLE))
]


def held_out_noise_std(key: Key, model: Model, data: Data) -> float:
    """The root-mean-square residual of held-out rows, in units of `data.y`.

    A small ensemble of the model's network learns four fifths of the rows and is asked for the rest, for as many fifths
    as it takes to collect enough residuals; the better of a short and a long training counts. Unlike the noise that
    maximises the likelihood of the training rows, this cannot be made small by overfitting. It includes what the
    network cannot learn, as the likelihood's noise should.
    """
    order_key, fit_key = jax.random.split(key)
    order = np.random.default_rng(np.asarray(jax.random.key_data(order_key))).permutation(len(data.y))
    with part("estimating the noise"):
        errors = [_held_out_error(fit_key, probe, model, data, order) for probe in _PROBES]
    return max(min(errors), SMALLEST)


def _held_out_error(key: Key, probe: Ensemble, model: Model, data: Data, order: np.ndarray) -> float:
    """Root-mean-square residual of one probe on rows it did not learn from."""
    n_rows, folds = len(order), min(N_FOLDS, len(order))
    X, y = np.asarray(data.X), np.asarray(data.y)
    residuals: list[np.ndarray] = []
    for kept, left_out in KFold(folds).split(order):
        # Folds of one length, so that one program serves them all.
        rows, asked = order[kept[: n_rows - -(-n_rows // folds)]], order[left_out[: n_rows // folds]]
        fit = probe.fit(key, model, Data(X=jnp.asarray(X[rows]), y=jnp.asarray(y[rows])))
        prediction = _mean_prediction(fit.posterior, key, probe.members, model, jnp.asarray(X[asked]))
        residuals.append(np.asarray(y[asked] - np.asarray(prediction), np.float64))
        if sum(map(len, residuals)) >= ENOUGH_RESIDUALS:
            break
    return float(np.sqrt(np.mean(np.concatenate(residuals) ** 2)))


@functools.partial(jax.jit, static_argnames=("n",))
def _mean_prediction(
    posterior: Posterior, key: Key, n: int, model: Model, X: Float[Array, "rows d"]
) -> Float[Array, " rows"]:
    return jnp.mean(model.predict_draws(posterior.sample(key, n), X), axis=0)
