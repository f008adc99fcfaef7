"""hmc for independent draws: populations of networks are annealed, and move by Hamiltonian Monte Carlo."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from offmap.arrays import Data, Key, single_precision
from offmap.artifact import storable
from offmap.families import Empirical
from offmap.inference.annealing import Populations, levels_left, next_share, resampled, reweighted
from offmap.inference.method import Density, Fit
from offmap.inference.mixing import diagnose, has_mixed, warn_not_mixed
from offmap.inference.trajectories import FIRST_STEP_SIZE, Course, adapted, follow, log_likelihoods
from offmap.model import Model
from offmap.progress import report

# In one call: without a compiled kernel, hidden values are in memory; and it should end soon after Ctrl-C.
HIDDEN_VALUES_AT_ONCE, FEWEST_AT_ONCE = 2**22, 16
POOR = 0.5  # a population that is worth less than this of its number is resampled


class Move(NamedTuple):
    """How one trajectory of every network went."""

    share: float
    step_size: float
    leapfrog_steps: int
    acceptance_rate: float


@storable
@dataclass(frozen=True)
class AnnealedHMC:
    """`populations` independent populations of `draws` networks each, from the prior to the posterior by degrees.

    They start as draws of the prior, and the likelihood's share in the log density rises from 0 to 1: at a time so far
    that the weighted networks keep at least `keep` of their effective number. Then every network moves, by Hamiltonian
    trajectories `length` times as long as the networks' std in every coordinate, but of at most `most_steps` leapfrog
    steps, until it has taken `effort` steps. The step size keeps to `target_acceptance`. Networks of little weight are
    replaced by copies of others. Copies are neighbours from then on, so an effective sample size counts them as one
    until they have moved apart.

    At the posterior they move `settling` times as far as at one level, for the last copies to part, and then
    predictions at training rows and at rows of nu are checked: the networks move on until R-hat of the populations is
    at most 1.01 and the bulk effective sample size at least `enough`, but no more than `patience` times as far. The
    trace holds both, and those of some entries of theta, which are not judged: networks that differ by the order of
    their hidden units are the same predictor.
    """

    populations: int = 4
    draws: int = 512
    keep: float = 0.8
    effort: int = 64
    length: float = 1.5
    most_steps: int = 512
    target_acceptance: float = 0.8
    enough: float = 1000.0
    settling: int = 5
    patience: int = 20

    density: ClassVar[Density] = "mixture"
    may_be_smooth: ClassVar[bool] = False

    @property
    def networks_at_once(self) -> int:
        """All of them, before and after a move, and their random numbers."""
        return 4 * self.populations * self.draws

    def fit(self, key: Key, model: Model, data: Data) -> Fit:
        """The networks of all populations, at the posterior."""
        with single_precision():
            return self._fit(key, model, data)

    def _fit(self, key: Key, model: Model, data: Data) -> Fit:
        start_key, anneal_key, move_key, check_key = jax.random.split(key, 4)
        sampler = _Sampler(self, model, data)
        now = sampler.annealed(anneal_key, sampler.start(start_key))
        for rounds, one_key in enumerate(jax.random.split(move_key, self.patience), start=1):
            now = sampler.moved(one_key, now)
            report("sampling at the posterior", rounds, self.patience)
            if rounds < min(self.settling, self.patience):
                continue
            if has_mixed(checks := diagnose(check_key, model, data, now.thetas), self.enough):
                break
        else:
            warn_not_mixed("populations", checks, remedy="Use more draws, more effort or a larger noise_std.")
        trace = {name: jnp.asarray(values) for name, *values in zip(Move._fields, *sampler.moves, strict=True)}
        return Fit(posterior=Empirical(thetas=now.thetas.reshape(-1, now.thetas.shape[-1])), trace=trace | checks)


class _Sampler:
    """Takes populations from the prior to the posterior, and learns on the way how long a step may be."""

    def __init__(self, method: AnnealedHMC, model: Model, data: Data) -> None:
        self.method, self.model, self.data = method, model, data
        self.at_once = max(FEWEST_AT_ONCE, HIDDEN_VALUES_AT_ONCE // (len(data.y) * max(1, sum(model.network.hidden))))
        self.step_size = FIRST_STEP_SIZE
        self.moves: list[Move] = []

    def start(self, key: Key) -> Populations:
        """Draws of the prior."""
        shape = (self.method.populations, self.method.draws)
        thetas = self.model.parameter_prior.sample(key, shape[0] * shape[1], self.model.network)
        pieces = [log_likelihoods(self.model, self.data, thetas[piece]) for piece in self._pieces(len(thetas))]
        every = np.asarray(jnp.concatenate(pieces)[: len(thetas)], np.float64)
        return Populations(
            thetas=thetas.reshape(*shape, -1),
            log_likelihoods=every.reshape(shape),
            log_weights=np.zeros(shape),
            share=0.0,
        )

    def annealed(self, key: Key, now: Populations) -> Populations:
        """The populations when the likelihood has its whole share."""
        levels, left = 0, 1
        try:
            while now.share < 1:
                key, resample_key, move_key = jax.random.split(key, 3)
                share = next_share(now, self.method.keep)
                left = levels_left(now.share, share)
                now = resampled(resample_key, reweighted(now, share), at_least=POOR if share < 1 else 1.0)
                now = self.moved(move_key, now)
                levels += 1
                report("sampling", levels, levels + left)
        except KeyboardInterrupt:
            said = f"interrupted after {levels} of about {levels + left} levels; nothing was kept."
            raise KeyboardInterrupt(said) from None
        return now

    def moved(self, key: Key, now: Populations) -> Populations:
        """The populations after as many leapfrog steps of every network as one level takes."""
        steps = 0
        while steps < self.method.effort:
            key, trajectory_key = jax.random.split(key)
            now, move = self._trajectory(trajectory_key, now)
            self.moves.append(move)
            self.step_size = adapted(self.step_size, move.acceptance_rate, self.method.target_acceptance)
            steps += move.leapfrog_steps
        return now

    def _trajectory(self, key: Key, now: Populations) -> tuple[Populations, Move]:
        """One trajectory of every network."""
        shape, thetas = now.log_weights.shape, now.thetas.reshape(now.log_weights.size, -1)
        n_steps = max(1, min(self.method.most_steps, round(self.method.length / self.step_size)))
        course = Course(
            share=jnp.float32(now.share),
            step_size=jnp.float32(self.step_size),
            n_steps=jnp.int32(n_steps),
            variance=jnp.var(thetas, axis=0),
        )
        keys = jax.random.split(key, len(thetas))
        ends = [
            jax.block_until_ready(follow(course, self.model, self.data, keys[piece], thetas[piece]))
            for piece in self._pieces(len(thetas))
        ]
        end = jax.tree.map(lambda *pieces: jnp.concatenate(pieces)[: len(thetas)], *ends)
        now = now._replace(
            thetas=end.theta.reshape(now.thetas.shape),
            log_likelihoods=np.asarray(end.log_likelihood, np.float64).reshape(shape),
        )
        return now, Move(
            share=now.share,
            step_size=self.step_size,
            leapfrog_steps=n_steps,
            acceptance_rate=float(jnp.mean(end.acceptance_rate)),
        )

    def _pieces(self, n: int) -> list[np.ndarray]:
        """Which of `n` networks are dealt with in one call. The last piece is filled up, so all have one shape."""
        at_once = min(n, self.at_once)
        return list((np.arange(-(-n // at_once) * at_once) % n).reshape(-1, at_once))
