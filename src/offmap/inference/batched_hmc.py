"""hmc for posteriors that mix slowly: long chains side by side in one batch, at a fifth of NUTS's cost a gradient."""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from offmap.arrays import Array, Data, Float, Key, single_precision
from offmap.artifact import storable
from offmap.families import Empirical
from offmap.inference.method import Density, Fit
from offmap.inference.mixing import diagnose, has_mixed, warn_not_mixed
from offmap.inference.trajectories import FIRST_STEP_SIZE, Course, adapted, follow
from offmap.model import Model
from offmap.progress import report

LEAST_SHARE = 1e-5  # of the likelihood, where warm-up starts: at draws of the prior, rows may be all but impossible
GROWTH = 1.25  # chains are checked whenever they are so much longer than at the last check


@storable
@dataclass(frozen=True)
class BatchedHMC:
    """`chains` chains that move together, by trajectories of `leapfrog_steps` steps, each accepted or not.

    They start apart, at draws of the prior, and over the first half of `warmup` trajectories the likelihood's share in
    the log density rises to 1, in equal ratios: so no chain has to find its way from where the rows are impossible.
    Over the second half they forget where they came from. The step size, in stds of the prior, keeps to
    `target_acceptance` and is fixed after warm-up. Then every trajectory number `thinning` gives a draw. After `draws`
    draws a chain, and again whenever they are a quarter more, predictions at training rows and at rows of nu are
    checked: sampling goes on until their R-hat is at most 1.01 and their bulk effective sample size at least `enough`,
    or `most_draws` are drawn. The trace holds both, as `HMC`'s does.
    """

    chains: int = 8
    leapfrog_steps: int = 256
    warmup: int = 1000
    draws: int = 1000
    thinning: int = 4
    target_acceptance: float = 0.6
    enough: float = 1000.0
    most_draws: int = 16_000

    density: ClassVar[Density] = "mixture"
    may_be_smooth: ClassVar[bool] = False

    @property
    def networks_at_once(self) -> int:
        """All draws of every chain, twice while they are put together."""
        return 2 * self.chains * max(self.draws, self.most_draws)

    def fit(self, key: Key, model: Model, data: Data) -> Fit:
        """The states of all chains after warm-up."""
        with single_precision():
            return self._fit(key, model, data)

    def _fit(self, key: Key, model: Model, data: Data) -> Fit:
        run_key, check_key = jax.random.split(key)
        chains = _Chains(self, model, data, run_key)
        chains.warm_up()
        thetas = chains.drawn(self.draws)
        while not has_mixed(checks := diagnose(check_key, model, data, thetas), self.enough):
            n_draws = thetas.shape[1]
            more = min(math.ceil((GROWTH - 1) * n_draws), self.most_draws - n_draws)
            if more <= 0:
                warn_not_mixed("chains", checks, remedy="Use a larger most_draws or a larger noise_std.")
                break
            thetas = jnp.concatenate([thetas, chains.drawn(more)], axis=1)
        trace = {"acceptance_rate": jnp.asarray(chains.acceptance_rates), "step_size": jnp.asarray(chains.step_sizes)}
        return Fit(posterior=Empirical.of_chains(thetas), trace=trace | checks)


class _Chains:
    """Moves all chains, and learns during warm-up how long a step may be."""

    def __init__(self, method: BatchedHMC, model: Model, data: Data, key: Key) -> None:
        self.method, self.model, self.data = method, model, data
        start_key, self.key = jax.random.split(key)
        self.thetas = model.parameter_prior.sample(start_key, method.chains, model.network)
        self.variance = jnp.full(model.network.n_parameters, model.parameter_prior.std**2, jnp.float32)
        self.step_size = FIRST_STEP_SIZE
        self.step_sizes: list[float] = []
        self.acceptance_rates: list[float] = []

    def warm_up(self) -> None:
        """Take every chain from its start to where it can be trusted."""
        n_trajectories, n_rising = self.method.warmup, self.method.warmup // 2
        planned = n_trajectories + self.method.thinning * self.method.draws
        for share in [*np.geomspace(LEAST_SHARE, 1.0, n_rising), *np.ones(n_trajectories - n_rising)]:
            acceptance_rate = self._move(share, planned)
            self.step_size = adapted(self.step_size, acceptance_rate, self.method.target_acceptance)
        # The last one alone would depend on how the last few trajectories happened to go.
        self.step_size = float(np.exp(np.mean(np.log(self.step_sizes[n_rising:]))))

    def drawn(self, n_draws: int) -> Float[Array, "c n p"]:
        """The next draws of every chain."""
        draws, planned = [], len(self.step_sizes) + self.method.thinning * n_draws
        for _ in range(n_draws):
            for _ in range(self.method.thinning):
                self._move(1.0, planned)
            draws.append(self.thetas)
        return jnp.stack(draws, axis=1)

    def _move(self, share: float, planned: int) -> float:
        """One trajectory of every chain, of as many as are `planned`, and how readily it was accepted."""
        self.key, key = jax.random.split(self.key)
        course = Course(
            share=jnp.float32(share),
            step_size=jnp.float32(self.step_size),
            n_steps=jnp.int32(self.method.leapfrog_steps),
            variance=self.variance,
        )
        try:
            end = follow(course, self.model, self.data, jax.random.split(key, len(self.thetas)), self.thetas)
            acceptance_rate = float(jnp.mean(end.acceptance_rate))
        except KeyboardInterrupt:
            said = f"interrupted after {len(self.step_sizes)} of {planned} trajectories; nothing was kept."
            raise KeyboardInterrupt(said) from None
        self.thetas = end.theta
        self.step_sizes.append(self.step_size)
        self.acceptance_rates.append(acceptance_rate)
        report("sampling", len(self.step_sizes), planned)
        return acceptance_rate
