"""hmc for posteriors with modes that no trajectory leads between: ladders of networks that exchange places."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from offmap.arrays import Array, Data, Float, Key, single_precision
from offmap.artifact import storable
from offmap.families import Empirical
from offmap.inference.method import Density, Fit
from offmap.inference.mixing import drawn_until_mixed
from offmap.inference.tempering import exchange, respaced
from offmap.inference.trajectories import FIRST_STEP_SIZE, Course, adapted, follow
from offmap.model import Model
from offmap.progress import report

PLACEMENTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2)  # of warm-up: when shares are placed anew


@storable
@dataclass(frozen=True)
class TemperedHMC:
    """`chains` ladders, each with a network at every one of `levels` shares of the likelihood in the log density.

    The shares go from `first_share`, which is too small to keep networks from moving freely, to 1. In a round every
    network takes a trajectory, `length` times the prior's std long but of at most `most_steps` leapfrog steps; then
    neighbours on a ladder may exchange places. So the networks at share 1, which are the draws, come from other modes
    as often as networks have travelled down and up again.

    Networks start at draws of the prior. During `warmup` rounds the step sizes keep to `target_acceptance`, and in the
    first half of it the shares are placed so that all neighbours exchange about as often. After `draws` draws a chain,
    and again whenever they are a quarter more, predictions at training rows and at rows of nu are checked: sampling
    goes on until their R-hat is at most 1.01 and their bulk effective sample size at least `enough`, or `most_draws`
    are drawn. The trace holds both, as `HMC`'s does.
    """

    chains: int = 4
    levels: int = 36
    first_share: float = 0.004
    length: float = 1.2
    most_steps: int = 2000
    warmup: int = 320
    draws: int = 500
    target_acceptance: float = 0.65
    enough: float = 1000.0
    most_draws: int = 8000

    density: ClassVar[Density] = "mixture"
    may_be_smooth: ClassVar[bool] = False

    @property
    def networks_at_once(self) -> int:
        """All draws of every chain, twice while they are put together, and the ladders."""
        return self.chains * (2 * max(self.draws, self.most_draws) + 4 * self.levels)

    def fit(self, key: Key, model: Model, data: Data) -> Fit:
        """The networks at share 1, of every round after warm-up."""
        with single_precision():
            return self._fit(key, model, data)

    def _fit(self, key: Key, model: Model, data: Data) -> Fit:
        run_key, check_key = jax.random.split(key)
        ladders = _Ladders(self, model, data, run_key)
        ladders.warm_up()
        thetas, checks = drawn_until_mixed(
            ladders.drawn, check_key, model, data, self, remedy="Use more levels, a larger most_draws or noise_std."
        )
        trace = {
            "share": jnp.asarray(ladders.shares, jnp.float32),
            "step_size": jnp.asarray(ladders.step_sizes, jnp.float32),
            "exchange_rate": jnp.asarray(np.mean(ladders.rates, axis=0), jnp.float32),
        }
        return Fit(posterior=Empirical.of_chains(thetas), trace=trace | checks)


class _Ladders:
    """Moves and exchanges all networks, and learns during warm-up where levels should be and how long steps may be."""

    def __init__(self, method: TemperedHMC, model: Model, data: Data, key: Key) -> None:
        self.method, self.model, self.data = method, model, data
        start_key, self.key = jax.random.split(key)
        thetas = model.parameter_prior.sample(start_key, method.levels * method.chains, model.network)
        self.thetas = np.array(thetas).reshape(method.levels, method.chains, -1)
        self.variance = jnp.full(model.network.n_parameters, model.parameter_prior.std**2, jnp.float32)
        self.shares = np.geomspace(method.first_share, 1.0, method.levels)
        self.step_sizes = np.full(method.levels, FIRST_STEP_SIZE)
        self.rates: list[np.ndarray] = []  # of exchanges, in every round since the shares were last placed
        self.rounds = 0

    def warm_up(self) -> None:
        """Take every network from its start to where it can be trusted."""
        n_rounds = self.method.warmup
        settled: list[np.ndarray] = []
        placements = {round(n_rounds * part) for part in PLACEMENTS}
        for done in range(1, n_rounds + 1):
            rates = self._round(n_rounds + self.method.draws)
            pairs = zip(self.step_sizes, rates, strict=True)
            self.step_sizes = np.array([adapted(size, rate, self.method.target_acceptance) for size, rate in pairs])
            if done in placements:
                shares = respaced(self.shares, np.mean(self.rates, axis=0))
                self.step_sizes = np.exp(np.interp(np.log(shares), np.log(self.shares), np.log(self.step_sizes)))
                self.shares, self.rates, settled = shares, [], []
            settled.append(np.log(self.step_sizes))
        # The last ones alone would depend on how the last few rounds happened to go.
        self.step_sizes = np.exp(np.mean(settled, axis=0))

    def drawn(self, n_draws: int) -> Float[Array, "c n p"]:
        """The next draws of every ladder."""
        draws, planned = [], self.rounds + n_draws
        for _ in range(n_draws):
            self._round(planned)
            draws.append(self.thetas[-1])
        return jnp.asarray(np.stack(draws, axis=1))

    def _round(self, planned: int) -> np.ndarray:
        """One trajectory of every network, and one exchange; how readily each level's trajectories were accepted."""
        self.key, *keys, exchange_key = jax.random.split(self.key, self.method.levels + 2)
        log_likelihoods = np.empty(self.thetas.shape[:2])
        acceptance_rates = np.empty(self.method.levels)
        try:
            for level, key in enumerate(keys):
                course = Course(
                    share=jnp.float32(self.shares[level]),
                    step_size=jnp.float32(self.step_sizes[level]),
                    n_steps=jnp.int32(self._n_steps(level)),
                    variance=self.variance,
                )
                keys_of_chains = jax.random.split(key, self.method.chains)
                end = follow(course, self.model, self.data, keys_of_chains, jnp.asarray(self.thetas[level]))
                self.thetas[level], log_likelihoods[level] = end.theta, end.log_likelihood
                acceptance_rates[level] = jnp.mean(end.acceptance_rate)
        except KeyboardInterrupt:
            said = f"interrupted after {self.rounds} of {planned} rounds; nothing was kept."
            raise KeyboardInterrupt(said) from None
        uniforms = np.asarray(jax.random.uniform(exchange_key, (self.method.levels - 1, self.method.chains)))
        places, rates = exchange(uniforms, self.shares, log_likelihoods, first=self.rounds % 2)
        self.thetas = np.take_along_axis(self.thetas, places[:, :, None], axis=0)
        self.rates.append(rates.mean(axis=1))
        self.rounds += 1
        report("sampling", self.rounds, planned)
        return acceptance_rates

    def _n_steps(self, level: int) -> int:
        return max(1, min(self.method.most_steps, round(self.method.length / self.step_sizes[level])))
