"""The compiled kernels against the plain JAX that they replace, and what happens without a compiler."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest

from offmap import kernels
from offmap.arrays import Array
from offmap.neighbours import squared_distances
from offmap.network import Network

needs_kernels = pytest.mark.skipif(not kernels.are_here(), reason="no C++ compiler here, so plain JAX does the work")
# (draws, rows, columns, hidden units): sizes around and across the blocks of 5 units and 16 rows.
SIZES = [(1, 1, 1, 1), (3, 7, 2, 5), (5, 8, 13, 16), (40, 203, 13, 50), (9, 4, 300, 33)]


@needs_kernels
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("size", SIZES)
def test_draws_and_their_gradients_are_those_of_plain_jax(
    size: tuple[int, int, int, int], activation: Literal["relu", "gelu"]
) -> None:
    s, n, d, h = size
    network = Network(n_inputs=d, hidden=(h,), activation=activation)
    theta_key, x_key, weight_key = jax.random.split(jax.random.key(s), 3)
    thetas = jax.random.normal(theta_key, (s, network.n_parameters))
    X, weight = jax.random.normal(x_key, (n, d)), jax.random.normal(weight_key, (s, n))

    def value_and_gradients(draws: Callable[[Array, Array], Array]) -> tuple[Array, ...]:
        values, pull = jax.vjp(draws, thetas, X)
        return (values, *pull(weight))

    compiled, plain = value_and_gradients(network.draws), value_and_gradients(network.plain_draws)
    for ours, theirs in zip(compiled, plain, strict=True):
        scale = float(jnp.max(jnp.abs(theirs)))
        # Sums of up to n * h float32 products, in another order.
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * scale)


@needs_kernels
def test_draws_under_vmap_are_those_one_by_one() -> None:
    network = Network(n_inputs=3, hidden=(6,))
    thetas = jax.random.normal(jax.random.key(0), (2, 4, network.n_parameters))
    X = jax.random.normal(jax.random.key(1), (2, 5, 3))
    together = jax.vmap(network.draws)(thetas, X)
    np.testing.assert_array_equal(together[1], network.draws(thetas[1], X[1]))


@needs_kernels
def test_gradients_of_many_networks_under_vmap_are_those_one_by_one() -> None:
    network = Network(n_inputs=3, hidden=(6,))
    thetas = jax.random.normal(jax.random.key(0), (7, network.n_parameters))
    X, weight = jax.random.normal(jax.random.key(1), (5, 3)), jax.random.normal(jax.random.key(2), (5,))

    def value(theta: Array, weight: Array) -> Array:
        return jnp.sum(weight * network.draws(theta[None, :], X)[0])

    together = jax.vmap(jax.value_and_grad(value), (0, None))(thetas, weight)
    one_by_one = [jax.value_and_grad(value)(theta, weight) for theta in thetas]
    for number, one in enumerate(one_by_one):
        jax.tree.map(
            lambda all_of_them, one, n=number: np.testing.assert_array_equal(all_of_them[n], one), together, one
        )
    programs = jax.jit(jax.vmap(jax.grad(value), (0, None))).lower(thetas, weight).as_text()
    assert programs.count("offmap_backward") == 1
    assert "while" not in programs  # one call, and no loop of calls


@needs_kernels
def test_a_smooth_unit_far_from_its_corner_is_zero_or_linear() -> None:
    """Where e^x would overflow or underflow: GELU(a) is a or 0 there, and its slope 1 or 0."""
    network = Network(n_inputs=1, hidden=(1,), activation="gelu")
    theta = jnp.array([1.0, 0.0, 1.0, 0.0])
    X = jnp.array([-1e4, -100.0, -20.0, 20.0, 100.0, 1e4])[:, None]
    np.testing.assert_allclose(network.draws(theta[None], X)[0], np.maximum(X[:, 0], 0), atol=1e-6)
    for row, x in enumerate(X[:, 0]):
        gradient = jax.grad(lambda theta, row=row: network.draws(theta[None], X)[0, row])(theta)
        np.testing.assert_allclose(gradient, [max(x, 0), x > 0, max(x, 0), 1], atol=1e-6)


@needs_kernels
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
def test_nan_in_the_weights_is_not_swallowed_by_the_activation(activation: Literal["relu", "gelu"]) -> None:
    network = Network(n_inputs=2, hidden=(3,), activation=activation)
    thetas = jnp.ones((1, network.n_parameters)).at[0, 0].set(jnp.nan)
    assert jnp.all(jnp.isnan(network.draws(thetas, jnp.ones((5, 2)))))


@needs_kernels
@pytest.mark.parametrize("shape", [(2, 1, 1), (5, 9, 3), (64, 31, 16), (101, 250, 200)])
@pytest.mark.parametrize("skip_self", [False, True])
def test_nearest_is_the_argmin_of_distances_in_float64(shape: tuple[int, int, int], skip_self: bool) -> None:
    n, m, d = shape
    queries = np.random.default_rng(n).normal(size=(n, d)).astype(np.float32)
    points = queries if skip_self else np.random.default_rng(m).normal(size=(m, d)).astype(np.float32)
    exact = ((queries[:, None].astype(np.float64) - points[None]) ** 2).sum(axis=-1)
    if skip_self:
        np.fill_diagonal(exact, np.inf)
    chosen = kernels.nearest(jnp.asarray(queries), jnp.asarray(points), skip_self)
    np.testing.assert_array_equal(chosen, exact.argmin(axis=1))


@needs_kernels
def test_nearest_keeps_its_digits_far_from_the_origin() -> None:
    offsets = np.array([0.0, 1.0, 3.0, 7.0, 15.0])[:, None] * np.ones((1, 20)) * 2**-10
    points = jnp.asarray(1000 + offsets, jnp.float32)
    np.testing.assert_array_equal(kernels.nearest(points, points, skip_self=True), [1, 0, 1, 2, 3])


@needs_kernels
@pytest.mark.parametrize("columns", [3, 200, 751])
def test_nearest_is_exact_where_the_sieve_loses_its_digits(columns: int) -> None:
    """Tight clusters a thousand apart and one row far from all: products of coordinates say nothing of neighbours."""
    random = np.random.default_rng(columns)
    centres = 1000 * random.normal(size=(4, columns))
    rows = centres[random.integers(0, 4, 150)] + 0.01 * random.normal(size=(150, columns))
    rows[17] = 1e6
    points = rows.astype(np.float32)
    exact = ((points[:, None].astype(np.float64) - points[None]) ** 2).sum(axis=-1)
    np.fill_diagonal(exact, np.inf)
    chosen = np.asarray(kernels.nearest(jnp.asarray(points), jnp.asarray(points), skip_self=True))
    # float32 sums of squares cannot tell distances apart that differ in their last digits.
    reached = exact[np.arange(150), chosen]
    np.testing.assert_allclose(reached, exact.min(axis=1), rtol=columns * 1.2e-7)


@needs_kernels
@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e25])
@pytest.mark.parametrize("skip_self", [False, True])
def test_nearest_is_the_argmin_also_where_numbers_are_not_finite(odd: float, skip_self: bool) -> None:
    points = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    points[11, 1] = odd
    plain = squared_distances(jnp.asarray(points), jnp.asarray(points))
    plain = jnp.where(jnp.eye(40, dtype=bool) & skip_self, jnp.inf, plain)
    chosen = kernels.nearest(jnp.asarray(points), jnp.asarray(points), skip_self)
    np.testing.assert_array_equal(chosen, jnp.argmin(plain, axis=1))


@needs_kernels
def test_normals_are_jaxs_own_stream_and_normal() -> None:
    key = jax.random.key(7)
    ours, theirs = kernels.standard_normal(key, (400, 751)), jax.random.normal(key, (400, 751))
    # Tails amplify the rounding of 1 - x^2: float32 has no more digits there.
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-6)
    assert kstest(np.asarray(ours, np.float64).ravel(), "norm").pvalue > 1e-4


def test_another_kind_of_key_gets_jaxs_normals() -> None:
    key = jax.random.key(0, impl="rbg")
    np.testing.assert_array_equal(kernels.standard_normal(key, (3,)), jax.random.normal(key, (3,)))


def test_squared_distances_agree_with_the_kernel_that_replaces_them() -> None:
    points = jax.random.normal(jax.random.key(2), (60, 40))
    plain = jnp.where(jnp.eye(60, dtype=bool), jnp.inf, squared_distances(points, points))
    if kernels.are_here():
        np.testing.assert_array_equal(jnp.argmin(plain, axis=1), kernels.nearest(points, points, skip_self=True))


def test_without_a_compiler_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "COMPILERS", ("no-such-compiler",))
    assert kernels.are_here.__wrapped__() is False


def test_switched_off_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFMAP_KERNELS", "off")
    assert kernels.are_here.__wrapped__() is False


@needs_kernels
def test_a_damaged_library_is_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OFFMAP_CACHE", str(tmp_path))
    library = kernels._library()
    assert library is not None
    library.write_bytes(b"")
    assert kernels._loaded(library) is not None
    assert library.stat().st_size > 0


def test_a_failed_build_is_told_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(1, command, stderr=b"predictors.cpp:1: error: broken\n")

    monkeypatch.setenv("OFFMAP_CACHE", str(tmp_path))
    monkeypatch.setattr(kernels, "COMPILERS", ("python3",))
    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.warns(UserWarning, match="could not be built.*error: broken"):
        assert kernels.are_here.__wrapped__() is False
    assert list((tmp_path / "kernels").iterdir()) == []
