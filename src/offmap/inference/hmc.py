"""hmc: the posterior itself, sampled by the No-U-Turn sampler. The only file that knows BlackJAX."""

import functools
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
from blackjax.adaptation import window_adaptation
from blackjax.diagnostics import effective_sample_size, potential_scale_reduction
from sklearn.exceptions import ConvergenceWarning

from offmap.arrays import Array, Data, Float, Int, Key, default_promotion
from offmap.families import Empirical
from offmap.inference.method import Density, Fit
from offmap.model import Model
from offmap.progress import report

STEPS_PER_CALL = 25  # short enough for a live progress bar and a quick Ctrl-C
SECONDS_BETWEEN_REPORTS = 0.5
RHAT_LIMIT = 1.01
N_CHECKED_INPUTS = 100


class Chain(NamedTuple):
    """One Markov chain: where it is, and the step size and mass matrix it has learned so far."""

    position: Any  # blackjax's HMCState
    adaptation: Any  # blackjax's WindowAdaptationState


class Steps(NamedTuple):
    """States that a chain went through, and how each step went."""

    theta: Float[Array, "s p"]
    acceptance_rate: Float[Array, " s"]
    leapfrog_steps: Int[Array, " s"]
    diverged: Array


@dataclass(frozen=True)
class HMC:
    """No-U-Turn sampling of theta, `chains` chains started apart at draws of the prior.

    Warm-up adapts each chain's step size and diagonal mass matrix. The trace holds R-hat and effective sample size of
    predictions (at training rows and at rows of nu) and of theta. Only those of predictions are judged: networks that
    differ by the order of their hidden units are the same predictor, so theta need not mix for its predictors to.
    """

    chains: int = 4
    warmup: int = 500
    draws: int = 500
    target_acceptance: float = 0.8

    density: ClassVar[Density] = "mixture"

    def fit(self, key: Key, model: Model, data: Data) -> Fit:
        """The states of all chains after warm-up."""
        start_key, run_key, check_key = jax.random.split(key, 3)
        starts = model.parameter_prior.sample(start_key, self.chains, model.network)
        chains = _Chains(self, model, data).run(starts, jax.random.split(run_key, self.chains))
        steps = jax.tree.map(lambda *parts: jnp.stack(parts), *chains)
        trace = steps._asdict()
        thetas = trace.pop("theta")
        trace |= _diagnose(check_key, model, data, thetas)
        _warn_if_not_mixed(trace)
        return Fit(posterior=Empirical(thetas=thetas.reshape(-1, thetas.shape[-1])), trace=trace)


@functools.partial(jax.jit, static_argnames=("method",))
def _start(method: HMC, model: Model, data: Data, theta: Float[Array, " p"]) -> Chain:
    """A chain before its first step."""
    with default_promotion():
        init, _, _ = window_adaptation.base(True, method.target_acceptance)
        position = blackjax.nuts.init(theta, functools.partial(model.log_joint, data=data))
        return Chain(position=position, adaptation=init(theta, 1.0))


@functools.partial(jax.jit, static_argnames=("method",))
def _advance(
    method: HMC, model: Model, data: Data, chain: Chain, keys: Key, stages: Int[Array, "s 3"]
) -> tuple[Chain, Steps]:
    """One step per row of `stages`: whether to adapt, and what blackjax's window adaptation does at this step."""
    _, update, _ = window_adaptation.base(True, method.target_acceptance)
    kernel = blackjax.nuts.build_kernel()
    log_density = functools.partial(model.log_joint, data=data)

    def one_step(chain: Chain, step: tuple[Key, Int[Array, " 3"]]) -> tuple[Chain, Steps]:
        key, stage = step
        step_size, mass = chain.adaptation.step_size, chain.adaptation.inverse_mass_matrix
        position, info = kernel(key, chain.position, log_density, step_size, mass)
        learned = update(chain.adaptation, stage[1:], position.position, info.acceptance_rate)
        adaptation = jax.tree.map(lambda new, old: jnp.where(stage[0] == 1, new, old), learned, chain.adaptation)
        return Chain(position=position, adaptation=adaptation), Steps(
            theta=position.position,
            acceptance_rate=info.acceptance_rate,
            leapfrog_steps=info.num_integration_steps,
            diverged=info.is_divergent,
        )

    with default_promotion():
        return jax.lax.scan(one_step, chain, (keys, stages))


