"""Pictures, as files. The colours are told apart by every kind of colour vision."""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from offmap.files import complete_file

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"  # Okabe and Ito's palette
DPI = 130


def write_figure(figure: Figure, path: str | Path) -> None:
    """Write a picture, complete or not at all. It keeps 256 colours, which look the same in a third of the bytes."""
    FigureCanvasAgg(figure)
    every_colour = io.BytesIO()
    figure.savefig(every_colour, dpi=DPI)
    picture = Image.open(every_colour).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    with complete_file(path) as file:
        picture.save(file, dpi=(DPI, DPI), optimize=True)


def draw_bands(
    path: str | Path,
    x: np.ndarray,
    panels: Mapping[str, tuple[np.ndarray, np.ndarray]],
    training: tuple[np.ndarray, np.ndarray],
) -> None:
    """The paper's figure 1: per method the mean, one, two and three epistemic stds around it, and the training rows.

    `panels` maps a method's name to (mean, epistemic std) at `x`. All panels share their axes.
    """
    columns = 4
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.1 * columns, 2.6 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axis, (name, (mean, std)) in zip(axes, panels.items(), strict=False):
        for width, alpha in ((3, 0.15), (2, 0.22), (1, 0.35)):
            axis.fill_between(x, mean - width * std, mean + width * std, color=GREEN, alpha=alpha, linewidth=0)
        axis.plot(x, mean, color=GREEN, linewidth=1.5)
        axis.plot(*training, ".", color=GREY, markersize=2.5)
        axis.set_title(name, fontsize=11)
        axis.set_ylim(-4, 4)
        axis.set_xlim(x.min(), x.max())
        axis.grid(alpha=0.2)
    legend = axes[len(panels)] if len(panels) < len(axes) else None
    for place in range(len(panels), len(axes)):
        axes[place].set_axis_off()
        axes[place - columns].tick_params(labelbottom=True)  # the panel above has no other axis to share
    if legend is not None:
        _explain_bands(legend)
    write_figure(figure, path)


def _explain_bands(axis: Axes) -> None:
    """A key to the bands, in an empty panel."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Line2D([], [], color=GREEN, label="mean of the predictors"),
        *(Patch(color=GREEN, alpha=a, label=f"{n} epistemic std") for n, a in ((1, 0.6), (2, 0.35), (3, 0.15))),
        Line2D([], [], color=GREY, marker=".", linestyle="", label="training rows"),
    ]
    axis.legend(handles=handles, loc="center", frameon=False, fontsize=10)


def draw_uncertainty(path: str | Path, samples: Mapping[str, np.ndarray], threshold: float, unit: str) -> None:
    """Distributions of U on several sets of rows, with the threshold of the alarm."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axis = figure.subplots()
    every = np.concatenate(list(samples.values()))
    edges = np.linspace(every.min(), every.max(), 50).tolist()
    for (name, values), colour in zip(samples.items(), (BLUE, GREEN, ORANGE), strict=False):
        axis.hist(values, edges, density=True, histtype="stepfilled", alpha=0.35, color=colour)
        axis.hist(values, edges, density=True, histtype="step", color=colour, linewidth=1.5, label=name)
    if np.isfinite(threshold):
        axis.axvline(threshold, color=GREY, linestyle="--", linewidth=1.2, label="alarm threshold")
    axis.set_xlabel(f"epistemic uncertainty U (nats; {unit})")
    axis.set_yticks([])
    axis.legend(frameon=False)
    write_figure(figure, path)
