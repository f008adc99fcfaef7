"""minimize() against closed forms, and its schedules against plain Python."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offmap.arrays import Batch, Data
from offmap.families import Hypernet, MeanField
from offmap.inputs import GivenRows
from offmap.model import Model
from offmap.network import Network
from offmap.optimize import Training, minimize
from offmap.prior import GaussianPrior
from offmap.progress import shown_by
from offmap.schedules import Constant, Cosine, Pace, Plateau

KEY, X_KEY, Y_KEY = jax.random.split(jax.random.key(0), 3)
X = jax.random.normal(X_KEY, (30, 3))
DATA = Data(X=X, y=X @ jnp.array([1.0, -2.0, 0.5]) + 0.3 + 0.5 * jax.random.normal(Y_KEY, (30,)))
MODEL = Model(network=Network(n_inputs=3, hidden=()), prior=GaussianPrior(), noise_std=1.0, inputs=GivenRows(rows=X))


def squared_error(parameters: jax.Array, model: Model, batch: Batch) -> jax.Array:
    return jnp.sum(batch.weight * (batch.y - model.predict(parameters, batch.X)) ** 2) / jnp.sum(batch.weight)


@dataclass(frozen=True)
class Minimise:
    """A problem whose loss needs no key and no count of rows."""

    training: Training
    of: Callable[[Any, Model, Batch], jax.Array] = field(default=squared_error)

    def loss(self, key: jax.Array, parameters: Any, model: Model, batch: Batch, n_rows: jax.Array) -> jax.Array:
        return self.of(parameters, model, batch)


@pytest.mark.parametrize(
    "training",
    [
        Training(learning_rate=0.05, batch_size=100, schedule=Cosine(steps=1000)),
        Training(learning_rate=0.05, batch_size=30, schedule=Constant(epochs=500), optimizer="momentum"),
        Training(learning_rate=0.05, batch_size=30, schedule=Plateau(patience=20, threshold=0.0)),
    ],
)
def test_least_squares_reaches_the_normal_equations(training: Training) -> None:
    features = np.column_stack([X, np.ones(30)]).astype(np.float64)
    expected, squares, *_ = np.linalg.lstsq(features, np.asarray(DATA.y, np.float64))
    minimum = minimize(KEY, Minimise(training), jnp.zeros(4), MODEL, DATA)
    np.testing.assert_allclose(minimum.parameters, expected, atol=1e-4)
    np.testing.assert_allclose(minimum.trace["loss"][-1], squares[0] / 30, rtol=1e-4)


def sum_of_predictors(parameters: jax.Array, model: Model, batch: Batch) -> jax.Array:
    """With one-hot rows, the gradient in a row's own parameter is 1 in each batch that has the row."""
    return jnp.sum(batch.weight * (batch.X @ parameters))


def test_every_row_is_used_once_an_epoch_and_the_last_batch_is_smaller() -> None:
    """10 rows in batches of 4, 4 and 2. Momentum moves a row by 1 + 0.9 + 0.81 if it is in the first, then by less."""
    training = Training(learning_rate=1.0, batch_size=4, schedule=Constant(epochs=1), optimizer="momentum")
    data = Data(X=jnp.eye(10), y=jnp.zeros(10))
    orders = []
    for key in jax.random.split(KEY, 2):
        moved = -minimize(key, Minimise(training, sum_of_predictors), jnp.zeros(10), MODEL, data).parameters
        np.testing.assert_allclose(np.sort(moved), [1.0] * 2 + [1.9] * 4 + [2.71] * 4, rtol=1e-6)
        orders.append(np.argsort(moved))
    assert not np.array_equal(orders[0], orders[1])


def slope(parameters: jax.Array, model: Model, batch: Batch) -> jax.Array:
    """Constant gradient 1, to which Adam answers with steps of exactly the learning rate."""
    return jnp.sum(parameters)


@pytest.mark.parametrize("batch_size", [30, 7])
def test_cosine_rates_add_up(batch_size: int) -> None:
    """Half a cosine over N steps sums to (N + 1) / 2 full rates; N is rounded up to whole epochs."""
    training = Training(learning_rate=0.01, batch_size=batch_size, schedule=Cosine(steps=42))
    minimum = minimize(KEY, Minimise(training, slope), jnp.zeros(1), MODEL, DATA)
    n_epochs, n_steps = (42, 42) if batch_size == 30 else (9, 45)
    np.testing.assert_allclose(-minimum.parameters, [0.01 * (n_steps + 1) / 2], rtol=1e-5)
    expected = 0.01 * 0.5 * (1 + np.cos(np.pi * np.arange(n_epochs) / n_epochs))  # at the start of every epoch
    np.testing.assert_allclose(minimum.trace["learning_rate"], expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("n_rows", "n_steps"), [(50, 2000), (1500, 2000), (6000, 8000), (30_000, 40_000), (45_000, 60_000), (10**6, 60_000)]
)
def test_steps_grow_with_the_rows_up_to_a_limit(n_rows: int, n_steps: int) -> None:
    training = Training(learning_rate=0.01, batch_size=500, schedule=Cosine(steps=2000, enough_for=1500))
    n_epochs, batches = training.n_epochs(n_rows), training.batches_per_epoch(n_rows)
    assert (n_epochs - 1) * batches < n_steps <= n_epochs * batches


