"""hmc for posteriors that mix slowly: long chains side by side in one batch, at a fifth of NUTS's cost a gradient."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from offmap.arrays import Array, Data, Float, Key, single_precision
from offmap.artifact import storable
from offmap.families import Empirical
from offmap.inference.method import Density, Fit
from offmap.inference.mixing import drawn_until_mixed
from offmap.inference.summary import summarised
from offmap.inference.trajectories import FIRST_STEP_SIZE, Course, adapted, follow, follow_guided
from offmap.model import Model
from offmap.progress import report


@storable
@dataclass(frozen=True)
class BatchedHMC:
    """`chains` chains that move together, by trajectories of `leapfrog_steps` steps, each accepted or not.

    They start apart, at draws of the prior, and over the first half of `warmup` trajectories the likelihood's share in
    the log density rises from `first_share` to 1, in equal ratios: at such draws the rows may be all but impossible,
    and a chain that had to find its way from there at once would get stuck.
    Over the second half they forget where they came from. The step size, in stds of the prior, keeps to
    `target_acceptance` and is fixed after warm-up. Then every trajectory number `thinning` gives a draw. After `draws`
    draws a chain, and again whenever they are a quarter more, predictions at training rows and at rows of nu are
    checked: sampling goes on until their R-hat is at most 1.01 and their bulk effective sample size at least `enough`,
    or `most_draws` are drawn. The trace holds both, as `HMC`'s does.

    With `guides` the steps of a trajectory follow a summary of the table in so many rows, and cost accordingly less. So
    that the draws are those of the posterior of all rows, where a trajectory leads must then be accepted twice: by the
    summary, as ever, and by how much more likely than by the summary all rows make it.
    """

    chains: int = 8
    leapfrog_steps: int = 256
    warmup: int = 1000
    first_share: float = 1e-5
    draws: int = 1000
    thinning: int = 4
    target_acceptance: float = 0.6
    enough: float = 1000.0
    most_draws: int = 16_000
    guides: int | None = None

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
        thetas, checks = drawn_until_mixed(
            chains.drawn, check_key, model, data, self, remedy="Use a larger most_draws or a larger noise_std."
        )
        trace = {name: jnp.asarray(values) for name, *values in zip(Move._fields, *chains.moves, strict=True)}
        return Fit(posterior=Empirical.of_chains(thetas), trace=trace | checks)


class Move(NamedTuple):
    """How one trajectory of every chain went: how readily it was accepted by what guided it, and then by all rows."""

    step_size: float
    acceptance_rate: float
    agreement_rate: float


class _Chains:
    """Moves all chains, and learns during warm-up how long a step may be."""

    def __init__(self, method: BatchedHMC, model: Model, data: Data, key: Key) -> None:
        self.method, self.model, self.data = method, model, data
        start_key, self.key = jax.random.split(key)
        self.thetas = model.parameter_prior.sample(start_key, method.chains, model.network)
        self.variance = jnp.full(model.network.n_parameters, model.parameter_prior.std**2, jnp.float32)
        self.step_size = FIRST_STEP_SIZE
        self.moves: list[Move] = []
        self.guide = None if method.guides is None else summarised(data, method.guides)

    def warm_up(self) -> None:
        """Take every chain from its start to where it can be trusted."""
        n_trajectories, n_rising = self.method.warmup, self.method.warmup // 2
        planned = n_trajectories + self.method.thinning * self.method.draws
        for share in [*np.geomspace(self.method.first_share, 1.0, n_rising), *np.ones(n_trajectories - n_rising)]:
            acceptance_rate = self._move(share, planned)
            self.step_size = adapted(self.step_size, acceptance_rate, self.method.target_acceptance)
        # The last one alone would depend on how the last few trajectories happened to go.
        self.step_size = float(np.exp(np.mean([np.log(move.step_size) for move in self.moves[n_rising:]])))

    def drawn(self, n_draws: int) -> Float[Array, "c n p"]:
        """The next draws of every chain."""
        draws, planned = [], len(self.moves) + self.method.thinning * n_draws
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
        keys = jax.random.split(key, len(self.thetas))
        try:
            if self.guide is None:
                end = follow(course, self.model, self.data, keys, self.thetas)
            else:
                end = follow_guided(course, self.model, self.data, self.guide, keys, self.thetas)
            move = Move(
                step_size=self.step_size,
                acceptance_rate=float(jnp.mean(end.acceptance_rate)),
                agreement_rate=float(jnp.mean(end.agreement_rate)),
            )
        except KeyboardInterrupt:
            said = f"interrupted after {len(self.moves)} of {planned} trajectories; nothing was kept."
            raise KeyboardInterrupt(said) from None
        self.thetas = end.theta
        self.moves.append(move)
        report("sampling", len(self.moves), planned)
        return move.acceptance_rate
