"""The network against a plain numpy forward pass and against scikit-learn's."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neural_network import MLPRegressor

from offmap.network import Activation, Layer, Network

SHAPES = [(), (7,), (6, 4)]


def theta_and_rows(network: Network, n_rows: int = 11) -> tuple[jax.Array, jax.Array]:
    theta_key, row_key = jax.random.split(jax.random.key(0))
    return network.initial(theta_key), jax.random.normal(row_key, (n_rows, network.n_inputs))


def plain_forward(network: Network, theta: jax.Array, X: jax.Array) -> np.ndarray:
    """The same network in float64, its layers cut from theta one number after the other."""
    numbers = iter(np.asarray(theta, np.float64).tolist())
    values = np.asarray(X, np.float64)
    for depth, (fan_in, fan_out) in enumerate(network.shapes):
        weight = np.array([[next(numbers) for _ in range(fan_out)] for _ in range(fan_in)])
        bias = np.array([next(numbers) for _ in range(fan_out)])
        values = values @ weight + bias
        if depth < len(network.hidden):
            values = np.maximum(values, 0) if network.activation == "relu" else np.tanh(values)
    assert next(numbers, None) is None
    return values


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("hidden", SHAPES)
def test_forward_pass_is_the_plain_one(hidden: tuple[int, ...], activation: Activation) -> None:
    network = Network(n_inputs=3, hidden=hidden, activation=activation, n_outputs=2)
    theta, X = theta_and_rows(network)
    np.testing.assert_allclose(network.apply(theta, X), plain_forward(network, theta, X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("hidden", [(7,), (6, 4)])
def test_sklearns_network_with_the_same_weights_predicts_the_same(
    hidden: tuple[int, ...], activation: Activation
) -> None:
    network = Network(n_inputs=3, hidden=hidden, activation=activation)
    theta, X = theta_and_rows(network)
    theirs = MLPRegressor(hidden_layer_sizes=hidden, activation=activation)
    theirs.partial_fit(np.zeros((1, 3)), np.zeros(1))  # makes its layers
    theirs.coefs_ = [np.asarray(layer.weight, np.float64) for layer in network.layers(theta)]
    theirs.intercepts_ = [np.asarray(layer.bias, np.float64) for layer in network.layers(theta)]
    np.testing.assert_allclose(network.apply(theta, X)[:, 0], theirs.predict(np.asarray(X)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hidden", [(), (1,), (7,), (50,), (6, 4)])  # one ReLU layer may have a compiled kernel
@pytest.mark.parametrize("n_rows", [1, 37])
def test_draws_are_forward_passes_and_so_are_their_gradients(hidden: tuple[int, ...], n_rows: int) -> None:
    network = Network(n_inputs=3, hidden=hidden)
    thetas = jax.vmap(network.initial)(jax.random.split(jax.random.key(2), 5))
    X = jax.random.normal(jax.random.key(3), (n_rows, 3))
    one_by_one = np.stack([plain_forward(network, theta, X)[:, 0] for theta in thetas])
    np.testing.assert_allclose(network.draws(thetas, X), one_by_one, rtol=1e-5, atol=1e-6)

    def squares(draws: Callable[[jax.Array, jax.Array], jax.Array]) -> Callable[[jax.Array, jax.Array], jax.Array]:
        return lambda thetas, X: jnp.sum(draws(thetas, X) ** 2)

    gradients, plain = (jax.jit(jax.grad(squares(f), (0, 1)))(thetas, X) for f in (network.draws, network.plain_draws))
    for gradient, expected in zip(gradients, plain, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


def test_without_hidden_layers_it_is_linear() -> None:
    network = Network(n_inputs=3, hidden=())
    theta, X = theta_and_rows(network)
    np.testing.assert_allclose(network.apply(theta, X)[:, 0], X @ theta[:3] + theta[3], rtol=1e-6)


@pytest.mark.parametrize("hidden", SHAPES)
def test_flatten_inverts_layers(hidden: tuple[int, ...]) -> None:
    network = Network(n_inputs=3, hidden=hidden)
    theta = jnp.arange(network.n_parameters, dtype=jnp.float32)
    layers = network.layers(theta)
    assert [layer.weight.shape for layer in layers] == network.shapes
    np.testing.assert_array_equal(network.flatten(layers), theta)


def test_theta_lists_weights_row_by_row_then_biases() -> None:
    (first, second) = Network(n_inputs=2, hidden=(2,)).layers(jnp.arange(9.0))
    expected = [
        Layer(jnp.array([[0.0, 1.0], [2.0, 3.0]]), jnp.array([4.0, 5.0])),
        Layer(jnp.array([[6.0], [7.0]]), jnp.array([8.0])),
    ]
    jax.tree.map(np.testing.assert_array_equal, [first, second], expected)


@pytest.mark.parametrize("hidden", SHAPES)
def test_folded_gates_equal_gated_units(hidden: tuple[int, ...]) -> None:
    network = Network(n_inputs=3, hidden=hidden)
    theta, X = theta_and_rows(network)
    gates = [jnp.where(jnp.arange(width) % 3 == 0, 0.0, 1.5) for width in hidden]
    gated = network.apply(theta, X, [gate[None, :] for gate in gates])
    np.testing.assert_allclose(network.apply(network.fold_gates(theta, gates), X), gated, rtol=1e-5, atol=1e-6)


def test_initial_weights_fill_their_layers_bounds() -> None:
    """Of n uniforms on (-b, b) the largest |u| / b is under 1 and has mean n / (n + 1), variance about 1 / n^2."""
    network = Network(n_inputs=4, hidden=(100, 25))
    for layer, (fan_in, _) in zip(network.layers(network.initial(jax.random.key(1))), network.shapes, strict=True):
        numbers = np.concatenate([np.ravel(part) for part in layer]) * np.sqrt(fan_in)
        largest, n = np.max(np.abs(numbers)), len(numbers)
        assert largest <= 1
        assert (1 - largest) * n < -np.log(1e-4)  # the gap below the bound is exponential with mean 1 / n
        assert abs(np.mean(numbers)) / np.sqrt(1 / (3 * n)) < 4


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match="activation is 'selu', but it must be one of: relu, gelu, tanh"):
        Network(n_inputs=1, activation="selu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one unit"):
        Network(n_inputs=1, hidden=(5, 0))
