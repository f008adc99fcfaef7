"""What the variational methods maximise: expected log-likelihood minus divergence from the prior, in nats."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from offmap.arrays import Array, Batch, Float, Key
from offmap.artifact import storable
from offmap.divergences import gaussian_kl, kl_knn
from offmap.families import MeanField, Posterior
from offmap.likelihood import gaussian_log_density
from offmap.model import Model

Space = Literal["parameter", "predictor"]

# Distances under float32's epsilon count as it: two draws that coincide then cost a finite price and pull no gradient.
FLOOR = float(np.finfo(np.float32).eps)
SMALLEST_SPREAD = 1e-4  # of the target's std


@storable
class Comparison(NamedTuple):
    """How the predictors of q and of the prior are compared.

    `n_inputs` is T in the paper. `equal_inputs` divides the values at every input by the spread of q there, first. The
    true divergence does not change when both sides are rescaled alike, but the nearest neighbours do: without it they
    are decided by the few inputs where predictors differ most, and nothing rewards diversity at the others.
    """

    n_inputs: int = 200
    equal_inputs: bool = False
    k: int = 1


def expected_log_likelihood(model: Model, thetas: Float[Array, "s p"], batch: Batch) -> Float[Array, ""]:
    """E_q ln p(batch | theta), in nats: the sum over the batch's rows of the mean over thetas."""
    log_density = gaussian_log_density(batch.y[None, :], model.predict_draws(thetas, batch.X), model.noise_std)
    return jnp.sum(batch.weight * jnp.mean(log_density, axis=0))


def parameter_divergence(key: Key, model: Model, q: Posterior, n_draws: int, k: int = 1) -> Float[Array, ""]:
    """KL from q(theta) to the prior, in nats: the closed form where q has a density, eq. 3 where it has none."""
    prior = model.parameter_prior
    if isinstance(q, MeanField):
        return gaussian_kl(q.mean, q.std, 0.0, prior.std)
    q_key, prior_key = jax.random.split(key)
    return kl_knn(q.sample(q_key, n_draws), prior.sample(prior_key, n_draws, model.network), k, FLOOR)


def predictor_divergence(key: Key, model: Model, q: Posterior, n_draws: int, at: Comparison) -> Float[Array, ""]:
    """KL from the predictors of q to those of the prior, at one fresh set of inputs X ~ nu^T (eq. 5), in nats."""
    q_key, prior_key, input_key = jax.random.split(key, 3)
    X = model.inputs.sample(input_key, at.n_inputs)
    values = model.predict_draws(q.sample(q_key, n_draws), X)
    prior_values = model.sample_prior_predictors(prior_key, n_draws, X)
    if at.equal_inputs:
        spread = jax.lax.stop_gradient(jnp.std(values, axis=0) + SMALLEST_SPREAD)[None, :]
        values, prior_values = values / spread, prior_values / spread
    return kl_knn(values, prior_values, at.k, FLOOR)
