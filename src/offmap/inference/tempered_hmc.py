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
from offmap.inference.trajectories import FIRST_STEP_SIZE, Course, End, adapted, follow
from offmap.model import Model
from offmap.progress import report

RISING = 1 / 8  # of warm-up: while the likelihood's shares rise from next to nothing
PLACEMENTS = (3 / 16, 1 / 4, 3 / 8, 1 / 2)  # of warm-up: when shares are placed anew
LITTLE = 1e-3  # of the first share: where it rises from


@storable
@dataclass(frozen=True)
class TemperedHMC:
    """`chains` ladders, each with a network at every one of `levels` shares of the likelihood in the log density.

    The shares go from `first_share`, which is too small to keep networks from moving freely, to 1. In a round every
    network takes a trajectory of `leapfrog_steps` steps; then neighbours on a ladder may exchange places. So the
    networks at share 1, which give the draws, come from other modes as often as networks have travelled down and up
    again. Every round number `thinning` gives a draw of each ladder.

    Networks start at draws of the prior, where the rows may be all but impossible: over the first eighth of `warmup`
    no share is larger than one that rises from next to nothing. Then, until half of it is over, the shares are placed
    so that all neighbours exchange about as often. Step sizes keep to `target_acceptance`, and are fixed after warm-up.
    After `draws` draws a ladder, and again whenever they are a quarter more, predictions at training rows and at rows
    of nu are checked: sampling goes on until their R-hat is at most 1.01 and their bulk effective sample size at least
    `enough`, or `most_draws` are drawn. The trace holds both, as `HMC`'s does.
    """

    chains: int = 4
    levels: int = 36
    first_share: float = 0.004
    leapfrog_steps: int = 50
    warmup: int = 3000
    draws: int = 1000
    thinning: int = 4
    target_acceptance: float = 0.65
    enough: float = 1000.0
    most_draws: int = 16_000

    density: ClassVar[Density] = "mixture"
    may_be_smooth: ClassVar[bool] = False

    @property
    def networks_at_once(self) -> int:
        """All draws of every chain, twice while they are put together, and the ladders."""
        return self.chains * (2 * max(self.draws, self.most_draws) + 4 * self.levels)

    def fit(self, key: Key, model: Model, data: Data) -> Fit:
        """The networks at share 1, of rounds after warm-up."""
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


@jax.jit
def _follow_levels(course: Course, model: Model, data: Data, keys: Key, thetas: Float[Array, "l c p"]) -> End:
    """One trajectory of every network, as one batch; `course` has a share and a step size for each level."""

    def of_level(share: Array, step_size: Array, keys: Key, thetas: Float[Array, "c p"]) -> End:
        return follow(course._replace(share=share, step_size=step_size), model, data, keys, thetas)

    return jax.vmap(of_level)(course.share, course.step_size, keys, thetas)


class _Ladders:
    """Moves and exchanges all networks, and learns during warm-up where levels should be and how long steps may be."""

    def __init__(self, method: TemperedHMC, model: Model, data: Data, key: Key) -> None:
        self.method, self.model, self.data = method, model, data
        start_key, self.key = jax.random.split(key)
        thetas = model.parameter_prior.sample(start_key, method.levels * method.chains, model.network)
        self.thetas = thetas.reshape(method.levels, method.chains, -1)
        self.variance = jnp.full(model.network.n_parameters, model.parameter_prior.std**2, jnp.float32)
        self.shares = np.geomspace(method.first_share, 1.0, method.levels)
        self.step_sizes = np.full(method.levels, FIRST_STEP_SIZE)
        self.rates: list[np.ndarray] = []  # of exchanges, in every round since the shares were last placed
        self.rounds = 0

    def warm_up(self) -> None:
        """Take every network from its start to where it can be trusted."""
        n_rounds, n_rising = self.method.warmup, round(self.method.warmup * RISING)
        planned = n_rounds + self.method.thinning * self.method.draws
        largest = np.geomspace(LITTLE * self.method.first_share, 1.0, n_rising)
        placements = {round(n_rounds * part) for part in PLACEMENTS}
        settled: list[np.ndarray] = []
        for done, share in enumerate([*largest, *np.ones(n_rounds - n_rising)], start=1):
            rates = self._round(np.minimum(self.shares, share), planned)
            pairs = zip(self.step_sizes, rates, strict=True)
            self.step_sizes = np.array([adapted(size, rate, self.method.target_acceptance) for size, rate in pairs])
            settled.append(np.log(self.step_sizes))
            if done in placements:
                shares = respaced(self.shares, np.mean(self.rates, axis=0))
                self.step_sizes = np.exp(np.interp(np.log(shares), np.log(self.shares), np.log(self.step_sizes)))
                self.shares = shares
            if done == n_rising or done in placements:
                self.rates, settled = [], []
        # The last ones alone would depend on how the last few rounds happened to go.
        self.step_sizes = np.exp(np.mean(settled, axis=0))

    def drawn(self, n_draws: int) -> Float[Array, "c n p"]:
        """The next draws of every ladder."""
        draws, planned = [], self.rounds + self.method.thinning * n_draws
        for _ in range(n_draws):
            for _ in range(self.method.thinning):
                self._round(self.shares, planned)
            draws.append(self.thetas[-1])
        return jnp.stack(draws, axis=1)

    def _round(self, shares: np.ndarray, planned: int) -> np.ndarray:
        """One trajectory of every network, and one exchange; how readily each level's trajectories were accepted."""
        self.key, move_key, exchange_key = jax.random.split(self.key, 3)
        course = Course(
            share=jnp.asarray(shares, jnp.float32),
            step_size=jnp.asarray(self.step_sizes, jnp.float32),
            n_steps=jnp.int32(self.method.leapfrog_steps),
            variance=self.variance,
        )
        keys = jax.random.split(move_key, self.thetas.shape[:2])
        try:
            end = jax.block_until_ready(_follow_levels(course, self.model, self.data, keys, self.thetas))
        except KeyboardInterrupt:
            said = f"interrupted after {self.rounds} of {planned} rounds; nothing was kept."
            raise KeyboardInterrupt(said) from None
        uniforms = np.asarray(jax.random.uniform(exchange_key, (self.method.levels - 1, self.method.chains)))
        log_likelihoods = np.asarray(end.log_likelihood, np.float64)
        places, rates = exchange(uniforms, shares, log_likelihoods, first=self.rounds % 2)
        self.thetas = jnp.take_along_axis(end.theta, jnp.asarray(places)[:, :, None], axis=0)
        self.rates.append(rates.mean(axis=1))
        self.rounds += 1
        report("sampling", self.rounds, planned)
        return np.asarray(end.acceptance_rate.mean(axis=1))
