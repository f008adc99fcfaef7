"""Kullback-Leibler divergence and differential entropy from samples, of parameters and of predictors, in nats."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from scipy.special import digamma, gammaln

from offmap.arrays import Array, Float, Key
from offmap.inputs import InputDistribution
from offmap.neighbours import log_neighbour_distance

Predictors = Callable[[Float[Array, "t d"]], Float[Array, "n t"]]


class Evaluation(NamedTuple):
    """How predictors are compared: at `n_inputs` rows of nu (T in the paper), averaged over `n_repeats` such sets."""

    n_inputs: int = 200
    n_repeats: int = 1


def _check_k(k: int, available: int, of_what: str) -> None:
    if not 1 <= k <= available:
        raise ValueError(f"k is {k}, but it must be between 1 and {available}, the number of {of_what}.")


def kl_knn(q: Float[Array, "n d"], p: Float[Array, "m d"], k: int = 1, floor: float = 0.0) -> Float[Array, ""]:
    """k-nearest-neighbour estimate of KL(Q, P) from samples of both, in nats (eq. 3).

        KL = ln(m / (n - 1)) + (d / n) * sum_i ln(s_i / r_i)

    `s_i` is the distance from q_i to its k-th nearest row of `p`, `r_i` to its k-th nearest other row of `q`; distances
    under `floor` count as `floor`. A row of q with k exact copies in q gives +inf, in p -inf, and in both 0, which are
    the limits as the floor goes to 0. Differentiable in both samples. Biased in high dimension: too high where P is
    much wider than Q, too low where it is not.
    """
    (n, d), m = q.shape, len(p)
    if p.shape[1] != d:
        raise ValueError(f"q has {d} columns and p has {p.shape[1]}, but both must live in the same space.")
    _check_k(k, min(n - 1, m), "other rows of q, or rows of p")
    log_s = log_neighbour_distance(q, p, k, floor)
    log_r = log_neighbour_distance(q, q, k, floor, skip_self=True)
    # -inf - (-inf) is the limit 0, not nan. Equal distances above 0 are no such case: their gradients differ.
    both_zero = jnp.isneginf(log_s) & jnp.isneginf(log_r)
    ratio = jnp.where(both_zero, 0.0, log_s - log_r)
    return math.log(m / (n - 1)) + d * jnp.mean(ratio)


def entropy_knn(draws: Float[Array, "n d"], k: int = 1, floor: float = 0.0) -> Float[Array, ""]:
    """k-nearest-neighbour estimate of differential entropy, in nats (eq. 4).

        H = ln n - psi(k) + ln c_d + (d / n) * sum_i ln r_i

    `r_i` is the distance from draw i to its k-th nearest other draw, `c_d` the volume of the unit d-ball; distances
    under `floor` count as `floor`. Biased for small n; -inf when a draw has k exact duplicates and the floor is 0.
    """
    n, d = draws.shape
    _check_k(k, n - 1, "other draws")
    log_ball = 0.5 * d * math.log(math.pi) - float(gammaln(d / 2 + 1))
    log_r = log_neighbour_distance(draws, draws, k, floor, skip_self=True)
    return math.log(n) - float(digamma(k)) + log_ball + d * jnp.mean(log_r)


def predictor_kl(
    key: Key, f: Predictors, g: Predictors, inputs: InputDistribution, at: Evaluation = Evaluation(), k: int = 1
) -> Float[Array, ""]:
    """k-nearest-neighbour estimate of KL between two distributions of predictors, in nats (eq. 5).

        KL = E_{X ~ nu^T} kl_knn(f^X, g^X)

    `f` and `g` map T rows of inputs to the values of their sampled predictors there, one predictor a row.
    """

    def once(key: Key) -> Float[Array, ""]:
        X = inputs.sample(key, at.n_inputs)
        return kl_knn(f(X), g(X), k)

    return jnp.mean(jax.lax.map(once, jax.random.split(key, at.n_repeats)))


def predictor_entropy(
    key: Key,
    f: Predictors,
    inputs: InputDistribution,
    at: Evaluation = Evaluation(n_repeats=100),
    k: int = 1,
    floor: float = 0.0,
) -> Float[Array, ""]:
    """k-nearest-neighbour estimate of the entropy of a distribution of predictors in L2(nu), in nats (eq. 6).

        H = E_{X ~ nu^T} entropy_knn(f^X / sqrt(T))

    The norm of L2(nu) is T^(-1/2) times the Euclidean norm of the values at T inputs. The paper writes the constant
    that this leaves outside the estimator as -(1/2) ln T; in T dimensions it is -(T/2) ln T, which its tables use.
    """

    def once(key: Key) -> Float[Array, ""]:
        values = f(inputs.sample(key, at.n_inputs))
        return entropy_knn(values / math.sqrt(at.n_inputs), k, floor)

    return jnp.mean(jax.lax.map(once, jax.random.split(key, at.n_repeats)))


def gaussian_kl(
    mean: Float[Array, " d"], std: Float[Array, " d"], prior_mean: float, prior_std: float
) -> Float[Array, ""]:
    """KL from N(mean, diag std^2) to N(prior_mean, prior_std^2 I), in nats: the closed form.

    >>> float(gaussian_kl(jnp.zeros(3), jnp.ones(3), 0.0, 1.0))
    0.0
    """
    ratio, shift = std / prior_std, (mean - prior_mean) / prior_std
    return 0.5 * jnp.sum(ratio**2 + shift**2 - 1 - 2 * jnp.log(ratio))


def gaussian_entropy(std: Float[Array, " d"]) -> Float[Array, ""]:
    """Differential entropy of independent Gaussians, in nats: the closed form."""
    return jnp.sum(jnp.log(std)) + 0.5 * len(std) * math.log(2 * math.pi * math.e)
