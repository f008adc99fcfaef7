"""The noise found by held-out residuals against the noise that was put in."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from offmap.arrays import Data
from offmap.inputs import UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.noise import SMALLEST, held_out_noise_std
from offmap.prior import GaussianPrior

X_KEY, NOISE_KEY, KEY = jax.random.split(jax.random.key(0), 3)
X = jax.random.normal(X_KEY, (400, 2))
SIGNAL = X @ jnp.array([0.8, -0.5])
MODEL = Model(network=Network(n_inputs=2, hidden=()), prior=GaussianPrior(), noise_std=1.0, inputs=UniformBox.around(X))


def test_known_noise_is_found() -> None:
    """240 held-out rows of 400, so their squared residuals over noise^2 (1 + 3 / 320) are chi-square, nearly."""
    y = SIGNAL + 0.3 * jax.random.normal(NOISE_KEY, (400,))
    found = held_out_noise_std(KEY, MODEL, Data(X=X, y=y))
    low, high = 0.3 * np.sqrt((1 + 3 / 320) * stats.chi2(240).ppf([stats.norm.sf(4), stats.norm.cdf(4)]) / 240)
    assert low < found < high


def test_noise_that_a_network_could_learn_by_heart_is_found() -> None:
    """Pure noise, and more units than rows: asked about rows that it learned, a network would find hardly any."""
    rows, y = jax.random.normal(X_KEY, (60, 5)), jax.random.normal(NOISE_KEY, (60,))
    model = Model(
        network=Network(n_inputs=5, hidden=(100,)), prior=GaussianPrior(), noise_std=1.0, inputs=UniformBox.around(rows)
    )
    assert held_out_noise_std(KEY, model, Data(X=rows, y=y)) > 0.9 * float(jnp.std(y))


def test_a_table_without_noise_gets_the_smallest() -> None:
    assert held_out_noise_std(KEY, MODEL, Data(X=X, y=SIGNAL)) == SMALLEST


def test_many_rows_are_learned_for_longer() -> None:
    """What a network has not had the steps to learn is no noise: 3,000 steps find 0.083 here, where there is 0.05."""
    corners = jax.random.uniform(X_KEY, (6000, 2), minval=-1.7, maxval=1.7)
    surface = jnp.sin(2 * corners[:, 0]) * jnp.cos(2 * corners[:, 1])
    y = surface + 0.05 * jax.random.normal(NOISE_KEY, (6000,))
    network = Network(n_inputs=2, hidden=(50,))
    model = Model(network=network, prior=GaussianPrior(), noise_std=1.0, inputs=UniformBox.around(corners))
    assert 0.045 < held_out_noise_std(KEY, model, Data(X=corners, y=y)) < 0.065
