"""Training: seconds a gradient step at the paper's sizes, against the arithmetic in it and against plain PyTorch."""

import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec

import jax
import numpy as np

from offmap.arrays import Data
from offmap.bench.figure import Figure
from offmap.bench.tables import COLUMNS, NOISE_STD, made_up
from offmap.bench.timing import matmul_rate, median_seconds
from offmap.inference import PAPER_METHODS, Method
from offmap.model import Model
from offmap.schedules import Constant

EPOCHS = 20


def seconds_per_step(method: Method, model: Model, data: Data, repeats: int) -> float:
    """A whole step: batch, loss, gradient, update. Compilation is not in it."""
    training = method.training  # type: ignore[attr-defined]
    short = replace(method, training=replace(training, schedule=Constant(epochs=EPOCHS)))
    seconds = median_seconds(lambda: jax.tree.leaves(short.fit(jax.random.key(0), model, data).posterior), repeats)
    return seconds / (EPOCHS * training.batches_per_epoch(len(data.y)))


def funn_arithmetic(columns: int, hidden: int = 50, draws: int = 500, inputs: int = 200) -> float:
    """Floating-point operations that a FuNN step cannot do without: the hidden layers of both samples, once more in the
    backward pass with its product, and two matrices of distances."""
    layer = 2 * draws * inputs * columns * hidden
    return 2 * layer + 2 * layer + 2 * (2 * draws * draws * inputs)


def measure(quick: bool) -> Iterator[Figure]:
    """The figures of training."""
    repeats = 3 if quick else 9
    model, data = made_up()
    rate = matmul_rate()
    yield Figure(name="matrix-multiply rate, float32", value=rate / 1e9, unit="GFLOP/s")
    ours = {
        name: seconds_per_step(PAPER_METHODS[name], model, data, repeats)
        for name in ("mfvi", "funn-mfvi", "nn-hyvi", "funn-hyvi")
    }
    floor = funn_arithmetic(COLUMNS) / rate
    yield Figure(
        "funn-hyvi step / its arithmetic at that rate",
        ours["funn-hyvi"] / floor,
        "times",
        ours["funn-hyvi"],
        floor,
        "<= 3",
    )
    for name in ("mfvi", "funn-mfvi"):
        yield Figure(f"{name} step", 1e3 * ours[name], "ms", ours[name])
    if find_spec("torch") is None:
        return
    yield from _against_torch(ours, model, data, quick)


def _against_torch(ours: dict[str, float], model: Model, data: Data, quick: bool) -> Iterator[Figure]:
    from offmap.bench.torch_peer import HypernetTraining, member_seconds_per_epoch

    X, y = np.asarray(data.X), np.asarray(data.y)
    for name, target in (("funn-hyvi", ">= 3"), ("nn-hyvi", ">= 2")):
        peer = HypernetTraining(X, y, NOISE_STD, in_predictor_space=name == "funn-hyvi")
        theirs = median_seconds(peer.step, 15 if quick else 60)
        yield Figure(f"plain PyTorch's {name} step / ours", theirs / ours[name], "times", ours[name], theirs, target)
    ensemble = PAPER_METHODS["ensemble"]
    ensemble.fit(jax.random.key(1), model, data)
    started = time.perf_counter()
    ensemble.fit(jax.random.key(0), model, data)
    seconds = time.perf_counter() - started
    members, epochs = ensemble.members, ensemble.training.schedule.epochs  # type: ignore[attr-defined]
    theirs = members * epochs * member_seconds_per_epoch(X, y, 30 if quick else 300)
    yield Figure("PyTorch's members one by one / our ensemble", theirs / seconds, "times", seconds, theirs, ">= 10")
