"""The k-NN estimators against float64 twins, their exact means for Gaussians, closed forms, limits and symmetries."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from scipy.spatial.distance import cdist

from offmap.divergences import (
    Evaluation,
    entropy_knn,
    gaussian_entropy,
    gaussian_kl,
    kl_knn,
    predictor_entropy,
    predictor_kl,
)
from offmap.inputs import UniformBox

kl = jax.jit(kl_knn, static_argnames=("k", "floor"))
entropy = jax.jit(entropy_knn, static_argnames=("k", "floor"))


def rows(seed: int, n: int, d: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def log_kth_distance(queries: np.ndarray, points: np.ndarray, k: int, floor: float = 0.0) -> np.ndarray:
    distances = np.sort(cdist(queries, points), axis=1)[:, k - 1]
    return np.log(np.maximum(distances, floor))


def plain_kl(q: np.ndarray, p: np.ndarray, k: int, floor: float = 0.0) -> float:
    """Equation 3, from all distances; in q the nearest row, at distance 0, is the row itself."""
    log_ratio = log_kth_distance(q, p, k, floor) - log_kth_distance(q, q, k + 1, floor)
    return float(np.log(len(p) / (len(q) - 1)) + q.shape[1] * np.mean(log_ratio))


def log_ball(d: int) -> float:
    return float(d / 2 * np.log(np.pi) - special.gammaln(d / 2 + 1))


def plain_entropy(draws: np.ndarray, k: int, floor: float = 0.0) -> float:
    """Equation 4, from all distances."""
    n, d = draws.shape
    log_r = log_kth_distance(draws, draws, k + 1, floor)
    return float(np.log(n) - special.digamma(k) + log_ball(d) + d * np.mean(log_r))


@pytest.mark.parametrize(
    ("n", "m", "d", "k"),
    [(2, 1, 1, 1), (30, 7, 2, 7), (33, 65, 17, 10), (50, 49, 5, 49), (20, 20, 1000, 1)],
)
def test_estimates_are_the_plain_float64_ones(n: int, m: int, d: int, k: int) -> None:
    q, p = rows(0, n, d), 0.5 + 2 * rows(1, m, d)
    with jax.enable_x64(True):
        np.testing.assert_allclose(kl(jnp.asarray(q), jnp.asarray(p), k), plain_kl(q, p, k), rtol=1e-11)
        np.testing.assert_allclose(entropy(jnp.asarray(q), k), plain_entropy(q, k), rtol=1e-11)


def test_float32_keeps_the_digits_of_close_samples_far_from_the_origin() -> None:
    q, p = (jnp.asarray(1000 + 0.01 * rows(seed, 50, 900), jnp.float32) for seed in (2, 3))
    exact_q, exact_p = np.asarray(q, np.float64), np.asarray(p, np.float64)
    np.testing.assert_allclose(entropy(q), plain_entropy(exact_q, 1), rtol=1e-5)
    # Distances good to 1e-6 leave the estimate good to 1e-6 per dimension.
    np.testing.assert_allclose(kl(q, p), plain_kl(exact_q, exact_p, 1), atol=1e-6 * 900)


def expected_log_distance(d: int, n: int, k: int, shift: float = 0.0, scale: float = 1.0) -> float:
    """E ln |x - nearest| for x ~ N(0, I_d) and its k-th nearest of n points of N(mu, scale^2 I), |mu| = shift.

    Squared distances between Gaussians are noncentral chi-square, and the k-th smallest of n has a beta law: two
    quadratures, the outer one over |x - mu|^2 at normal scores.
    """
    score = np.linspace(-6, 6, 41)
    weight = stats.norm.pdf(score) / np.sum(stats.norm.pdf(score))
    squared = stats.ncx2(d, shift**2).ppf(stats.norm.cdf(score))[:, None]
    log_r = np.linspace(-25, 5, 3001)
    within = stats.ncx2.cdf(np.exp(2 * log_r) / scale**2, d, squared / scale**2)
    return float(weight @ (5 - np.trapezoid(special.betainc(k, n - k + 1, within), log_r, axis=1)))


SHIFT, SCALE = 1.0, 1.5


def closed_kl(d: int) -> float:
    """KL from N(0, I) to N(mu, SCALE^2 I), |mu| = SHIFT."""
    return 0.5 * ((d + SHIFT**2) / SCALE**2 - d + 2 * d * math.log(SCALE))


def closed_entropy(d: int) -> float:
    return 0.5 * d * math.log(2 * math.pi * math.e)


def z_score(estimates: jax.Array, truth: float) -> float:
    values = np.asarray(estimates, np.float64)
    return float(abs(values.mean() - truth) / (values.std(ddof=1) / np.sqrt(len(values))))


def estimates(n: int, m: int, d: int, k: int, scale: float, shift: float) -> tuple[jax.Array, jax.Array]:
    """KL(Q, P) and H(Q) over 40 independent samples of Q = N(0, I) and P = N(mu, scale^2 I)."""

    def once(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        q_key, p_key = jax.random.split(key)
        q, p = jax.random.normal(q_key, (n, d)), jax.random.normal(p_key, (m, d))
        return kl_knn(q, shift / math.sqrt(d) + scale * p, k), entropy_knn(q, k)

    with jax.enable_x64(True):  # in float32 two of 1000 numbers may coincide
        return jax.jit(lambda keys: jax.lax.map(once, keys))(jax.random.split(jax.random.key(4), 40))


@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 3), (5, 3), (20, 1)])
def test_gaussian_estimates_have_their_exact_mean(d: int, k: int) -> None:
    """The truth is the estimators' own mean at this n, which in d = 5 and 20 is far from the closed form."""
    n, m = 200, 150
    of_kl, of_entropy = estimates(n, m, d, k, SCALE, SHIFT)
    log_r = expected_log_distance(d, n - 1, k)
    log_s = expected_log_distance(d, m, k, SHIFT, SCALE)
    assert z_score(of_kl, math.log(m / (n - 1)) + d * (log_s - log_r)) < 4
    assert z_score(of_entropy, math.log(n) - special.digamma(k) + log_ball(d) + d * log_r) < 4


