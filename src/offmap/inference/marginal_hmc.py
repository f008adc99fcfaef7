"""hmc for posteriors with modes that no trajectory leads between: ladders of networks without their output layers."""

import functools
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

from offmap.arrays import Array, Data, Float, Key, default_promotion, single_precision
from offmap.artifact import storable
from offmap.families import Empirical
from offmap.inference.method import Density, Fit
from offmap.inference.mixing import drawn_until_mixed
from offmap.inference.output_layer import completed, given_hidden, mirrored
from offmap.inference.tempering import Densities, exchange, respaced
from offmap.inference.trajectories import FIRST_STEP_SIZE, JITTER, adapted
from offmap.model import Model
from offmap.progress import report

NEXT_TO_NOTHING = 1e-4  # of the likelihood: where its share rises from
RISING = 1 / 2  # of warm-up: until it is 1
PLACEMENTS = (5 / 8, 3 / 4)  # of warm-up: when levels are placed anew
AS_GOOD_AS_NONE = 1e-3  # a slope's std, of the target's for one of the column's: where levels end, to place them


@storable
@dataclass(frozen=True)
class MarginalHMC:
    """`chains` ladders of hidden layers, whose output layers are integrated out and drawn at the end.

    So the many weights that fit the rows together, and hold each other in place, are no part of what must move. Modes
    remain: a hidden unit that is on for some rows may as well be on for the others, but on the way it helps nobody.
    On a ladder, therefore, networks may add a linear function of the columns. With its help a unit that changes sides
    changes nothing: relu(z) - relu(-z) = z. The slopes have the std `first_slope_std` at the foot, less and less on
    `levels` levels, and are none for the networks at the top, as many as `tops`, whose density is the posterior's.

    In a round every network takes a trajectory of `leapfrog_steps` steps, and `mirrors` units choose their side anew,
    by how likely either makes the rows; then neighbours on a ladder may exchange places, and a network at the top gives
    a draw.

    Networks start at draws of the prior, and over the first half of `warmup` rounds the likelihood's share rises from
    next to nothing to 1. Then levels are placed so that all neighbours exchange about as often. Step sizes keep to
    `target_acceptance`, and are fixed after warm-up. After `draws` draws a ladder, and again whenever they are a
    quarter more, predictions at training rows and at rows of nu are checked: sampling goes on until their R-hat is at
    most 1.01 and their bulk effective sample size at least `enough`, or `most_draws` are drawn. The trace holds both,
    as `HMC`'s does.
    """

    chains: int = 4
    levels: int = 7
    tops: int = 3
    first_slope_std: float = 1.2
    leapfrog_steps: int = 40
    mirrors: int = 16
    warmup: int = 300
    draws: int = 1000
    target_acceptance: float = 0.75
    enough: float = 1000.0
    most_draws: int = 4000

    density: ClassVar[Density] = "mixture"
    may_be_smooth: ClassVar[bool] = False

    @property
    def networks_at_once(self) -> int:
        """All draws of every ladder, twice while they are put together, and the ladders."""
        return self.chains * (2 * max(self.draws, self.most_draws) + 4 * (self.levels + self.tops))

    def fit(self, key: Key, model: Model, data: Data) -> Fit:
        """A network at the top of each ladder, of every round after warm-up."""
        with single_precision():
            return self._fit(key, model, data)

    def _fit(self, key: Key, model: Model, data: Data) -> Fit:
        run_key, check_key = jax.random.split(key)
        ladders = _Ladders(self, model, data, run_key)
        ladders.warm_up()
        thetas, checks = drawn_until_mixed(
            ladders.drawn, check_key, model, data, self, remedy="Use a larger most_draws or a larger noise_std."
        )
        trace = {
            "slope_std": jnp.asarray(ladders.slope_stds, jnp.float32),
            "step_size": jnp.asarray(ladders.step_sizes, jnp.float32),
            "exchange_rate": jnp.asarray(np.mean(ladders.rates, axis=0), jnp.float32),
        }
        return Fit(posterior=Empirical.of_chains(thetas), trace=trace | checks)


