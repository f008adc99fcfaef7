"""The output layer, integrated out: against Gaussians in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from offmap.arrays import Data
from offmap.inference.output_layer import completed, features, given_hidden, mirrored
from offmap.inputs import UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.prior import GaussianPrior

STD, NOISE_STD = 0.6, 0.2
X = jax.random.normal(jax.random.key(0), (25, 3))
DATA = Data(X=X, y=jnp.sin(X[:, 0]))


def model_with(hidden: tuple[int, ...]) -> Model:
    return Model(
        network=Network(n_inputs=3, hidden=hidden),
        prior=GaussianPrior(STD),
        noise_std=jnp.float32(NOISE_STD),
        inputs=UniformBox.around(X),
    )


def hidden_of(model: Model, seed: int) -> jax.Array:
    (theta,) = model.parameter_prior.sample(jax.random.key(seed), 1, model.network)
    return theta[: len(theta) - model.network.shapes[-1][0] - 1]


@pytest.mark.parametrize("hidden", [(7,), (4, 6), ()])
@pytest.mark.parametrize("slope_std", [0.0, 0.3])
def test_it_is_what_gaussians_in_closed_form_say(hidden: tuple[int, ...], slope_std: float) -> None:
    """ln p(y | H) up to a constant: y is Gaussian, with the covariance of noise, output layer and slopes together."""
    model = model_with(hidden)
    found, exact = [], []
    for seed in range(3):
        H = np.asarray(features(model, hidden_of(model, seed), X), np.float64)
        columns = slope_std * np.asarray(X, np.float64)
        covariance = NOISE_STD**2 * np.eye(25) + STD**2 * H @ H.T + columns @ columns.T
        found.append(float(given_hidden(model, DATA, hidden_of(model, seed), slope_std).log_marginal))
        exact.append(multivariate_normal(np.zeros(25), covariance).logpdf(np.asarray(DATA.y)))
    constant = -25 / 2 * np.log(2 * np.pi * NOISE_STD**2)  # the rest is that of the determinant lemma
    np.testing.assert_allclose(np.array(found) + constant, exact, atol=2e-3)


@pytest.mark.parametrize("hidden", [(7,), (4, 6), ()])
def test_completed_networks_have_the_output_layer_of_bayesian_linear_regression(hidden: tuple[int, ...]) -> None:
    model, n = model_with(hidden), 4000
    layers = hidden_of(model, 0)
    keys = jax.random.split(jax.random.key(1), n)
    thetas = np.asarray(jax.vmap(lambda key: completed(key, model, DATA, layers))(keys), np.float64)
    assert thetas.shape == (n, model.network.n_parameters)
    np.testing.assert_array_equal(thetas[:, : len(layers)], np.tile(layers, (n, 1)))
    H = np.asarray(features(model, layers, X), np.float64)
    covariance = np.linalg.inv(H.T @ H / NOISE_STD**2 + np.eye(H.shape[1]) / STD**2)
    mean, std = covariance @ H.T @ np.asarray(DATA.y) / NOISE_STD**2, np.sqrt(np.diag(covariance))
    w = thetas[:, len(layers) :]
    assert np.max(np.abs((w.mean(axis=0) - mean) / (std / np.sqrt(n)))) < 4
    assert np.max(np.abs((w.std(axis=0) / std - 1) * np.sqrt(2 * n))) < 4
    # along the direction that rows tell least of, which mixes all entries
    direction = np.linalg.eigh(covariance)[1][:, -1]
    assert abs((w @ direction).std() / np.sqrt(direction @ covariance @ direction) - 1) * np.sqrt(2 * n) < 4


@pytest.mark.parametrize("hidden", [(7,), (4, 6)])
def test_a_mirrored_unit_is_on_where_it_was_off_and_nothing_else_changes(hidden: tuple[int, ...]) -> None:
    model = model_with(hidden)
    layers = hidden_of(model, 2)
    other = mirrored(model, layers, jnp.int32(3))
    before, after = features(model, layers, X), features(model, other, X)
    assert np.all((np.asarray(before[:, 3]) > 0) != (np.asarray(after[:, 3]) > 0))
    np.testing.assert_array_equal(np.delete(before, 3, axis=1), np.delete(after, 3, axis=1))
    assert jnp.sum(layers != other) == (hidden[-2] if len(hidden) > 1 else 3) + 1
    np.testing.assert_array_equal(mirrored(model, other, jnp.int32(3)), layers)
    np.testing.assert_array_equal(jnp.abs(layers), jnp.abs(other))  # so the prior says the same of both


def test_with_a_linear_function_beside_it_a_mirrored_unit_fits_as_well() -> None:
    """relu(z) - relu(-z) = z, which wide slopes take over at hardly any cost; without them it costs much."""
    model = model_with((2,))
    hinge = jnp.zeros(8).at[0].set(2.0).at[6].set(0.5)  # relu(2 x_0 + 0.5)
    data = DATA._replace(y=jax.nn.relu(2 * X[:, 0] + 0.5))

    def lost(slope_std: float) -> float:
        one, other = (
            given_hidden(model, data, layers, slope_std) for layers in (hinge, mirrored(model, hinge, jnp.int32(0)))
        )
        return float(one.log_marginal - other.log_marginal)

    assert lost(0.0) > 100
    assert abs(lost(10.0)) < 5