@pytest.mark.parametrize("d", [1, 2])
def test_gaussian_estimates_meet_the_closed_forms_in_low_dimension(d: int) -> None:
    """By the exact mean, the bias at this n is under 0.007, and the standard error 0.01."""
    of_kl, of_entropy = estimates(1000, 1000, d, 1, SCALE, SHIFT)
    assert z_score(of_kl, closed_kl(d)) < 4
    assert z_score(of_entropy, closed_entropy(d)) < 4


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_samples_of_one_distribution_have_no_divergence(d: int) -> None:
    """No bias in any dimension when m = n - 1: s_i and r_i are then distances to the same number of like rows."""
    of_kl, _ = estimates(401, 400, d, 1, 1.0, 0.0)
    assert z_score(of_kl, 0.0) < 4


def test_exact_means_tend_to_the_closed_forms() -> None:
    """The twin above, at a million rows."""
    n = 10**6
    for d in (1, 2):
        log_r, log_s = expected_log_distance(d, n, 1), expected_log_distance(d, n, 1, SHIFT, SCALE)
        assert d * (log_s - log_r) == pytest.approx(closed_kl(d), abs=1e-4)
        assert math.log(n) - special.digamma(1) + log_ball(d) + d * log_r == pytest.approx(closed_entropy(d), abs=1e-4)


