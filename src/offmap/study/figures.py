"""The study's pictures: the wave's seven panels, and per table the distributions of U and the ROC curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from offmap.datasets import load_dataset
from offmap.figures import BLUE, GREEN, GREY, ORANGE, draw_bands, write_figure
from offmap.study.measure import Split
from offmap.study.record import FALSE_POSITIVE_RATES, Record

ByMethod = Mapping[str, Sequence[Record]]  # the records of a dataset: one a seed
Style = tuple[str, str | tuple[float, tuple[float, ...]]]  # a colour, and matplotlib's name for a line's dashes

# Okabe and Ito's palette, and a dash each, so that curves are told apart without colours, too.
STYLES: dict[str, Style] = {
    "hmc": ("#000000", "-"),
    "mc-dropout": ("#E69F00", (0, (1, 1))),
    "ensemble": ("#56B4E9", (0, (5, 1.5))),
    "mfvi": ("#CC79A7", (0, (1, 1))),
    "funn-mfvi": ("#999999", (0, (4, 1, 1, 1))),
    "nn-hyvi": ("#0072B2", (0, (5, 1.5))),
    "funn-hyvi": ("#D55E00", "-"),
}
SETS = {"u_train": ("training rows", BLUE), "u_test": ("test rows", GREEN), "u_ood": ("off the map (nu)", ORANGE)}
HEIGHT = 0.92  # of a curve, in steps from method to method
VISIBLE = 0.006  # in the same steps: a curve is drawn from where it is first so high to where it is last
NONE_MISSED = 1e-4  # one of 10,000 draws of nu: fewer cannot be told from none
WIDTH = 9.2  # inches
IN_A_GAP = 8  # values between two quantiles


def draw_wave(path: Path, methods: ByMethod) -> None:
    """The paper's figure 1: mean and epistemic stds along x, by method, of the first seed."""
    first = {method: records[0]["bands"] for method, records in methods.items() if records[0]["bands"]}
    panels = {method: (np.array(bands["mean"]), np.array(bands["std"])) for method, bands in first.items()}
    table = load_dataset("wave")
    split = Split.of(table.X, table.y)
    draw_bands(path, np.array(next(iter(first.values()))["x"]), panels, (split.X_train[:, 0], split.y_train))


def _pooled(records: Sequence[Record], key: str) -> np.ndarray:
    """Values of U that stand for the rows of all seeds; those of rows whose U is -inf are left out."""
    finite = [[value for value in record[key] or [] if value is not None] for record in records]
    return np.concatenate([np.empty(0), *(_between(np.array(values, float)) for values in finite if values)])


def _between(quantiles: np.ndarray) -> np.ndarray:
    """As many values in every gap between neighbours: as many rows lie there, and an extreme is but one row."""
    gaps = max(1, len(quantiles) - 1)
    places = (np.arange(gaps * IN_A_GAP) + 0.5) / IN_A_GAP
    return np.interp(places, np.arange(len(quantiles)), quantiles)


def _common_range(methods: ByMethod) -> tuple[float, float]:
    """The x axis of all methods: nearly all of each distribution, with room beside it."""
    ends = [
        np.quantile(values, [0.02, 0.995])
        for records in methods.values()
        for key in SETS
        if len(values := _pooled(records, key))
    ]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _from_end_to_end(there: np.ndarray) -> np.ndarray:
    """Whether a place lies between the first and the last that is `there`, so that a thin tail is not cut into dashes.

    >>> _from_end_to_end(np.array([False, True, False, True, False])).tolist()
    [False, True, True, True, False]
    """
    return np.logical_or.accumulate(there) & np.logical_or.accumulate(there[::-1])[::-1]