def test_more_steps_are_smaller_ones() -> None:
    """Twice the rows: twice the steps, along half a cosine from the full rate over the fourth root of two."""
    training = Training(learning_rate=0.01, batch_size=30, schedule=Cosine(steps=20, enough_for=15))
    minimum = minimize(KEY, Minimise(training, slope), jnp.zeros(1), MODEL, DATA)
    full_rate = 0.01 / 2**0.25
    np.testing.assert_allclose(-minimum.parameters, [full_rate * (40 + 1) / 2], rtol=1e-5)
    np.testing.assert_allclose(minimum.trace["learning_rate"][0], full_rate, rtol=1e-5)
    assert training.schedule.first_factor(15) == training.schedule.first_factor(7) == 1.0


def test_muon_moves_weight_matrices_in_all_directions_alike() -> None:
    """Down a constant slope G = U diag(s) V^T, a step along U V^T, however much the s differ; biases go as by Adam."""
    start = Hypernet.initial(KEY, Network(n_inputs=5, hidden=(4,)), latent=3, hidden=())
    (layer,) = start.layers
    directions, _, others = np.linalg.svd(np.asarray(layer.weight, np.float64), full_matrices=False)
    slope_of_weight = jnp.asarray(directions * [10.0, 1.0, 0.5] @ others, jnp.float32)
    slope_of_bias = jnp.linspace(-2.0, 3.0, len(layer.bias))

    def down(q: Hypernet, model: Model, batch: Batch) -> jax.Array:
        return jnp.vdot(slope_of_weight, q.layers[0].weight) + jnp.vdot(slope_of_bias, q.layers[0].bias)

    training = Training(learning_rate=0.01, batch_size=30, schedule=Constant(epochs=200), muon_beyond=29)
    (reached,) = minimize(KEY, Minimise(training, down), start, MODEL, DATA).parameters.layers
    went = np.asarray(layer.weight - reached.weight, np.float64)
    along = directions.T @ went @ others.T / (200 * 0.01 * 0.2 * math.sqrt(max(went.shape)))
    # The iteration that makes all s alike ends between 0.7 and 1.2, not at 1.
    assert np.all((np.diag(along) > 0.65) & (np.diag(along) < 1.25))
    np.testing.assert_allclose(along - np.diag(np.diag(along)), 0, atol=1e-3)
    np.testing.assert_allclose(layer.bias - reached.bias, 200 * 0.01 * np.sign(slope_of_bias), rtol=0.01)
    few_rows = replace(training, muon_beyond=30)
    (by_adam,) = minimize(KEY, Minimise(few_rows, down), start, MODEL, DATA).parameters.layers
    np.testing.assert_allclose(layer.weight - by_adam.weight, 200 * 0.01 * np.sign(slope_of_weight), rtol=0.01)


def test_muon_needs_matrices() -> None:
    training = Training(learning_rate=0.01, batch_size=30, schedule=Constant(epochs=1), muon_beyond=0)
    mean_field = MeanField.initial(KEY, MODEL.network)
    with pytest.raises(ValueError, match="Muon moves weight matrices, and MeanField has none"):
        minimize(KEY, Minimise(training, squared_error), mean_field, MODEL, DATA)


def plain_plateau(rule: Plateau, losses: list[float]) -> list[float]:
    """The factor after each epoch."""
    factors, factor, best, bad = [], 1.0, math.inf, 0
    for loss in losses:
        if best == math.inf or best - loss > rule.threshold * abs(best):
            best, bad = loss, 0
        else:
            bad += 1
        if bad > rule.patience:
            factor, bad = factor * rule.factor, 0
        factors.append(factor)
    return factors


@pytest.mark.parametrize("centre", [50.0, 0.0, -50.0])
def test_plateau_is_the_plain_rule(centre: float) -> None:
    rule = Plateau(factor=0.5, patience=3, threshold=0.01)
    losses = np.asarray(centre + np.cumsum(np.random.default_rng(1).normal(-0.1, 1.0, 200)), np.float32)
    start = Pace(factor=jnp.ones(()), best_loss=jnp.asarray(jnp.inf), bad_epochs=jnp.zeros((), jnp.int32))

    def epoch(pace: Pace, loss: jax.Array) -> tuple[Pace, jax.Array]:
        following = rule.after_epoch(pace, loss)
        return following, following.factor

    factors = jax.lax.scan(epoch, start, jnp.asarray(losses))[1]
    expected = plain_plateau(rule, losses.tolist())
    assert len(set(expected)) > 5
    np.testing.assert_allclose(factors, expected, rtol=1e-6)