def finite_differences(f: Callable[[np.ndarray], float], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences, number by number."""
    steps = step * np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([(f(x + e) - f(x - e)) / (2 * step) for e in steps]).reshape(x.shape)


@pytest.mark.parametrize(("k", "floor"), [(1, 0.0), (3, 0.0), (1, 1.2), (3, 1.85)])  # half of the distances are under
def test_gradients_are_finite_differences(k: int, floor: float) -> None:
    q, p = rows(5, 8, 3), rows(6, 6, 3)
    with jax.enable_x64(True):
        at_q, at_p = jax.jit(jax.grad(kl, argnums=(0, 1)), static_argnums=(2, 3))(
            jnp.asarray(q), jnp.asarray(p), k, floor
        )
        of_entropy = jax.jit(jax.grad(entropy), static_argnums=(1, 2))(jnp.asarray(q), k, floor)
    np.testing.assert_allclose(at_q, finite_differences(lambda q: plain_kl(q, p, k, floor), q), atol=1e-8)
    np.testing.assert_allclose(at_p, finite_differences(lambda p: plain_kl(q, p, k, floor), p), atol=1e-8)
    np.testing.assert_allclose(of_entropy, finite_differences(lambda q: plain_entropy(q, k, floor), q), atol=1e-8)


def test_equal_distances_keep_their_gradients() -> None:
    """s_1 = r_1 = 1 exactly, and still moving p_1 away lengthens s_1: d ln s / dp = -1, -1/2 and -1/4, times d / n."""
    q, p = jnp.array([[0.0], [1.0], [3.0]]), jnp.array([[-1.0], [10.0]])
    np.testing.assert_allclose(jax.grad(kl, argnums=1)(q, p), [[-1.75 / 3], [0.0]], rtol=1e-6)


@pytest.mark.parametrize(("k", "floor"), [(1, 1e-3), (2, 0.0)])
def test_coincident_rows(k: int, floor: float) -> None:
    """With k = 1 they count as the floor, and moves of 1e-6 stay under it; with k = 2 a single copy is regular."""
    copied = np.array([0, 0, 1, 2, 3, 4, 5, 6])  # which copy is a third row's neighbour is a tie: they move together
    q, p = rows(7, 7, 3), rows(8, 6, 3)
    p[2] = q[5]
    with jax.enable_x64(True):
        at = jnp.asarray(q), jnp.asarray(p)
        value, gradients = jax.jit(jax.value_and_grad(lambda q, p: kl_knn(q[copied], p, k, floor), (0, 1)))(*at)
        entropy, of_entropy = jax.jit(jax.value_and_grad(lambda q: entropy_knn(q[copied], k, floor)))(at[0])
    np.testing.assert_allclose(value, plain_kl(q[copied], p, k, floor), rtol=1e-12)
    np.testing.assert_allclose(entropy, plain_entropy(q[copied], k, floor), rtol=1e-12)
    expected = (
        finite_differences(lambda q: plain_kl(q[copied], p, k, floor), q),
        finite_differences(lambda p: plain_kl(q[copied], p, k, floor), p),
        finite_differences(lambda q: plain_entropy(q[copied], k, floor), q),
    )
    for gradient, differences in zip((*gradients, of_entropy), expected, strict=True):
        np.testing.assert_allclose(gradient, differences, atol=1e-8)


def test_coincident_rows_without_a_floor_give_its_limits() -> None:
    q, p = jnp.asarray(rows(9, 8, 3)), jnp.asarray(rows(10, 6, 3))
    twice = q.at[1].set(q[0])
    assert kl(twice, p) == math.inf
    assert kl(q, p.at[2].set(q[5])) == -math.inf
    assert entropy(twice) == -math.inf
    # Rows 0 and 1 have copies on both sides, so each adds 0: what remains is the mean over the other rows.
    both = np.asarray(p.at[2].set(q[0]), np.float64)
    own, others = np.asarray(twice, np.float64), slice(2, None)
    log_ratio = log_kth_distance(own[others], both, 1) - log_kth_distance(own[others], own, 2)
    expected = math.log(6 / 7) + 3 * np.sum(log_ratio) / 8
    value, gradient = jax.value_and_grad(kl)(twice, jnp.asarray(both, jnp.float32))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("k", [1, 3])
def test_symmetries(k: int) -> None:
    d, scale, shift = 4, 3.0, 7.0
    rotation = np.linalg.qr(rows(13, d, d))[0]
    with jax.enable_x64(True):
        q, p, turn = jnp.asarray(rows(14, 30, d)), jnp.asarray(1 + rows(15, 20, d)), jnp.asarray(rotation)
        moved_q, moved_p = shift + scale * q @ turn, shift + scale * p @ turn
        np.testing.assert_allclose(kl(moved_q, moved_p, k), kl(q, p, k), rtol=1e-10)
        np.testing.assert_allclose(entropy(moved_q, k), entropy(q, k) + d * math.log(scale), rtol=1e-10)


def test_bad_k_and_shapes_are_named() -> None:
    q = jnp.zeros((5, 2))
    with pytest.raises(ValueError, match="k is 5, but it must be between 1 and 4, the number of other rows of q"):
        kl_knn(q, jnp.zeros((9, 2)), k=5)
    with pytest.raises(ValueError, match=r"k is 4, but it must be between 1 and 3, .* rows of p"):
        kl_knn(q, jnp.zeros((3, 2)), k=4)
    with pytest.raises(ValueError, match="k is 0, but it must be between 1 and 4, the number of other draws"):
        entropy_knn(q, k=0)
    with pytest.raises(ValueError, match="q has 2 columns and p has 3"):
        kl_knn(q, jnp.zeros((5, 3)))


BOX = UniformBox(low=jnp.full(3, -2.0), high=jnp.full(3, 2.0))


def linear(thetas: jax.Array) -> Callable[[jax.Array], jax.Array]:
    """Predictors f(x) = theta . x, one a row."""
    return lambda X: thetas @ X.T


def test_predictor_estimates_are_means_over_sets_of_inputs() -> None:
    f, g = linear(jnp.asarray(rows(16, 30, 3))), linear(jnp.asarray(1 + 2 * rows(17, 20, 3)))
    key, at = jax.random.key(18), Evaluation(n_inputs=4, n_repeats=5)
    sets = [BOX.sample(once, 4) for once in jax.random.split(key, 5)]
    expected = np.mean([kl(f(X), g(X), 2) for X in sets])
    np.testing.assert_allclose(predictor_kl(key, f, g, BOX, at, k=2), expected, rtol=1e-5)
    expected = np.mean([entropy(f(X) / 2, 2, 0.1) for X in sets])
    np.testing.assert_allclose(predictor_entropy(key, f, BOX, at, k=2, floor=0.1), expected, rtol=1e-5)


@pytest.mark.parametrize("n_inputs", [1, 100])
def test_the_norm_of_predictors_shifts_their_entropy_by_half_t_ln_t(n_inputs: int) -> None:
    f = linear(jnp.asarray(rows(19, 30, 3)))
    key = jax.random.key(20)
    X = BOX.sample(jax.random.split(key, 1)[0], n_inputs)
    expected = entropy(f(X)) - n_inputs / 2 * math.log(n_inputs)
    np.testing.assert_allclose(predictor_entropy(key, f, BOX, Evaluation(n_inputs, 1)), expected, rtol=1e-5)


@pytest.mark.parametrize("n_inputs", [1, 2])
def test_linear_gaussian_predictors_meet_their_closed_forms(n_inputs: int) -> None:
    """theta ~ N(0, I_3) and g's ~ N(mu, SCALE^2 I): at X the values are N(X mu, SCALE^2 X X^T), T <= 3 of them."""

    def once(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        theta_key, other_key, key = jax.random.split(key, 3)
        mu = jnp.full((3,), SHIFT / math.sqrt(3))
        f = linear(jax.random.normal(theta_key, (700, 3)))
        g = linear(mu[None, :] + SCALE * jax.random.normal(other_key, (700, 3)))
        X = BOX.sample(jax.random.split(key, 1)[0], n_inputs)
        gram, mean, at = X @ X.T, X @ mu, Evaluation(n_inputs, 1)
        shifted = mean @ jnp.linalg.solve(gram, mean)
        closed = 0.5 * ((n_inputs + shifted) / SCALE**2 - n_inputs + 2 * n_inputs * math.log(SCALE))
        log_det = jnp.linalg.slogdet(gram / n_inputs)[1]
        return (
            predictor_kl(key, f, g, BOX, at) - closed,
            predictor_entropy(key, f, BOX, at) - closed_entropy(n_inputs) - 0.5 * log_det,
        )

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(21), 40)
        kl_error, entropy_error = jax.jit(lambda keys: jax.lax.map(once, keys))(keys)
    assert z_score(kl_error, 0.0) < 4
    assert z_score(entropy_error, 0.0) < 4


def test_gaussian_closed_forms_are_scipys_and_the_mean_log_ratio() -> None:
    mean, std = np.array([0.3, -1.0, 2.0]), np.array([0.1, 1.0, 3.0])
    q, prior = stats.norm(mean, std), stats.norm(0.5, 0.7)
    np.testing.assert_allclose(gaussian_entropy(jnp.asarray(std)), q.entropy().sum(), rtol=1e-6)
    draws = q.rvs((20_000, 3), random_state=22)
    log_ratio = np.sum(q.logpdf(draws) - prior.logpdf(draws), axis=1)
    assert z_score(jnp.asarray(log_ratio), float(gaussian_kl(jnp.asarray(mean), jnp.asarray(std), 0.5, 0.7))) < 4
