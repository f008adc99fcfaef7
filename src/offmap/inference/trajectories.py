"""Hamiltonian trajectories of many networks at once: all take as many leapfrog steps, so they are one batch."""

import math
from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp

from offmap.arrays import Array, Batch, Data, Float, Int, Key, default_promotion
from offmap.model import Model

JITTER = (0.7, 1.3)  # of the step size: trajectories of one length return to where they began, in some direction
ADAPTATION_RATE = 0.5
FIRST_STEP_SIZE = 0.2


class Course(NamedTuple):
    """What the trajectories of all networks have in common.

    `share` is the exponent of the likelihood, `variance` the inverse of a diagonal mass matrix.
    """

    share: Float[Array, ""]
    step_size: Float[Array, ""]
    n_steps: Int[Array, ""]
    variance: Float[Array, " p"]


class End(NamedTuple):
    """Where a trajectory led, and how readily it was accepted by the rows that guided it, and then by all rows."""

    theta: Float[Array, " p"]
    log_likelihood: Float[Array, ""]
    acceptance_rate: Float[Array, ""]
    agreement_rate: Float[Array, ""]


@jax.jit
def follow(course: Course, model: Model, data: Data | Batch, keys: Key, thetas: Float[Array, "s p"]) -> End:
    """One trajectory of each of these networks, accepted or not."""
    kernel = blackjax.hmc.build_kernel()

    def log_density(theta: Float[Array, " p"]) -> Float[Array, ""]:
        return course.share * model.log_likelihood(theta, data) + model.parameter_prior.log_density(theta)

    def end(key: Key, theta: Float[Array, " p"]) -> End:
        jitter_key, kernel_key = jax.random.split(key)
        step_size = course.step_size * jax.random.uniform(jitter_key, minval=JITTER[0], maxval=JITTER[1])
        state = blackjax.hmc.init(theta, log_density)
        state, info = kernel(kernel_key, state, log_density, step_size, course.variance, course.n_steps)
        return End(
            theta=state.position,
            log_likelihood=model.log_likelihood(state.position, data),
            acceptance_rate=info.acceptance_rate,
            agreement_rate=jnp.ones(()),  # they are the same rows
        )

    with default_promotion():
        return jax.vmap(end)(keys, thetas)


@jax.jit
def follow_guided(
    course: Course, model: Model, data: Data, guide: Batch, keys: Key, thetas: Float[Array, "s p"]
) -> End:
    """One trajectory of each of these networks along `guide`, accepted by it and then by all rows, or not.

        min(1, exp(share * (l(theta') - g(theta') - l(theta) + g(theta))))

    is the rate of the second acceptance, where `l` is the log-likelihood of all rows, `g` that of the guide, and theta'
    where the trajectory led. The first one leaves the guide's density as it is, and so both together that of all rows.
    """
    keys, agreement_keys = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    end = follow(course, model, guide, keys, thetas)
    before, after = log_likelihoods(model, data, thetas), log_likelihoods(model, data, end.theta)
    gained = after - end.log_likelihood - before + log_likelihoods(model, guide, thetas)
    agreement_rate = jnp.exp(jnp.minimum(0.0, course.share * gained))
    agreed = jax.vmap(jax.random.uniform)(agreement_keys) < agreement_rate
    return End(
        theta=jnp.where(agreed[:, None], end.theta, thetas),
        log_likelihood=jnp.where(agreed, after, before),
        acceptance_rate=end.acceptance_rate,
        agreement_rate=agreement_rate,
    )


@jax.jit
def log_likelihoods(model: Model, data: Data | Batch, thetas: Float[Array, "s p"]) -> Float[Array, " s"]:
    """Of each of these networks, in nats."""
    return jax.vmap(lambda theta: model.log_likelihood(theta, data))(thetas)


def adapted(step_size: float, acceptance_rate: float, target: float) -> float:
    """The next step size: longer where more is accepted than need be."""
    return step_size * math.exp(ADAPTATION_RATE * (acceptance_rate - target))
