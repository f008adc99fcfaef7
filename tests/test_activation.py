"""activation="auto": targets with corners and without, with noise and without, few rows and many."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offmap import activation, noise
from offmap.activation import suited_activation
from offmap.arrays import Array, Data
from offmap.inference import METHODS
from offmap.inference.ensemble import Ensemble
from offmap.inputs import UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.optimize import Training
from offmap.prior import GaussianPrior
from offmap.regressor import DiverseRegressor
from offmap.schedules import Constant

X_KEY, KEY = jax.random.split(jax.random.key(0))
X = jax.random.uniform(X_KEY, (150, 2), minval=-1.7, maxval=1.7)
SMOOTH = jnp.sin(2 * X[:, 0]) + X[:, 0] * X[:, 1]
NOISY = SMOOTH + jax.random.normal(KEY, (150,))
CORNERS = jnp.abs(X[:, 0]) - jnp.maximum(X[:, 1] - X[:, 0], 0.5)
MODEL = Model(
    network=Network(n_inputs=2, hidden=(50,)), prior=GaussianPrior(), noise_std=1.0, inputs=UniformBox.around(X)
)
QUICK = Ensemble(members=2, training=Training(learning_rate=0.01, batch_size=50, schedule=Constant(epochs=2)))


@pytest.mark.parametrize(
    ("y", "suited"), [(SMOOTH, "gelu"), (NOISY, "relu"), (CORNERS, "relu")], ids=["smooth", "noisy", "corners"]
)
def test_the_shape_of_the_target_decides(y: Array, suited: str) -> None:
    assert suited_activation(KEY, MODEL, 0.1, Data(X=X, y=y)) == suited


def test_where_it_cannot_matter_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(activation, "held_out_error")
    many = jnp.zeros((2000, 2))
    assert suited_activation(KEY, MODEL, 0.4, Data(X=X, y=SMOOTH)) == "relu"
    assert suited_activation(KEY, MODEL, 0.1, Data(X=many, y=many[:, 0])) == "relu"
    linear = replace(MODEL, network=Network(n_inputs=2, hidden=()))
    assert suited_activation(KEY, linear, 0.1, Data(X=X, y=SMOOTH)) == "relu"


@pytest.mark.parametrize("name", METHODS)
def test_only_an_ensemble_may_be_smooth(name: str) -> None:
    """The others gain too little by it, or lose: see docs/design.md."""
    assert METHODS[name].may_be_smooth == (name == "ensemble")


def test_the_noise_is_that_of_the_network_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    auto, asked = (
        DiverseRegressor(QUICK, activation=choice, random_state=0).fit(np.asarray(X), np.asarray(SMOOTH))
        for choice in ("auto", "gelu")
    )
    assert auto.network_ == asked.network_ == Network(n_inputs=2, hidden=(50,), activation="gelu")
    assert auto.noise_std_ == asked.noise_std_
    np.testing.assert_array_equal(auto.predict(X), asked.predict(X))
    # With a noise that is given no rows are held out.
    for module in (noise, activation):
        monkeypatch.delattr(module, "held_out_error")
    given = DiverseRegressor(QUICK, noise_std=0.01).fit(np.asarray(X), np.asarray(SMOOTH))
    assert given.noise_std_ == pytest.approx(0.01)
    assert given.network_.activation == "relu"
