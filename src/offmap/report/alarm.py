"""How well the alarm separates: scores of ordinary rows and of rows off the map, and what it flags of the latter."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from offmap.encoding import N_NU, Rows, box_rows
from offmap.folds import ask
from offmap.metrics import auc, true_positive_rates
from offmap.ood import conformal_threshold
from offmap.report.charts import DIAGONAL, Axis, Chart, drawing, line, outline, points
from offmap.report.markup import Markup
from offmap.report.pieces import figure, figures, number, paragraphs, percent, section

N_BINS = 48
SCORES = {"disagreement": "U (nats)", "novelty": "distance to the nearest training rows"}
MEANING = {
    "disagreement": "U says how much the predictors differ about a row.",
    "novelty": "The mean distance to the nearest five training rows, in standard deviations of the columns.",
}
KEY = {"training": "training rows", "held-out": "held-out rows", "nu": "rows uniform in the training box"}
FALSE_ALARMS = np.unique(np.concatenate([np.linspace(0, 0.1, 51), np.linspace(0.1, 1, 46)]))

Values = Float[np.ndarray, " n"]


class Separation(NamedTuple):
    """One kind of evidence, as scores of several sets of rows: "held-out", "nu" and perhaps "training".

    A held-out row is scored by the fold that did not learn from it, a row of nu by every fold.
    """

    kind: str
    scores: dict[str, Values]
    threshold: float

    @property
    def auc(self) -> float:
        """The probability that a row of nu scores higher than a held-out one."""
        return auc(self.scores["held-out"], self.scores["nu"])


class Alarm(NamedTuple):
    """How each kind of evidence that counts tells rows apart, and the share of rows of nu that the alarm flags."""

    separations: tuple[Separation, ...]
    flagged_nu: float
    rate: float


def alarm_of(detector: Any) -> Alarm:
    """The scores of training rows, held-out rows and rows of nu, and what the detector says of the latter."""
    kinds, rate, held_out = detector.evidence_, detector.false_alarm_rate, detector.held_out_
    rows = Rows(box_rows(detector.columns_), None)
    answers = [ask(fold, detector.columns_, rows) for fold in detector.folds_]
    separations = []
    if kinds != "novelty":
        every = -(-len(detector.training_.features) // N_NU)
        some, left_out_by = detector.training_.features[::every], detector.training_.fold[::every]
        training = np.concatenate(
            [fold.regressor.uncertainty(some[left_out_by != place]) for place, fold in enumerate(detector.folds_)]
        )
        nu = np.concatenate([answer.evidences.disagreement for answer in answers])
        scores = {"training": training, "held-out": held_out["ood_score"], "nu": nu}
        separations.append(Separation("disagreement", scores, conformal_threshold(scores["held-out"], rate)))
    if kinds != "disagreement":  # training rows are left out: each is its own nearest row
        nu = np.concatenate([answer.evidences.novelty for answer in answers])
        scores = {"held-out": held_out["novelty"], "nu": nu}
        separations.append(Separation("novelty", scores, conformal_threshold(scores["held-out"], rate)))
    flagged = getattr(detector._p_values(answers), kinds) <= rate
    return Alarm(tuple(separations), float(np.mean(flagged)), rate)


def alarm_section(alarm: Alarm) -> Markup:
    """How far ordinary rows and rows off the map are apart."""
    charts = [chart for one in alarm.separations for chart in (_distributions(one), _curve(one, alarm.rate))]
    each = " Each kind of evidence is shown alone; the alarm combines them." if len(alarm.separations) > 1 else ""
    return section(
        "alarm",
        "How well the alarm separates",
        paragraphs(
            "Held-out rows stand for ordinary new rows. Rows uniform in the box of the training rows stand for rows "
            "off the map: their values are as in training, but hardly any of the combinations. Of these, the alarm "
            f"flags {percent(alarm.flagged_nu)}, at a false-alarm rate of {percent(alarm.rate)}.{each}"
        ),
        figures(*charts),
    )


def _distributions(separation: Separation) -> Markup:
    """One score on every set of rows, and where the alarm starts."""
    finite = {name: values[np.isfinite(values)] for name, values in separation.scores.items()}
    x = Axis.over(SCORES[separation.kind], *finite.values())
    edges = np.linspace(x.low, x.high, N_BINS + 1)
    heights = {name: np.histogram(values, edges)[0] / max(1, len(values)) for name, values in finite.items()}
    chart = Chart(x, Axis("share of rows", 0.0, 1.05 * max(float(shares.max()) for shares in heights.values())))
    marks = [
        outline(chart, edges, shares, name, f"{KEY[name]}: median {number(float(np.median(separation.scores[name])))}")
        for name, shares in heights.items()
    ]
    key = {name: KEY[name] for name in heights}
    if x.low <= separation.threshold <= x.high:
        key["alarm"] = f"threshold {number(separation.threshold)}"
        marks.append(line(chart, np.full(2, separation.threshold), chart.y.ends, "alarm", key["alarm"]))
    return figure(
        separation.kind.capitalize(),
        drawing(chart, f"Distributions of {SCORES[separation.kind]}", *marks),
        f"{MEANING[separation.kind]} Beyond the threshold this evidence alone would flag a row.",
        key,
    )


def _curve(separation: Separation, rate: float) -> Markup:
    """The ROC curve of one score, and where the alarm stands on it."""
    ordinary, off = separation.scores["held-out"], separation.scores["nu"]
    caught = true_positive_rates(ordinary, off, np.array([rate]))
    share = Axis("held-out rows flagged", 0.0, 1.0, percent=True)
    chart = Chart(share, share._replace(label="rows of the box flagged"))
    said = f"at {percent(rate)} false alarms, {percent(caught[0])} of the box is flagged"
    return figure(
        f"ROC of {separation.kind}: AUC {separation.auc:.3f}",
        drawing(
            chart,
            f"ROC curve of {separation.kind}",
            line(chart, DIAGONAL, DIAGONAL, "guide"),
            line(chart, FALSE_ALARMS, true_positive_rates(ordinary, off, FALSE_ALARMS), "roc"),
            points(chart, np.array([rate]), caught, [said], "roc"),
        ),
        "The AUC is the probability that a row of the box scores higher than a held-out one; 0.5 is a coin toss. "
        f"The dot: {said}.",
    )
