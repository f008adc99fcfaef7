"""minimize(): the only gradient loop. Mini-batches, progress, and a clear end on failure."""

import functools
import time
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib

from offmap.arrays import Array, Batch, Data, Float, Int, Key, default_promotion
from offmap.artifact import storable
from offmap.model import Model
from offmap.progress import report
from offmap.schedules import Constant, Cosine, Pace, Plateau

Parameters = Any  # a pytree of arrays: a family, or a flat theta
SECONDS_BETWEEN_REPORTS = 0.5


@storable
@dataclass(frozen=True)
class Training:
    """How a problem is minimised.

    `muon_beyond`: with more rows than these, the optimizer is Muon, which moves weight matrices in all directions alike
    and so gets further in as many steps. It is for families that have `layers`.
    """

    learning_rate: float
    batch_size: int
    schedule: Plateau | Cosine | Constant
    optimizer: Literal["adam", "momentum"] = "adam"
    muon_beyond: int | None = None

    def direction(self, n_rows: int) -> optax.GradientTransformation:
        """The optimiser's update before the learning rate: it is multiplied in by the loop, step by step."""
        if self.muon_beyond is not None and n_rows > self.muon_beyond:
            return _muon()
        return optax.scale_by_adam() if self.optimizer == "adam" else optax.trace(decay=0.9)

    def longer(self, times: int) -> "Training":
        """The same, for so many times as long."""
        return replace(self, schedule=self.schedule.longer(times))

    def batches_per_epoch(self, n_rows: int) -> int:
        """Every row is used once an epoch, so the last batch may be smaller."""
        return -(-n_rows // min(self.batch_size, n_rows))

    def n_epochs(self, n_rows: int) -> int:
        """How often every row is used, at the most."""
        return self.schedule.n_epochs(n_rows, self.batches_per_epoch(n_rows))


def _muon() -> optax.GradientTransformation:
    """Muon for weight matrices, Adam for biases, both with steps of about Adam's length."""
    # The rate is -1, since the loop multiplies its own in and subtracts.
    rule = optax.contrib.muon(learning_rate=-1.0, consistent_rms=0.2)

    def start(parameters: Parameters) -> Any:
        return rule.init(parameters.layers)

    def update(gradient: Parameters, state: Any, parameters: Parameters) -> tuple[Parameters, Any]:
        layers, state = rule.update(gradient.layers, state, parameters.layers)
        return gradient.with_layers(layers), state

    return optax.GradientTransformation(start, update)


class Problem(Protocol):
    """What is minimised, and how: a frozen value, so that JAX recognises it and compiles it once."""

    @property
    def training(self) -> Training:
        """How to minimise it."""

    def loss(
        self, key: Key, parameters: Parameters, model: Model, batch: Batch, n_rows: Float[Array, ""]
    ) -> Float[Array, ""]:
        """The loss on one batch out of `n_rows` rows."""


class State(NamedTuple):
    """Everything the loop carries from epoch to epoch."""

    key: Key
    parameters: Parameters
    optimizer: Any
    pace: Pace
    loss: Float[Array, ""]  # mean over the batches of the last epoch


class Loop(NamedTuple):
    """The state (of all members, where there are several), and the loss and rate of every epoch so far."""

    state: State
    epoch: Int[Array, ""]
    losses: Float[Array, "e *members"]
    rates: Float[Array, "e *members"]


class Minimum(NamedTuple):
    """Where the loop ended, and the epoch-mean loss and learning rate on the way."""

    parameters: Parameters
    trace: dict[str, Array]


def _one_epoch(problem: Problem, model: Model, data: Data, n_epochs: int, state: State, epoch: Int[Array, ""]) -> State:
    """Every row once, in a fresh random order."""
    training, n_rows = problem.training, len(data.y)
    size, n_batches = min(training.batch_size, n_rows), training.batches_per_epoch(n_rows)
    optimizer = training.direction(n_rows)
    key, order_key, batch_key = jax.random.split(state.key, 3)
    order = jnp.pad(jax.random.permutation(order_key, n_rows), (0, size * n_batches - n_rows))
    weight = (jnp.arange(size * n_batches) < n_rows).astype(data.y.dtype)

    def one_batch(
        carry: tuple[Parameters, Any], step: tuple[Key, Array, Array, Array]
    ) -> tuple[tuple[Parameters, Any], Array]:
        parameters, optimizer_state = carry
        step_key, rows, weight, index = step
        batch = Batch(X=data.X[rows], y=data.y[rows], weight=weight)
        loss, gradient = jax.value_and_grad(problem.loss, argnums=1)(
            step_key, parameters, model, batch, jnp.asarray(n_rows, data.y.dtype)
        )
        share = (epoch.astype(data.y.dtype) + index / n_batches) / n_epochs
        rate = training.learning_rate * training.schedule.within_epoch(state.pace, share)
        with default_promotion():
            update, optimizer_state = optimizer.update(gradient, optimizer_state, parameters)
        return (jax.tree.map(lambda p, u: p - rate * u, parameters, update), optimizer_state), loss

    steps = (
        jax.random.split(batch_key, n_batches),
        order.reshape(n_batches, size),
        weight.reshape(n_batches, size),
        jnp.arange(n_batches, dtype=data.y.dtype),
    )
    (parameters, optimizer_state), losses = jax.lax.scan(one_batch, (state.parameters, state.optimizer), steps)
    loss = jnp.mean(losses)
    pace = training.schedule.after_epoch(state.pace, loss)
    return State(key=key, parameters=parameters, optimizer=optimizer_state, pace=pace, loss=loss)


def _going(training: Training, state: State) -> Array:
    """Whether any member still has a rate to train at, and every loss is finite."""
    rate = training.learning_rate * state.pace.factor
    return jnp.any(rate > training.schedule.stop_rate) & jnp.all(jnp.isfinite(state.loss))


@functools.partial(jax.jit, static_argnames=("problem", "many"))
def _run(
    problem: Problem, many: bool, model: Model, data: Data, loop: Loop, until: Int[Array, ""]
) -> tuple[Loop, Array]:
    """Epochs up to number `until`, or to the end of the schedule or a loss that is not finite."""
    training = problem.training

    def body(loop: Loop) -> Loop:
        def one(state: State) -> State:
            following = _one_epoch(problem, model, data, len(loop.losses), state, loop.epoch)
            # A member that is done stays where it is while others go on.
            return jax.tree.map(lambda new, old: jnp.where(_going(training, state), new, old), following, state)

        state = (jax.vmap(one) if many else one)(loop.state)
        share = loop.epoch.astype(loop.losses.dtype) / len(loop.losses)
        rate = training.learning_rate * training.schedule.within_epoch(loop.state.pace, share)
        return Loop(
            state=state,
            epoch=loop.epoch + 1,
            losses=loop.losses.at[loop.epoch].set(state.loss),
            rates=loop.rates.at[loop.epoch].set(rate),
        )

    loop = jax.lax.while_loop(lambda loop: (loop.epoch < until) & _going(training, loop.state), body, loop)
    return loop, _going(training, loop.state)


@functools.partial(jax.jit, static_argnames=("training", "many", "n_rows"))
def _start(training: Training, many: bool, n_rows: int, key: Key, initial: Parameters) -> Loop:
    """The loop before its first epoch."""
    factor = training.schedule.first_factor(n_rows)

    def one(key: Key, parameters: Parameters) -> State:
        pace = Pace(factor=jnp.full((), factor), best_loss=jnp.full((), jnp.inf), bad_epochs=jnp.zeros((), jnp.int32))
        optimizer = training.direction(n_rows).init(parameters)
        return State(key=key, parameters=parameters, optimizer=optimizer, pace=pace, loss=jnp.zeros(()))

    if many:
        state = jax.vmap(one)(jax.random.split(key, len(jax.tree.leaves(initial)[0])), initial)
    else:
        state = one(key, initial)
    curve = jnp.zeros((training.n_epochs(n_rows), *state.loss.shape))
    return Loop(state=state, epoch=jnp.zeros((), jnp.int32), losses=curve, rates=curve)


def minimize(key: Key, problem: Problem, initial: Parameters, model: Model, data: Data, many: bool = False) -> Minimum:
    """Gradient descent on `problem.loss` from `initial`, in mini-batches that use every row each epoch.

    `many`: the leaves of `initial` have a leading axis of members, all trained at once and apart: each has its own
    order of rows, optimiser state and schedule.
    """
    training = problem.training
    if training.muon_beyond is not None and not hasattr(initial, "layers"):
        raise ValueError(
            f"muon_beyond is {training.muon_beyond}, but Muon moves weight matrices, and {type(initial).__name__} has "
            "none. Use None."
        )
    n_rows, n_epochs = len(data.y), training.n_epochs(len(data.y))
    loop, done, chunk, going = _start(training, many, n_rows, key, initial), 0, 1, True
    try:
        while going and done < n_epochs:
            started = time.perf_counter()
            until = jnp.asarray(min(done + chunk, n_epochs), jnp.int32)
            loop, still_going = _run(problem, many, model, data, loop, until)
            going, done = bool(still_going), int(loop.epoch)  # waits for the device
            report("training", done, n_epochs)
            chunk = chunk * 2 if time.perf_counter() - started < SECONDS_BETWEEN_REPORTS / 2 else chunk
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted after {done} of at most {n_epochs} epochs; nothing was kept.") from None
    return _finished(training, loop, done)


def _finished(training: Training, loop: Loop, done: int) -> Minimum:
    """The result of a loop that ended, or an error when it ended in numbers that are not finite."""
    # In NumPy: outside a compiled program, every operation of JAX on a new shape is compiled by itself.
    ended = [np.asarray(leaf) for leaf in jax.tree.leaves((loop.state.parameters, loop.state.loss))]
    if not all(np.isfinite(values).all() for values in ended):
        earlier = float(jnp.mean(loop.losses[done - 2])) if done > 1 else float("nan")
        raise FloatingPointError(
            f"Training diverged: the loss was no longer finite in epoch {done} (mean loss of the epoch before: "
            f"{earlier:.4g}, learning rate {training.learning_rate:g}). Try a learning rate ten times smaller, or a "
            "larger noise_std, and look for extreme values in the table."
        )
    return Minimum(
        parameters=loop.state.parameters, trace={"loss": loop.losses[:done], "learning_rate": loop.rates[:done]}
    )
