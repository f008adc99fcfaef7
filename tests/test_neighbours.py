"""Distances against scipy's in float64, and what float32 and memory allow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from offmap.neighbours import log_neighbour_distance, nearest, squared_distances


def rows(seed: int, n: int, d: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (n, d))


@pytest.mark.parametrize("d", [1, 15, 16, 17, 1000])
def test_squared_distances_are_scipys(d: int) -> None:
    A, B = rows(0, 9, d), rows(1, 6, d)
    expected = cdist(np.asarray(A, np.float64), np.asarray(B, np.float64), "sqeuclidean")
    np.testing.assert_allclose(squared_distances(A, B), expected, rtol=1e-5)


def test_digits_are_kept_far_from_the_origin() -> None:
    """Rows 1e-2 apart at distance 3e4: the truth is float64 on the same float32 rows; a Gram matrix loses it."""
    A = 1000 + 1e-2 * rows(0, 20, 900)
    expected = cdist(np.asarray(A, np.float64), np.asarray(A, np.float64), "sqeuclidean")
    np.testing.assert_allclose(squared_distances(A, A), expected, rtol=1e-5)
    squared = np.sum(np.asarray(A) ** 2, axis=1)
    gram = squared[:, None] + squared - 2 * np.asarray(A) @ np.asarray(A).T
    assert np.max(np.abs(gram - expected)) > 10 * np.max(expected)


@pytest.mark.parametrize("k", [1, 7, 30])
@pytest.mark.parametrize("d", [1, 20])
def test_nearest_is_a_k_d_trees(k: int, d: int) -> None:
    queries, points = rows(2, 40, d), rows(3, 30, d)
    expected = cKDTree(np.asarray(points)).query(np.asarray(queries), [k])[1][:, 0]
    np.testing.assert_array_equal(nearest(queries, points, k), expected)
    own = cKDTree(np.asarray(queries)).query(np.asarray(queries), [k + 1])[1][:, 0]  # the first is the query itself
    np.testing.assert_array_equal(nearest(queries, queries, k, skip_self=True), own)


def test_copies_are_neighbours_but_a_row_is_not_its_own() -> None:
    twice = jnp.array([[0.0], [5.0], [0.0]])
    np.testing.assert_array_equal(nearest(twice, twice, 1, skip_self=True), [2, 0, 0])


def test_gradient_flows_through_the_chosen_pair_alone() -> None:
    """ln |a - b| has the gradient (a - b) / |a - b|^2 in a, and minus that in b."""
    query, points = jnp.array([[0.0, 0.0]]), jnp.array([[0.3, 0.4], [30.0, 40.0]])

    def total(query: jax.Array, points: jax.Array) -> jax.Array:
        return jnp.sum(log_neighbour_distance(query, points, 1, floor=0.4))

    at_query, at_points = jax.grad(total, argnums=(0, 1))(query, points)
    np.testing.assert_allclose(at_query, [[-0.3 / 0.25, -0.4 / 0.25]], rtol=1e-6)
    np.testing.assert_allclose(at_points, [[0.3 / 0.25, 0.4 / 0.25], [0.0, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("apart", [0.0, 0.05])
def test_under_the_floor_the_value_is_the_floors_and_nothing_pulls(apart: float) -> None:
    query, points = jnp.array([[1.0]]), jnp.array([[1.0 + apart]])
    value, gradient = jax.value_and_grad(lambda q: log_neighbour_distance(q, points, 1, floor=0.1)[0])(query)
    np.testing.assert_allclose(value, np.log(0.1), rtol=1e-6)
    np.testing.assert_array_equal(gradient, [[0.0]])


@pytest.mark.parametrize("k", [1, 2])
def test_a_distance_that_is_no_number_is_not_taken_for_a_small_one(k: int) -> None:
    queries, points = jnp.array([[jnp.nan], [2.0]]), jnp.array([[0.0], [1.0], [5.0]])
    assert jnp.array_equal(jnp.isnan(log_neighbour_distance(queries, points, k, floor=0.1)), jnp.array([True, False]))


@pytest.mark.parametrize("k", [1, 2])  # a compiled kernel, where there is one, and plain JAX
def test_the_cube_of_pairs_and_columns_is_never_made(k: int) -> None:
    """500 x 500 x 1000 floats are 1 GB; the pairs alone are 1 MB, and the gradient may keep a few such."""
    A = jax.ShapeDtypeStruct((500, 1000), jnp.float32)

    def total(queries: jax.Array, points: jax.Array) -> jax.Array:
        return jnp.sum(log_neighbour_distance(queries, points, k, floor=0.0))

    memory = jax.jit(jax.grad(total, argnums=(0, 1))).lower(A, A).compile().memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes < 50e6