def _density(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A kernel density at `x`, scaled to a height of 1."""
    if not len(values):
        return np.zeros_like(x)
    middle = np.diff(np.quantile(values, [0.25, 0.75]))[0] / 1.35
    width = max(0.9 * min(np.std(values), middle or np.inf) * len(values) ** -0.2, 0.004 * (x[-1] - x[0]))
    heights = np.exp(-0.5 * ((x[:, None] - values[None, :]) / width) ** 2).sum(axis=1)
    return np.asarray(heights / max(heights.max(), 1e-300))


def draw_distributions(path: Path, dataset: str, methods: ByMethod) -> None:
    """U on training rows, test rows and rows of nu: a line for every method, all on the same axis, seeds pooled."""
    figure = Figure(figsize=(WIDTH, 1.3 + 0.72 * len(methods)), layout="constrained")
    axis = figure.subplots()
    x = np.linspace(*_common_range(methods), 600)
    for place, records in enumerate(methods.values()):
        base = len(methods) - 1.0 - place
        axis.axhline(base, color=GREY, linewidth=0.6, zorder=place)
        for key, (name, colour) in SETS.items():
            heights = HEIGHT * _density(_pooled(records, key), x)
            curve = base + np.where(_from_end_to_end(heights > VISIBLE), heights, np.nan)
            axis.fill_between(x, base, curve, color=colour, alpha=0.3, linewidth=0, zorder=place)
            axis.plot(x, curve, color=colour, linewidth=1.4, zorder=place, label=None if place else name)
    names = [f"{method}\nAUC {_mean_auc(records):.4f}" for method, records in methods.items()]
    axis.set_yticks([0.25 + place for place in range(len(methods))], names[::-1], fontsize=10)
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(x[0], x[-1])
    axis.set_ylim(-0.06, len(methods) - 1 + HEIGHT + 0.1)
    axis.grid(axis="x", alpha=0.25)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.set_xlabel("U (nats, target units); every curve is scaled to the same height")
    figure.suptitle(f"{dataset}: epistemic uncertainty on the map and off it", fontsize=12)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=10)
    write_figure(figure, path)


def _mean_auc(records: Sequence[Record]) -> float:
    return float(np.mean([record["auc"] for record in records]))


def draw_roc(path: Path, dataset: str, methods: ByMethod) -> None:
    """ROC curves, mean and min-max band over seeds: as the paper has them, and with their crowded corner spread out."""
    figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
    whole, corner = figure.subplots(1, 2, width_ratios=(1, 1.25))
    rates = np.array(FALSE_POSITIVE_RATES)
    for method, records in methods.items():
        curves = np.array([record["roc"] for record in records], float)
        style = STYLES.get(method, (GREY, "-"))
        _draw_curve(whole, rates, curves, style, f"{_mean_auc(records):.4f} {method}")
        _draw_curve(corner, rates[1:], np.maximum(1 - curves[:, 1:], NONE_MISSED), style)
    rows = next(record["n_train"] + record["n_test"] for records in methods.values() for record in records)
    corner.set(xscale="log", xlim=(max(1 / rows, rates[1]), 1), yscale="log", ylim=(1, 0.8 * NONE_MISSED))
    corner.set_yticks([1, 0.1, 0.01, 0.001, NONE_MISSED], ["0", "0.9", "0.99", "0.999", "all"])
    corner.set_yticks([], minor=True)
    corner.set_xlabel("the same, both axes logarithmic, down to one row")
    whole.set(xlim=(0, 1), ylim=(0, 1.01), xlabel="share of the table's rows that is flagged")
    whole.set_ylabel("share of the draws of nu that is flagged")
    for axis in (whole, corner):
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{dataset}: ROC curves, mean and range over seeds", fontsize=12)
    figure.legend(title="AUC", loc="outside right center", frameon=False, fontsize=9.5, handlelength=3)
    write_figure(figure, path)


def _draw_curve(axis: Axes, x: np.ndarray, curves: np.ndarray, style: Style, label: str | None = None) -> None:
    colour, dashes = style
    axis.fill_between(x, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.18, linewidth=0)
    axis.plot(x, curves.mean(axis=0), color=colour, linestyle=dashes, linewidth=1.8, label=label)
