"""How good the predictions are on rows that the predictors never saw, and whether the intervals hold what they say."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import norm

from offmap.metrics import rmse
from offmap.report.charts import DIAGONAL, Axis, Chart, band, drawing, line, points
from offmap.report.markup import Markup
from offmap.report.pieces import MINUS, PLUS_MINUS, figure, figures, number, paragraphs, percent, section, table

NOMINAL = np.linspace(0.05, 0.95, 19)  # the intervals whose coverage is asked for
LISTED = (9, 15, 17, 18)  # those given in numbers: 50, 80, 90 and 95%
HALF_WIDTHS = norm.ppf((1 + NOMINAL) / 2)  # in stds
MOST_POINTS = 1000

Values = Float[np.ndarray, " n"]


class Accuracy(NamedTuple):
    """Predictions of held-out rows, in target units, and the share of rows that the intervals at `NOMINAL` held."""

    row: Int[np.ndarray, " n"]
    y: Values
    prediction: Values
    std: Values
    rmse: float
    rmse_of_mean: float
    rmse_of_ridge: float | None
    coverage: Values


def accuracy_of(held_out: dict[str, np.ndarray], measured: Mapping[str, float]) -> Accuracy:
    """How good the held-out predictions are, and how often prediction +- z std held the observed value.

    `measured` holds the errors of simple predictors, `rmse_of_mean` and `rmse_of_ridge`, where they are known.
    """
    y, prediction, std = held_out["y"], held_out["prediction"], held_out["std_total"]
    needed = np.abs(y - prediction) / std  # the half-width, in stds, of the smallest interval that holds y
    return Accuracy(
        row=held_out["row"],
        y=y,
        prediction=prediction,
        std=std,
        rmse=rmse(y, prediction),
        rmse_of_mean=measured.get("rmse_of_mean", float(np.std(y))),
        rmse_of_ridge=measured.get("rmse_of_ridge"),
        coverage=np.mean(needed[:, None] <= HALF_WIDTHS, axis=0),
    )


def accuracy_section(accuracy: Accuracy, target: str) -> Markup:
    """Predictions against what was observed."""
    ridge = accuracy.rmse_of_ridge
    by_ridge = "" if ridge is None else f", and with a ridge regression {number(ridge)}"
    return section(
        "accuracy",
        "How good the predictions are",
        paragraphs(
            f"{len(accuracy.y):,} rows of the training table were each predicted by predictors that had not learned "
            f"from them. The error (RMSE) is {number(accuracy.rmse)}. Always answering the mean, it would be "
            f"{number(accuracy.rmse_of_mean)}{by_ridge}."
        ),
        figures(*_predictions(accuracy, target), *_intervals(accuracy)),
    )


def _predictions(accuracy: Accuracy, target: str) -> tuple[Markup, Markup]:
    """Each row as a dot: predicted and observed, predicted and missed."""
    shown = np.unique(np.linspace(0, len(accuracy.y) - 1, min(len(accuracy.y), MOST_POINTS)).round().astype(int))
    y, prediction, std = accuracy.y[shown], accuracy.prediction[shown], accuracy.std[shown]
    titles = [
        f"training row {row + 1:,}: predicted {number(p)} {PLUS_MINUS} {number(s)}, observed {number(o)}"
        for row, p, s, o in zip(accuracy.row[shown], prediction, std, y, strict=True)
    ]
    span = Axis.over(f"predicted {target}", y, prediction)
    observed = Chart(span, span._replace(label=f"observed {target}"))
    missed = Chart(Axis.over(span.label, prediction), Axis.over(f"observed {MINUS} predicted", y - prediction))
    some = f" {len(y):,} of {len(accuracy.y):,} rows are drawn." if len(y) < len(accuracy.y) else ""
    return (
        figure(
            "Predicted and observed",
            drawing(
                observed,
                "Observed against predicted values of held-out rows",
                line(observed, span.ends, span.ends, "guide"),
                points(observed, prediction, y, titles, "held-out"),
            ),
            f"Each dot is a held-out row. On the dashed line the prediction is right.{some}",
        ),
        figure(
            "Residuals",
            drawing(
                missed,
                "Residuals of held-out rows against their predictions",
                line(missed, missed.x.ends, np.zeros(2), "guide"),
                points(missed, prediction, y - prediction, titles, "held-out"),
            ),
            "What each prediction missed. A bend or a funnel is something that the model has not learned.",
        ),
    )


def _intervals(accuracy: Accuracy) -> tuple[Markup, ...]:
    """How often intervals hold what they should; nothing for a regressor that has none."""
    if not np.all(np.isfinite(accuracy.std)):
        return ()
    share = Axis("interval, nominal", 0.0, 1.0, percent=True)
    chart = Chart(share, share._replace(label="rows inside, observed"))
    chance = 2 * np.sqrt(NOMINAL * (1 - NOMINAL) / len(accuracy.y))
    titles = [_coverage_text(*shares) for shares in zip(NOMINAL, accuracy.coverage, strict=True)]
    drawn = drawing(
        chart,
        "Observed against nominal coverage of the intervals",
        band(chart, NOMINAL, np.maximum(NOMINAL - chance, 0), np.minimum(NOMINAL + chance, 1), "chance"),
        line(chart, DIAGONAL, DIAGONAL, "guide"),
        line(chart, NOMINAL, accuracy.coverage, "held-out"),
        points(chart, NOMINAL, accuracy.coverage, titles, "held-out"),
    )
    half_widths = HALF_WIDTHS * np.median(accuracy.std)
    names = ["interval", "rows inside", "half-width"]
    rows = [(f"{NOMINAL[i]:.0%}", percent(accuracy.coverage[i]), number(half_widths[i])) for i in LISTED]
    return (
        figure(
            "Calibration of the intervals",
            drawn,
            f"An interval is the prediction {PLUS_MINUS} z times std_total. Below the dashed line intervals are too "
            "narrow, above it wider than they need to be; inside the grey band the difference may be chance.",
        ),
        figure(
            "Intervals in numbers",
            table(names, rows, names),
            "The share of held-out rows inside their interval, and the half-width for the median row, in target units.",
        ),
    )


def _coverage_text(nominal: float, observed: float) -> str:
    return f"{nominal:.0%} intervals held {percent(observed)} of the rows"
