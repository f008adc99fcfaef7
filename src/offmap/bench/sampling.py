"""HMC: effective draws a second of predictions, against NumPyro's No-U-Turn sampler on the same log density."""

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from offmap.arrays import Array, Data, Float, Key
from offmap.bench.figure import Figure
from offmap.bench.tables import real, standardised
from offmap.inference.hmc import HMC
from offmap.inference.mixing import ess, rhat
from offmap.model import Model

# With the noise of the paper, in units of the standardised target.
PROBLEMS = [("boston", 2.5), ("concrete", 4.5)]


class Sampling(NamedTuple):
    """How well the slowest of 200 predictions was sampled, and in what time."""

    seconds: float
    least_ess: float
    worst_rhat: float


def measure(quick: bool, data_dir: Path | None) -> Iterator[Figure]:
    """The figures of sampling, where NumPyro and the tables are."""
    if find_spec("numpyro") is None:
        return
    for name, noise_std in PROBLEMS[:1] if quick else PROBLEMS:
        for table in real([name], data_dir):
            yield from _against_numpyro(f"{name}, noise {noise_std:g}", *standardised(table, noise_std), quick)


def _against_numpyro(where: str, model: Model, data: Data, quick: bool) -> Iterator[Figure]:
    # However few effective draws there are: they are what is measured.
    method = HMC(warmup=200, draws=400, most_draws=400, enough=0) if quick else HMC(most_draws=500, enough=0)
    rows = jnp.concatenate([data.X[:100], model.inputs.sample(jax.random.key(2), 100)])

    def ours(key: Key) -> Float[Array, "c s p"]:
        thetas = method.fit(key, model, data).posterior.thetas  # type: ignore[attr-defined]
        return thetas.reshape(method.chains, method.draws, -1)

    our = _timed(ours, model, rows)
    their = _timed(_numpyro(method, model, data), model, rows)
    rate, reference = our.least_ess / our.seconds, their.least_ess / their.seconds
    yield Figure(f"hmc's ESS/s / NumPyro's, {where}", rate / reference, "times", rate, reference, ">= 1.5")
    yield Figure(f"hmc's worst R-hat, {where}", our.worst_rhat, "", our.worst_rhat, their.worst_rhat, "<= 1.01")


def _timed(sample: Callable[[Key], Float[Array, "c s p"]], model: Model, rows: Float[Array, "n d"]) -> Sampling:
    """A second run, so that compilation is not in it. Warm-up is."""
    sample(jax.random.key(0))
    started = time.perf_counter()
    thetas = jax.block_until_ready(sample(jax.random.key(1)))
    seconds = time.perf_counter() - started
    predictions = jnp.stack([model.predict_draws(chain, rows) for chain in thetas])
    return Sampling(seconds, float(np.min(ess(predictions))), float(np.max(rhat(predictions))))


def _numpyro(method: HMC, model: Model, data: Data) -> Callable[[Key], Float[Array, "c s p"]]:
    """NumPyro's defaults: diagonal mass matrix, acceptance 0.8, chains one after another on a single device."""
    from numpyro.infer import MCMC, NUTS

    def potential(theta: Float[Array, " p"]) -> Float[Array, ""]:
        residuals = (data.y - model.predict(theta, data.X)) / model.noise_std
        return 0.5 * jnp.sum(residuals**2) + 0.5 * jnp.sum((theta / model.parameter_prior.std) ** 2)

    run = MCMC(
        NUTS(potential_fn=potential),
        num_warmup=method.warmup,
        num_samples=method.draws,
        num_chains=method.chains,
        chain_method="sequential",
        progress_bar=False,
    )

    def sample(key: Key) -> Float[Array, "c s p"]:
        start_key, run_key = jax.random.split(key)
        run.run(run_key, init_params=model.parameter_prior.sample(start_key, method.chains, model.network))
        return run.get_samples(group_by_chain=True)

    return sample