class _Chains:
    """Runs chains side by side, one thread each: trees of different depth then need not wait for one another."""

    def __init__(self, method: HMC, model: Model, data: Data) -> None:
        self.problem = (method, model, data)
        self.done = 0
        self.lock = threading.Lock()
        self.cancelled = threading.Event()

    def run(self, starts: Float[Array, "c p"], keys: Key) -> list[Steps]:
        """The steps of every chain after warm-up."""
        method = self.problem[0]
        total = method.chains * (method.warmup + method.draws)
        with ThreadPoolExecutor(min(method.chains, os.cpu_count() or 1)) as threads:
            running = [threads.submit(self._run_one, start, key) for start, key in zip(starts, keys, strict=True)]
            try:
                while wait(running, SECONDS_BETWEEN_REPORTS).not_done:
                    report("sampling", self.done, total)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"interrupted after {self.done} of {total} steps of all chains; nothing was kept."
                ) from None
            finally:
                self.cancelled.set()
        report("sampling", total, total)
        return [chain.result() for chain in running]

    def _run_one(self, start: Float[Array, " p"], key: Key) -> Steps:
        method, model, data = self.problem
        _, _, final = window_adaptation.base(True, method.target_acceptance)
        chain = _start(method, model, data, start)
        with default_promotion():
            schedule = jnp.asarray(window_adaptation.build_schedule(method.warmup), jnp.int32)
        adapting = jnp.concatenate([jnp.ones((method.warmup, 1), jnp.int32), schedule], axis=1)
        warmup_key, draw_key = jax.random.split(key)
        chain, _ = self._steps(chain, warmup_key, adapting)
        with default_promotion():
            step_size, mass = final(chain.adaptation)
        frozen = chain.adaptation._replace(step_size=step_size, inverse_mass_matrix=mass)
        _, steps = self._steps(chain._replace(adaptation=frozen), draw_key, jnp.zeros((method.draws, 3), jnp.int32))
        return steps

    def _steps(self, chain: Chain, key: Key, stages: Int[Array, "s 3"]) -> tuple[Chain, Steps]:
        """One step per stage, in calls short enough to be interrupted."""
        keys, parts = jax.random.split(key, len(stages)), []
        for first in range(0, len(stages), STEPS_PER_CALL):
            if self.cancelled.is_set():
                break
            piece = slice(first, first + STEPS_PER_CALL)
            chain, steps = jax.block_until_ready(_advance(*self.problem, chain, keys[piece], stages[piece]))
            parts.append(steps)
            with self.lock:
                self.done += len(steps.theta)
        return chain, jax.tree.map(lambda *arrays: jnp.concatenate(arrays), *parts)


@jax.jit
def _diagnose(key: Key, model: Model, data: Data, thetas: Float[Array, "c s p"]) -> dict[str, Array]:
    """Split R-hat and effective sample size of predictions at training rows and rows of nu, and of theta."""
    rows = data.X[:: max(1, len(data.X) // N_CHECKED_INPUTS)][:N_CHECKED_INPUTS]
    X = jnp.concatenate([rows, model.inputs.sample(key, N_CHECKED_INPUTS)])
    predictions = jax.lax.map(lambda chain: model.predict_draws(chain, X), thetas)
    return {
        f"{name}_{of}": statistic
        for of, values in (("predictions", predictions), ("theta", thetas))
        for name, statistic in (("rhat", split_rhat(values)), ("ess", ess(values)))
    }


def split_rhat(values: Float[Array, "c s v"]) -> Float[Array, " v"]:
    """R-hat with every chain cut in two, so that a chain that drifts is seen as well as chains that differ."""
    chains, draws, _ = values.shape
    halves = values[:, : draws // 2 * 2].reshape(2 * chains, draws // 2, -1)
    with default_promotion():
        return potential_scale_reduction(halves)


def ess(values: Float[Array, "c s v"]) -> Float[Array, " v"]:
    """Effective sample size, over all chains."""
    with default_promotion():
        return effective_sample_size(values)


def _warn_if_not_mixed(trace: dict[str, Array]) -> None:
    """Say which prediction mixed worst, when it did not mix well."""
    rhat = trace["rhat_predictions"]
    worst = int(jnp.argmax(rhat))
    size, worst_theta = float(trace["ess_predictions"][worst]), float(jnp.max(trace["rhat_theta"]))
    if rhat[worst] > RHAT_LIMIT:
        n_rows = len(rhat) - N_CHECKED_INPUTS
        where = f"checked training row {worst}" if worst < n_rows else f"OOD input {worst - n_rows}"
        warnings.warn(
            f"The chains have not mixed: of {len(rhat)} checked predictions the worst, at {where}, has R-hat "
            f"{rhat[worst]:.3f} (limit {RHAT_LIMIT}) and effective sample size {size:.0f}. Use more warmup or draws, "
            f"or a larger noise_std. (The worst R-hat of theta is {worst_theta:.2f}.)",
            ConvergenceWarning,
            stacklevel=2,
        )
