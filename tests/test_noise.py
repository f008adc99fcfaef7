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


def test_a_table_without_noise_gets_the_smallest() -> None:
    assert held_out_noise_std(KEY, MODEL, Data(X=X, y=SIGNAL)) == SMALLEST
