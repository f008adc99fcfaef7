"""Small problems whose posterior is known, or is sampled in seconds, and methods that take no longer for them."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from offmap.arrays import Data
from offmap.inference import BatchedHMC, MarginalHMC, Method
from offmap.inference.annealed_hmc import AnnealedHMC
from offmap.inputs import UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.prior import GaussianPrior
from offmap.schedules import Constant

NOISE_STD, PRIOR_STD = 0.5, 0.7


class Conjugate(NamedTuple):
    """A linear predictor, whose posterior is known exactly."""

    model: Model
    data: Data
    mean: np.ndarray
    covariance: np.ndarray


def conjugate(correlation: float) -> Conjugate:
    """48 rows of two columns with this correlation."""
    random = np.random.default_rng(3)
    # Whitened exactly, so that without correlation the posterior is a product of independent Gaussians.
    raw = np.linalg.qr(np.column_stack([np.ones(48), random.normal(size=(48, 2))]))[0][:, 1:] * np.sqrt(48)
    X = raw @ np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]]).T
    y = X @ [0.8, -0.4] + 0.3 + NOISE_STD * random.normal(size=48)
    design = np.column_stack([X, np.ones(48)])
    covariance = np.linalg.inv(design.T @ design / NOISE_STD**2 + np.eye(3) / PRIOR_STD**2)
    return Conjugate(
        model=Model(
            network=Network(n_inputs=2, hidden=()),
            prior=GaussianPrior(PRIOR_STD),
            noise_std=jnp.float32(NOISE_STD),
            inputs=UniformBox.around(jnp.asarray(X, jnp.float32)),
        ),
        data=Data(X=jnp.asarray(X, jnp.float32), y=jnp.asarray(y, jnp.float32)),
        mean=covariance @ design.T @ y / NOISE_STD**2,
        covariance=covariance,
    )


def two_modes() -> tuple[Model, Data]:
    """One unit, v tanh(w x): (w, v) and (-w, -v) are the same predictor, so each side has half of the posterior."""
    X = jnp.linspace(-2.0, 2.0, 30)[:, None]
    model = Model(
        network=Network(n_inputs=1, hidden=(1,), activation="tanh"),
        prior=GaussianPrior(1.0),
        noise_std=jnp.float32(0.05),
        inputs=UniformBox.around(X),
    )
    return model, Data(X=X, y=jnp.tanh(1.5 * X[:, 0]))


def one_hinge() -> tuple[Model, Data]:
    """v relu(w x + b) + c on a parabola's rows: on for either end, and as often, for the rows are their own mirror."""
    half = jnp.linspace(0.0, 2.0, 16)
    X = jnp.concatenate([-half[:0:-1], half])[:, None]
    model = Model(
        network=Network(n_inputs=1, hidden=(1,)),
        prior=GaussianPrior(1.0),
        noise_std=jnp.float32(0.6),
        inputs=UniformBox.around(X),
    )
    return model, Data(X=X, y=0.5 * X[:, 0] ** 2 - 0.6)


def small_problem() -> tuple[Model, Data]:
    """Forty rows and eight hidden units."""
    X = jax.random.normal(jax.random.key(5), (40, 3))
    model = Model(
        network=Network(n_inputs=3, hidden=(8,)),
        prior=GaussianPrior(),
        noise_std=jnp.float32(0.3),
        inputs=UniformBox.around(X),
    )
    return model, Data(X=X, y=jnp.sin(X[:, 0]) + 0.1 * jax.random.normal(jax.random.key(6), (40,)))


def shrunk(method: Method) -> Any:
    """The same method in a second or two."""
    if hasattr(method, "training"):
        return replace(method, training=replace(method.training, schedule=Constant(epochs=3), batch_size=16))
    if isinstance(method, AnnealedHMC):
        return replace(method, populations=2, draws=30, effort=8, settling=1, patience=1)
    if isinstance(method, BatchedHMC):
        return replace(method, chains=2, leapfrog_steps=8, warmup=30, draws=30, thinning=1, most_draws=30)
    if isinstance(method, MarginalHMC):
        return replace(method, chains=2, levels=2, tops=2, leapfrog_steps=8, warmup=30, draws=30, most_draws=30)
    return replace(method, chains=2, warmup=30, draws=30, most_draws=30)
