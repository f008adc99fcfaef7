"""Hamiltonian trajectories of many networks at once: all take as many leapfrog steps, so they are one batch."""

import math
from typing import NamedTuple

import blackjax
import jax

from offmap.arrays import Array, Data, Float, Int, Key, default_promotion
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
    """Where a trajectory led."""

    theta: Float[Array, " p"]
    log_likelihood: Float[Array, ""]
    acceptance_rate: Float[Array, ""]


@jax.jit
def follow(course: Course, model: Model, data: Data, keys: Key, thetas: Float[Array, "s p"]) -> End:
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
        )

    with default_promotion():
        return jax.vmap(end)(keys, thetas)


def adapted(step_size: float, acceptance_rate: float, target: float) -> float:
    """The next step size: longer where more is accepted than need be."""
    return step_size * math.exp(ADAPTATION_RATE * (acceptance_rate - target))