class Course(NamedTuple):
    """What the networks at a level have in common. `slope_stds` are those of the level below, of its own and above."""

    slope_stds: Float[Array, "l 3"]
    step_size: Float[Array, " l"]


class End(NamedTuple):
    """Where a network is after its round, and its log marginals at the level below, at its own and above."""

    hidden: Float[Array, "l c q"]
    log_marginals: Float[Array, "l c 3"]
    acceptance_rate: Float[Array, "l c"]


@functools.partial(jax.jit, static_argnames=("method",))
def _moved(
    method: MarginalHMC, course: Course, model: Model, data: Data, keys: Key, hidden: Float[Array, "l c q"]
) -> End:
    """A trajectory and the mirrors of every network, a level at a time: a processor's cache holds what that needs."""
    kernel, prior = blackjax.hmc.build_kernel(), model.parameter_prior
    variance = jnp.full(hidden.shape[-1], prior.std**2, jnp.float32)

    def log_marginal(hidden: Float[Array, " q"], slope_std: Array) -> Float[Array, ""]:
        return given_hidden(model, data, hidden, slope_std).log_marginal

    def of_network(course: Course, key: Key, hidden: Float[Array, " q"]) -> End:
        slope_std = course.slope_stds[1]

        def log_density(hidden: Float[Array, " q"]) -> Float[Array, ""]:
            return log_marginal(hidden, slope_std) + prior.log_density(hidden)

        def mirror(now: tuple[Array, Array], key: Key) -> tuple[tuple[Array, Array], None]:
            unit_key, side_key = jax.random.split(key)
            hidden, before = now
            other = mirrored(model, hidden, jax.random.randint(unit_key, (), 0, model.network.hidden[-1]))
            after = log_marginal(other, slope_std)
            # Not Metropolis's rule: two mirrors that both are sure to be accepted would be none.
            changed = jax.random.uniform(side_key) < jax.nn.sigmoid(after - before)
            return (jnp.where(changed, other, hidden), jnp.where(changed, after, before)), None

        jitter_key, kernel_key, mirror_key = jax.random.split(key, 3)
        step_size = course.step_size * jax.random.uniform(jitter_key, minval=JITTER[0], maxval=JITTER[1])
        state = blackjax.hmc.init(hidden, log_density)
        state, info = kernel(kernel_key, state, log_density, step_size, variance, method.leapfrog_steps)
        hidden = state.position
        if model.network.hidden:
            now = (hidden, log_marginal(hidden, slope_std))
            (hidden, _), _ = jax.lax.scan(mirror, now, jax.random.split(mirror_key, method.mirrors))
        log_marginals = jax.vmap(lambda slope_std: log_marginal(hidden, slope_std))(course.slope_stds)
        return End(hidden=hidden, log_marginals=log_marginals, acceptance_rate=info.acceptance_rate)

    def of_level(level: tuple[Course, Key, Float[Array, "c q"]]) -> End:
        course, keys, hidden = level
        return jax.vmap(lambda key, hidden: of_network(course, key, hidden))(keys, hidden)

    with default_promotion():
        return jax.lax.map(of_level, (course, keys, hidden))


@jax.jit
def _completed(key: Key, model: Model, data: Data, hidden: Float[Array, "c q"]) -> Float[Array, "c p"]:
    """Networks at the top, with output layers."""
    keys = jax.random.split(key, len(hidden))
    return jax.vmap(lambda key, hidden: completed(key, model, data, hidden))(keys, hidden)


