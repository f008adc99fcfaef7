"""Where the time of a funn-hyvi step at the paper's sizes goes, part by part, each timed alone."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax

from offmap.bench.steps import seconds_per_step
from offmap.bench.tables import made_up
from offmap.bench.timing import median_seconds
from offmap.inference import PAPER_METHODS
from offmap.kernels import standard_normal
from offmap.neighbours import nearest

DRAWS, INPUTS, REPEATS = 500, 200, 50


def milliseconds_of_parts() -> dict[str, float]:
    """Every part of a step in milliseconds, and what they leave of the whole."""
    model, data = made_up()
    keys = jax.random.split(jax.random.key(0), 4)
    thetas = jax.random.normal(keys[0], (DRAWS, model.network.n_parameters))
    X, values = jax.random.normal(keys[1], (INPUTS, data.X.shape[1])), jax.random.normal(keys[2], (DRAWS, INPUTS))
    others = jax.random.normal(keys[3], (DRAWS, INPUTS))
    method = PAPER_METHODS["funn-hyvi"]
    family = method.family.initial(keys[0], model.network)  # type: ignore[attr-defined]

    def generated(family: Any) -> jax.Array:
        return family.sample(keys[1], DRAWS)

    work: dict[str, tuple[int, Callable[..., Any], tuple[Any, ...]]] = {
        "values of 500 + 500 predictors": (2, model.network.draws, (thetas, X)),
        "their gradient, hidden layer again": (
            1,
            lambda thetas, X, values: jax.vjp(lambda some: model.network.draws(some, X), thetas)[1](values),
            (thetas, X, values),
        ),
        "nearest neighbours in the prior": (1, lambda a, b: nearest(a, b, 1), (values, others)),
        "nearest neighbours among themselves": (1, lambda a: nearest(a, a, 1, skip_self=True), (values,)),
        "normal numbers for the prior": (1, lambda key: standard_normal(key, thetas.shape), (keys[0],)),
        "the generator and its gradient": (
            1,
            lambda family, thetas: jax.vjp(generated, family)[1](thetas),
            (family, thetas),
        ),
    }
    found = {
        name: 1e3 * times * median_seconds(partial(jax.jit(part), *arguments), REPEATS)
        for name, (times, part, arguments) in work.items()
    }
    whole = 1e3 * seconds_per_step(method, model, data, 5)
    return found | {"likelihood, update and the rest": max(0.0, whole - sum(found.values()))}


def draw_parts(path: Path, parts: dict[str, float]) -> None:
    """A bar for every part."""
    from matplotlib.figure import Figure

    from offmap.figures import BLUE, write_figure

    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(list(parts)[::-1], list(parts.values())[::-1], color=BLUE)
    axes.bar_label(bars, fmt="%.2f ms", padding=3)
    axes.set_xlabel(f"milliseconds of a funn-hyvi step of {sum(parts.values()):.1f} ms")
    axes.set_xlim(0, 1.2 * max(parts.values()))
    axes.spines[["top", "right"]].set_visible(False)
    write_figure(figure, path)
