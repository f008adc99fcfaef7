"""hmc: the posterior itself, sampled by a few long chains of the No-U-Turn sampler."""

import functools
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
from blackjax.adaptation.mass_matrix import mass_matrix_adaptation
from blackjax.adaptation.staged_adaptation import build_schedule
from blackjax.adaptation.step_size import dual_averaging_adaptation

from offmap.arrays import Array, Bool, Data, Float, Int, Key, default_promotion, single_precision
from offmap.artifact import storable
from offmap.cores import n_cores
from offmap.families import Empirical
from offmap.inference.method import Density, Fit
from offmap.inference.mixing import diagnose, has_mixed, warn_not_mixed
from offmap.model import Model
from offmap.progress import report

STEPS_PER_CALL = 25  # short enough for a live progress bar and a quick Ctrl-C
SECONDS_BETWEEN_REPORTS = 0.5


class Problem(NamedTuple):
    """What is sampled, and at which acceptance rate."""

    target_acceptance: Float[Array, ""]
    model: Model
    data: Data

    def log_density(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """The posterior's, up to a constant."""
        return self.model.log_joint(theta, self.data)


class Chain(NamedTuple):
    """One Markov chain: where it is, and what it has learned of its step size and (diagonal) mass matrix."""

    position: Any  # blackjax's HMCState
    step_size: Any  # blackjax's DualAveragingAdaptationState
    mass: Any  # blackjax's MassMatrixAdaptationState


class Stage(NamedTuple):
    """What a step adapts, after Stan: the step size always, the mass in windows, each of which starts afresh."""

    adapting: Bool[Array, " s"]
    learns_mass: Bool[Array, " s"]
    ends_window: Bool[Array, " s"]


class Steps(NamedTuple):
    """States that a chain went through, and how each step went."""

    theta: Float[Array, "s p"]
    acceptance_rate: Float[Array, " s"]
    leapfrog_steps: Int[Array, " s"]
    diverged: Array


@storable
@dataclass(frozen=True)
class HMC:
    """No-U-Turn sampling of theta, `chains` chains started apart at draws of the prior.

    Warm-up adapts each chain's step size and diagonal mass matrix. After `draws` draws a chain, and again whenever they
    have doubled, predictions at training rows and at rows of nu are checked: sampling goes on until their R-hat is at
    most 1.01 and their bulk effective sample size at least `enough`, or `most_draws` are drawn. The trace holds both,
    and those of some entries of theta, which are not judged: networks that differ by the order of their hidden units
    are the same predictor, so theta need not mix for its predictors to. For the same reason a trajectory does not wait
    for theta to turn back: it is cut after `first_doublings` doublings, and only where that was not enough for the
    predictions to mix, later ones after `most_doublings`.
    """

    chains: int = 4
    warmup: int = 500
    draws: int = 500
    target_acceptance: float = 0.8
    enough: float = 1000.0
    most_draws: int = 8000
    first_doublings: int = 8
    most_doublings: int = 10

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
        start_key, run_key, check_key = jax.random.split(key, 3)
        starts = model.parameter_prior.sample(start_key, self.chains, model.network)
        chains = _Chains(self, model, data, jax.random.split(run_key, self.chains))
        chains.warm_up(starts)
        steps = chains.draw(self.draws, self.first_doublings)
        while not has_mixed(checks := diagnose(check_key, model, data, steps.theta), self.enough):
            more = min(steps.theta.shape[1], self.most_draws - steps.theta.shape[1])
            if more <= 0:
                warn_not_mixed(
                    "chains",
                    checks,
                    remedy="Use a larger most_draws or a larger noise_std, or method=offmap.inference.MarginalHMC(), "
                    "which is slower and finds modes that chains do not.",
                )
                break
            steps = jax.tree.map(
                lambda *parts: jnp.concatenate(parts, axis=1), steps, chains.draw(more, self.most_doublings)
            )
        trace = steps._asdict()
        thetas = trace.pop("theta")
        return Fit(posterior=Empirical.of_chains(thetas), trace=trace | checks)


@jax.jit
def _start(problem: Problem, theta: Float[Array, " p"]) -> Chain:
    """A chain before its first step."""
    with default_promotion():
        return Chain(
            position=blackjax.nuts.init(theta, problem.log_density),
            step_size=dual_averaging_adaptation(problem.target_acceptance)[0](1.0),
            mass=mass_matrix_adaptation(is_diagonal_matrix=True)[0](len(theta)),
        )


def _warmup_stages(n_steps: int) -> Stage:
    """What each step of warm-up adapts."""
    with default_promotion():
        schedule = jnp.asarray(build_schedule(n_steps), bool)
    return Stage(adapting=jnp.ones(n_steps, bool), learns_mass=schedule[:, 0], ends_window=schedule[:, 1])


def _drawing_stages(n_steps: int) -> Stage:
    """Nothing is adapted any more."""
    still = jnp.zeros(n_steps, bool)
    return Stage(adapting=still, learns_mass=still, ends_window=still)


def _adapted(target: Float[Array, ""], chain: Chain, stage: Stage, acceptance_rate: Float[Array, ""]) -> Chain:
    """The chain after learning from its last step what the stage says."""
    start_step, update_step, final_step = dual_averaging_adaptation(target)
    _, update_mass, final_mass = mass_matrix_adaptation(is_diagonal_matrix=True)
    state = chain.position
    step_size = update_step(chain.step_size, acceptance_rate)
    mass = _where(stage.learns_mass, update_mass(chain.mass, state.position, state.logdensity_grad), chain.mass)
    mass = _where(stage.ends_window, final_mass(mass), mass)
    step_size = _where(stage.ends_window, start_step(final_step(step_size)), step_size)
    return _where(stage.adapting, chain._replace(step_size=step_size, mass=mass), chain)


def _where(condition: Bool[Array, ""], new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


@functools.partial(jax.jit, static_argnames=("most_doublings",))
def _advance(problem: Problem, chain: Chain, keys: Key, stages: Stage, most_doublings: int) -> tuple[Chain, Steps]:
    """One step of the chain per stage."""
    kernel = functools.partial(blackjax.nuts.build_kernel(), max_num_doublings=most_doublings)

    def one_step(chain: Chain, step: tuple[Key, Stage]) -> tuple[Chain, Steps]:
        key, stage = step
        log_step = jnp.where(stage.adapting, chain.step_size.log_step_size, chain.step_size.log_step_size_avg)
        position, info = kernel(
            key, chain.position, problem.log_density, jnp.exp(log_step), chain.mass.inverse_mass_matrix
        )
        chain = _adapted(problem.target_acceptance, chain._replace(position=position), stage, info.acceptance_rate)
        return chain, Steps(
            theta=position.position,
            acceptance_rate=info.acceptance_rate,
            leapfrog_steps=info.num_integration_steps,
            diverged=info.is_divergent,
        )

    with default_promotion():
        return jax.lax.scan(one_step, chain, (keys, stages))


class _Chains:
    """Runs chains side by side, one thread each: trees of different depth then need not wait for one another."""

    def __init__(self, method: HMC, model: Model, data: Data, keys: Key) -> None:
        self.method, self.keys = method, keys
        self.problem = Problem(jnp.float32(method.target_acceptance), model, data)
        self.chains: list[Chain] = []
        self.done, self.planned = 0, 0
        self.lock = threading.Lock()
        self.cancelled = threading.Event()

    def warm_up(self, starts: Float[Array, "c p"]) -> None:
        """Take every chain from its start to where it can be trusted."""
        self.chains = [_start(self.problem, start) for start in starts]
        self._run(_warmup_stages(self.method.warmup), self.method.first_doublings, then=self.method.draws)

    def draw(self, n_steps: int, most_doublings: int) -> Steps:
        """The next steps of every chain, chains first."""
        return jax.tree.map(lambda *parts: jnp.stack(parts), *self._run(_drawing_stages(n_steps), most_doublings))

    def _run(self, stages: Stage, most_doublings: int, then: int = 0) -> list[Steps]:
        """One step per stage in every chain; progress counts as many as are known to follow, too."""
        n_chains = len(self.chains)
        self.keys, keys = jnp.moveaxis(jax.vmap(jax.random.split)(self.keys), 1, 0)
        total = max(self.planned, self.done + n_chains * (len(stages.adapting) + then))
        self.planned = total
        with ThreadPoolExecutor(min(n_chains, n_cores())) as threads:
            running = [
                threads.submit(self._steps, chain, key, stages, most_doublings)
                for chain, key in zip(self.chains, keys, strict=True)
            ]
            try:
                while wait(running, SECONDS_BETWEEN_REPORTS).not_done:
                    report("sampling", self.done, total)
            except KeyboardInterrupt:
                self.cancelled.set()
                raise KeyboardInterrupt(
                    f"interrupted after {self.done} of {total} steps of all chains; nothing was kept."
                ) from None
        report("sampling", self.done, total)
        results = [chain.result() for chain in running]
        self.chains = [chain for chain, _ in results]
        return [steps for _, steps in results]

    def _steps(self, chain: Chain, key: Key, stages: Stage, most_doublings: int) -> tuple[Chain, Steps]:
        """One step per stage, in calls short enough to be interrupted."""
        n_steps, parts = len(stages.adapting), []
        with single_precision():
            keys = jax.random.split(key, n_steps)
            for first in range(0, n_steps, STEPS_PER_CALL):
                if self.cancelled.is_set():
                    raise CancelledError
                piece = slice(first, first + STEPS_PER_CALL)
                stage = jax.tree.map(lambda flags, piece=piece: flags[piece], stages)
                chain, steps = jax.block_until_ready(_advance(self.problem, chain, keys[piece], stage, most_doublings))
                parts.append(steps)
                with self.lock:
                    self.done += len(steps.theta)
            return chain, jax.tree.map(lambda *arrays: jnp.concatenate(arrays), *parts)