class _Ladders:
    """Moves and exchanges all networks, and learns during warm-up where levels should be and how long steps may be."""

    def __init__(self, method: MarginalHMC, model: Model, data: Data, key: Key) -> None:
        self.method, self.model, self.data = method, model, data
        start_key, self.key = jax.random.split(key)
        height = method.levels + method.tops
        thetas = model.parameter_prior.sample(start_key, height * method.chains, model.network)
        n_hidden = model.network.n_parameters - (model.network.shapes[-1][0] + 1)
        self.hidden = thetas[:, :n_hidden].reshape(height, method.chains, n_hidden)
        self.places = np.geomspace(method.first_slope_std, AS_GOOD_AS_NONE, method.levels + 1)
        self.step_sizes = np.full(height, FIRST_STEP_SIZE)
        self.rates: list[np.ndarray] = []  # of exchanges, in every round since levels were last placed
        self.rounds = 0

    @property
    def slope_stds(self) -> np.ndarray:
        """Of every level, none at the top."""
        return np.append(self.places[:-1], np.zeros(self.method.tops))

    def warm_up(self) -> None:
        """Take every network from its start to where it can be trusted."""
        n_rounds, n_rising = self.method.warmup, round(self.method.warmup * RISING)
        planned = n_rounds + self.method.draws
        placements = {round(n_rounds * part) for part in PLACEMENTS}
        settled: list[np.ndarray] = []
        for done, share in enumerate([*np.geomspace(NEXT_TO_NOTHING, 1.0, n_rising), *np.ones(n_rounds - n_rising)], 1):
            rates = self._round(share, planned)
            pairs = zip(self.step_sizes, rates, strict=True)
            self.step_sizes = np.array([adapted(size, rate, self.method.target_acceptance) for size, rate in pairs])
            settled.append(np.log(self.step_sizes))
            if done in placements:
                self.places = respaced(self.places, np.mean(self.rates, axis=0)[: self.method.levels])
            if done == n_rising or done in placements:
                self.rates, settled = [], []
        # The last ones alone would depend on how the last few rounds happened to go.
        self.step_sizes = np.exp(np.mean(settled, axis=0))

    def drawn(self, n_draws: int) -> Float[Array, "c n p"]:
        """The next draws of every ladder."""
        draws, planned = [], self.rounds + n_draws
        for _ in range(n_draws):
            self._round(1.0, planned)
            self.key, key = jax.random.split(self.key)
            draws.append(_completed(key, self.model, self.data, self.hidden[-1]))
        return jnp.stack(draws, axis=1)

    def _round(self, share: float, planned: int) -> np.ndarray:
        """A round of every network, and its exchange; how readily each level's trajectories were accepted."""
        self.key, move_key, exchange_key = jax.random.split(self.key, 3)
        slope_stds = np.pad(self.slope_stds, 1, mode="edge")
        course = Course(
            slope_stds=jnp.asarray(np.lib.stride_tricks.sliding_window_view(slope_stds, 3), jnp.float32),
            step_size=jnp.asarray(self.step_sizes, jnp.float32),
        )
        # A share of a Gaussian's log density is that of a Gaussian with more noise.
        model = replace(self.model, noise_std=jnp.float32(self.model.noise_std / np.sqrt(share)))
        keys = jax.random.split(move_key, self.hidden.shape[:2])
        try:
            end = jax.block_until_ready(_moved(self.method, course, model, self.data, keys, self.hidden))
        except KeyboardInterrupt:
            said = f"interrupted after {self.rounds} of {planned} rounds; nothing was kept."
            raise KeyboardInterrupt(said) from None
        below, own, above = np.moveaxis(np.asarray(end.log_marginals, np.float64), -1, 0)
        uniforms = np.asarray(jax.random.uniform(exchange_key, (len(own) - 1, self.method.chains)))
        places, rates = exchange(uniforms, Densities(own=own, above=above[:-1], below=below[1:]), self.rounds % 2)
        self.hidden = jnp.take_along_axis(end.hidden, jnp.asarray(places)[:, :, None], axis=0)
        self.rates.append(rates.mean(axis=1))
        self.rounds += 1
        report("sampling", self.rounds, planned)
        return np.asarray(end.acceptance_rate.mean(axis=1))