def level(parameters: jax.Array, model: Model, batch: Batch) -> jax.Array:
    return jnp.sum(0 * parameters) - 3.0


def test_plateau_cuts_the_rate_to_its_end() -> None:
    """On a level loss: one epoch to see it, then a cut every patience + 1 epochs, 0.08 -> 0.04 -> 0.02 and out."""
    schedule = Plateau(factor=0.5, patience=2, stop_rate=0.01)
    training = Training(learning_rate=0.08, batch_size=30, schedule=schedule)
    minimum = minimize(KEY, Minimise(training, level), jnp.zeros(1), MODEL, DATA)
    np.testing.assert_allclose(minimum.trace["learning_rate"], [0.08] * 4 + [0.04] * 3 + [0.02] * 3, rtol=1e-6)
    np.testing.assert_array_equal(minimum.trace["loss"], -3.0)


def test_members_trained_at_once_are_members_trained_apart() -> None:
    """Each ends where it would alone, also when others still go on."""
    schedule = Plateau(factor=0.1, patience=3, threshold=0.01, stop_rate=1e-3)
    problem = Minimise(Training(learning_rate=0.1, batch_size=7, schedule=schedule))
    starts = jnp.array([0.0, 2.0, 8.0])[:, None] * jnp.ones((1, 4))
    together = minimize(KEY, problem, starts, MODEL, DATA, many=True)
    apart = [
        minimize(key, problem, start, MODEL, DATA) for key, start in zip(jax.random.split(KEY, 3), starts, strict=True)
    ]
    lengths = [len(member.trace["loss"]) for member in apart]
    assert len(together.trace["loss"]) == max(lengths)
    assert len(set(lengths)) == 3
    for i, (member, n_epochs) in enumerate(zip(apart, lengths, strict=True)):
        np.testing.assert_allclose(together.parameters[i], member.parameters, rtol=1e-4, atol=1e-5)
        for name in ("loss", "learning_rate"):
            np.testing.assert_allclose(np.asarray(together.trace[name])[:n_epochs, i], member.trace[name], rtol=1e-4)


def down_to_nothing(parameters: jax.Array, model: Model, batch: Batch) -> jax.Array:
    return jnp.where(parameters[0] < 0, jnp.nan, parameters[0])


def test_a_loss_that_is_not_finite_names_its_epoch() -> None:
    """Adam at rate 1 on a constant slope: losses 2.5, 1.5, 0.5 and then nan."""
    training = Training(learning_rate=1.0, batch_size=30, schedule=Constant(epochs=10))
    with pytest.raises(FloatingPointError, match=r"no longer finite in epoch 4 \(mean loss of the epoch before: 0\.5,"):
        minimize(KEY, Minimise(training, down_to_nothing), jnp.array([2.5]), MODEL, DATA)


def test_an_interrupt_says_how_far_it_was() -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    training = Training(learning_rate=0.01, batch_size=30, schedule=Constant(epochs=50))
    with shown_by(interrupt), pytest.raises(KeyboardInterrupt, match="interrupted after 1 of at most 50 epochs"):
        minimize(KEY, Minimise(training), jnp.zeros(4), MODEL, DATA)


def test_progress_is_reported_to_the_end() -> None:
    reports: list[tuple[str, int, int]] = []
    problem = Minimise(Training(learning_rate=0.01, batch_size=30, schedule=Constant(epochs=50)))
    with shown_by(lambda *report: reports.append(report)):
        minimize(KEY, problem, jnp.zeros(4), MODEL, DATA)
    assert reports == sorted(reports)
    assert reports[-1] == ("training", 50, 50)


def test_other_numbers_do_not_recompile() -> None:
    """What Python does inside a compiled function happens only while it is compiled."""
    traced: list[Model] = []

    def noisy_error(parameters: jax.Array, model: Model, batch: Batch) -> jax.Array:
        traced.append(model)
        return squared_error(parameters, model, batch) / model.noise_std**2

    problem = Minimise(Training(learning_rate=0.01, batch_size=30, schedule=Constant(epochs=50)), noisy_error)
    first = minimize(KEY, problem, jnp.zeros(4), MODEL, DATA)
    compilations = len(traced)
    second = minimize(KEY, problem, jnp.zeros(4), dataclasses.replace(MODEL, noise_std=0.1), DATA)
    assert len(traced) == compilations
    np.testing.assert_allclose(second.trace["loss"][0], 100 * first.trace["loss"][0], rtol=1e-5)
