"""Exchanges between levels against the joint density, and ladders on a posterior with two modes, known by symmetry."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offmap.arrays import Data
from offmap.families import Empirical
from offmap.inference import BatchedHMC, Fit, TemperedHMC
from offmap.inference.mixing import ess
from offmap.inference.tempering import exchange, respaced
from offmap.inputs import UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.prior import GaussianPrior

SHARES = np.array([0.01, 0.1, 0.3, 0.7, 1.0])
LOG_LIKELIHOODS = np.random.default_rng(0).normal(-5.0, 4.0, (5, 200))


@pytest.mark.parametrize("first", [0, 1])
def test_exchanges_and_their_reverse_are_in_the_ratio_of_the_joint_densities(first: int) -> None:
    always = exchange(np.zeros((4, 200)), SHARES, LOG_LIKELIHOODS, first)
    after = np.take_along_axis(LOG_LIKELIHOODS, always.places, axis=0)
    back = exchange(np.zeros((4, 200)), SHARES, after, first)
    offered = slice(first, None, 2)
    gained = np.sum(SHARES[:, None] * (after - LOG_LIKELIHOODS), axis=0)
    ratio = np.sum(np.log(always.rates[offered]) - np.log(back.rates[offered]), axis=0)
    np.testing.assert_allclose(ratio, gained, rtol=1e-10)
    np.testing.assert_array_equal(np.take_along_axis(after, back.places, axis=0), LOG_LIKELIHOODS)


def test_every_second_pair_is_offered_and_exchanges_at_its_rate() -> None:
    uniforms = np.random.default_rng(1).uniform(size=(4, 200))
    for first in (0, 1):
        places, rates = exchange(uniforms, SHARES, LOG_LIKELIHOODS, first)
        for pair in range(4):
            swapped = (places[pair] == pair + 1) & (places[pair + 1] == pair)
            expected = (uniforms[pair] < rates[pair]) if pair % 2 == first else np.zeros(200, bool)
            np.testing.assert_array_equal(swapped, expected)
        np.testing.assert_array_equal(np.sort(places, axis=0), np.tile(np.arange(5)[:, None], 200))


def test_respaced_levels_refuse_equally_often() -> None:
    """Where refusals between two shares are in proportion to ln(b / a), levels in equal ratios refuse alike."""
    shares = np.array([0.001, 0.002, 0.005, 0.2, 0.6, 1.0])
    refusals = np.diff(np.log(shares)) / 10
    assert respaced(shares, 1 - refusals) == pytest.approx(np.geomspace(0.001, 1.0, 6))
    assert respaced(SHARES, np.full(4, 0.4)) == pytest.approx(SHARES)


def two_modes() -> tuple[Model, Data]:
    """One hidden unit of tanh: with every weight's sign turned but the output bias's, it is the same predictor."""
    X = jnp.linspace(-2.0, 2.0, 24)[:, None]
    model = Model(
        network=Network(n_inputs=1, hidden=(1,), activation="tanh"),
        prior=GaussianPrior(1.0),
        noise_std=jnp.float32(0.1),
        inputs=UniformBox.around(X),
    )
    return model, Data(X=X, y=jnp.tanh(1.5 * X[:, 0]))


def positive(fit: Fit, n_chains: int) -> np.ndarray:
    """Of every draw whether the input weight is above zero, chains first."""
    assert isinstance(fit.posterior, Empirical)
    return np.asarray(fit.posterior.thetas[:, 0] > 0, np.float32).reshape(n_chains, -1)


@pytest.mark.filterwarnings("ignore:The chains have not mixed")
def test_ladders_have_both_modes_where_chains_have_the_one_that_they_came_to() -> None:
    model, data = two_modes()
    chains = BatchedHMC(leapfrog_steps=32, warmup=300, draws=300, thinning=1, most_draws=300)
    assert set(positive(chains.fit(jax.random.key(0), model, data), 8).mean(axis=1)) == {0.0, 1.0}

    ladders = TemperedHMC(levels=10, first_share=0.002, draws=1000, most_draws=1000)
    signs = positive(ladders.fit(jax.random.key(0), model, data), 4)
    n_effective = float(ess(jnp.stack([signs, signs], axis=2))[0])
    assert n_effective > 30
    assert abs(signs.mean() - 0.5) / (0.5 / np.sqrt(n_effective)) < 4
    assert np.all(np.abs(signs.mean(axis=1) - 0.5) < 0.45)  # every ladder has been in both


@pytest.mark.filterwarnings("ignore:The chains have not mixed")
def test_shares_and_step_sizes_stay_when_draws_begin() -> None:
    """Else the draws would be of something else than the posterior."""
    model, data = two_modes()
    method = TemperedHMC(chains=2, levels=3, warmup=32, draws=5, most_draws=5, first_share=0.01)
    few = method.fit(jax.random.key(0), model, data)
    more = replace(method, draws=40, most_draws=40).fit(jax.random.key(0), model, data)
    for name in ("share", "step_size"):
        np.testing.assert_array_equal(few.trace[name], more.trace[name])
    np.testing.assert_allclose(few.trace["share"][jnp.array([0, -1])], [0.01, 1.0], rtol=1e-6)
