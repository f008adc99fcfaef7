"""How the cost of a default fit grows with rows, columns, hidden units and draws: a table, exponents and a picture."""

import csv
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from offmap.arrays import Data
from offmap.bench.parts import draw_parts, milliseconds_of_parts
from offmap.bench.tables import made_up
from offmap.files import complete_file
from offmap.inference import METHODS
from offmap.inference.hmc import HMC
from offmap.inference.variational import Variational
from offmap.model import Model
from offmap.schedules import Constant

LEAPFROGS = 127  # a draw of hmc on boston; it differs from table to table, and grows as the noise falls
MANY_STEPS, FEW_STEPS, MANY_PARAMETERS = 40, 4, 10_000  # steps that are timed: few where one takes long
METHODS_WITH_DRAWS = [name for name, method in METHODS.items() if isinstance(method, Variational)]


class Measured(NamedTuple):
    """The seconds that a default fit takes, extrapolated from a part of it, compilation apart."""

    grows_with: str
    method: str
    size: float
    label: str
    seconds: float


def sweeps() -> Iterator[tuple[str, float, str, Callable[[], tuple[Model, Data]]]]:
    """What grows, its size, how to call it, and the table."""
    for rows in (100, 1_000, 10_000, 100_000, 1_000_000):
        yield "rows", rows, f"{rows:,}", partial(made_up, rows)
    for columns in (4, 16, 64, 256):
        yield "columns", columns, str(columns), partial(made_up, 1000, columns)
    for width in (50, 128, 256, 512):
        yield "hidden units", width, str(width), partial(made_up, 1000, hidden=(width,))
    for width in (50, 128, 256, 512):
        yield "two layers of", width, str(width), partial(made_up, 1000, hidden=(width, width))


def measured() -> Iterator[Measured]:
    """Every combination, one after another."""
    for grows_with, size, label, table in sweeps():
        model, data = table()
        for name, method in METHODS.items():
            yield Measured(grows_with, name, size, label, fit_seconds(method, model, data))
    for draws in (125, 250, 500, 1000, 2000):
        model, data = made_up(1000)
        for name in METHODS_WITH_DRAWS:
            method = replace(METHODS[name], n_divergence_draws=draws)
            yield Measured("divergence draws", name, draws, str(draws), fit_seconds(method, model, data))


def fit_seconds(method: Any, model: Model, data: Data) -> float:
    """The seconds of a whole fit, from some of its epochs, or from some gradients of hmc's."""
    if isinstance(method, HMC):
        return _gradient_seconds(model, data) * method.chains * (method.warmup + method.draws) * LEAPFROGS
    training = method.training
    n_epochs, batches = training.n_epochs(len(data.y)), training.batches_per_epoch(len(data.y))
    steps = MANY_STEPS if model.network.n_parameters <= MANY_PARAMETERS else FEW_STEPS
    epochs = min(math.ceil(steps / batches), n_epochs)
    short = replace(method, training=replace(training, schedule=Constant(epochs=epochs)))
    return _seconds(lambda: short.fit(jax.random.key(0), model, data).posterior) / epochs * n_epochs


def _gradient_seconds(model: Model, data: Data) -> float:
    theta = model.network.initial(jax.random.key(0))
    gradient = jax.jit(jax.grad(lambda theta: model.log_joint(theta, data)))
    repeats = max(1, min(1000, 5_000_000 // len(data.y)))

    def many() -> jax.Array:
        return jax.block_until_ready([gradient(theta) for _ in range(repeats)][-1])

    return _seconds(many) / repeats


def _seconds(work: Callable[[], Any]) -> float:
    """The second call's: the first compiles."""
    jax.block_until_ready(jax.tree.leaves(work()))
    started = time.perf_counter()
    jax.block_until_ready(jax.tree.leaves(work()))
    return time.perf_counter() - started


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """The power of size that seconds grow with, over the larger half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half - 1 :]), np.log(seconds[half - 1 :]), 1)[0])


def run_growth(folder: Path, say: Callable[[str], None] = print) -> None:
    """Write growth.csv, growth.md and growth.png into `folder`, and parts.png of a single step."""
    parts = milliseconds_of_parts()
    draw_parts(folder / "parts.png", parts)
    for name, milliseconds in parts.items():
        say(f"{name:<40}{milliseconds:8.2f} ms")
    found = []
    for one in measured():
        found.append(one)
        say(f"{one.grows_with:<18}{one.label:>10}  {one.method:<11}{one.seconds:10.2f} s a fit")
    with complete_file(folder / "growth.csv") as file, file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([Measured._fields, *found])
    with complete_file(folder / "growth.md") as file:
        file.write_text("\n\n".join(_tables(found)) + "\n", encoding="utf-8")
    _draw(folder / "growth.png", found)


def _curves(found: list[Measured], grows_with: str) -> dict[str, list[Measured]]:
    here = [one for one in found if one.grows_with == grows_with]
    return {name: [one for one in here if one.method == name] for name in dict.fromkeys(one.method for one in here)}


def _tables(found: list[Measured]) -> Iterator[str]:
    for grows_with in dict.fromkeys(one.grows_with for one in found):
        curves = _curves(found, grows_with)
        labels = [one.label for one in next(iter(curves.values()))]
        lines = [f"| {grows_with} | {' | '.join(labels)} | exponent |", "|---" * (len(labels) + 2) + "|"]
        for name, curve in curves.items():
            power = exponent([one.size for one in curve], [one.seconds for one in curve])
            lines.append(f"| {name} | {' | '.join(f'{one.seconds:.3g}' for one in curve)} | {power:.2f} |")
        yield "\n".join(lines)


def _draw(path: Path, found: list[Measured]) -> None:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from offmap.figures import write_figure

    kinds = list(dict.fromkeys(one.grows_with for one in found))
    figure = Figure(figsize=(3 * len(kinds), 3.6), layout="constrained")
    colours = {name: f"C{number}" for number, name in enumerate(METHODS)}
    for panel, kind in zip(figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0], kinds, strict=True):
        for name, curve in _curves(found, kind).items():
            panel.loglog([one.size for one in curve], [one.seconds for one in curve], "o-", color=colours[name], ms=3)
        labels = {one.size: _short(one.size) for one in found if one.grows_with == kind}
        panel.set_xticks(list(labels), list(labels.values()))
        panel.minorticks_off()
        panel.set_xlabel(kind)
        panel.grid(alpha=0.3)
    figure.axes[0].set_ylabel("seconds of a default fit")
    handles = [Line2D([], [], color=colours[name], label=name) for name in METHODS]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(METHODS), frameon=False)
    write_figure(figure, path)


def _short(size: float) -> str:
    """A tick's label: powers of ten beyond a thousand are written as such."""
    return f"$10^{{{math.log10(size):.0f}}}$" if size >= 10_000 else f"{size:g}"
