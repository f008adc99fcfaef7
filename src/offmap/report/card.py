"""What the model is, and its card: data, settings, versions, and what it promises and does not."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from offmap.checks import listed
from offmap.report.accuracy import Accuracy
from offmap.report.alarm import Alarm
from offmap.report.markup import Markup, element
from offmap.report.pieces import facts_table, figures, items, number, paragraphs, percent, section, tiles
from offmap.report.verdicts import Verdicts
from offmap.table import describe

LONGEST_SETTING = 300  # characters of a setting that the card shows

PROMISES = {
    "held-out": "The alarm was set by rows that the predictors had not learned from. A new row that is exchangeable "
    "with the training rows is flagged with probability at most {rate}: exactly, whatever the data and the model.",
    "cross-fit": "The alarm was set by all rows, each scored by predictors that had not learned from it. A new row "
    "that is exchangeable with the training rows is flagged with probability close to {rate} or less, and in the "
    "worst case with probability twice {rate} plus 8 / rows.",
}
LIMITS = (
    "The rate is an average over ordinary rows. One kind of row may be flagged more often than another.",
    "For one model the share of false alarms scatters around the rate, by about {scatter} with {rows} "
    "calibration rows.",
    "Nothing is promised once new rows differ from the training rows: then more alarms are the point. Drift over time, "
    "copies of one measurement, and rows that come in groups break the promise too.",
    "A row that is not flagged may still be predicted badly. A flagged row may be predicted well: the alarm says that "
    "the model cannot know.",
    "Intervals assume noise of the same size, with a normal distribution, in every row.",
)


class Origin(NamedTuple):
    """Where a model comes from, as far as it does not know itself: its name, what wrote it, and doubts about it."""

    name: str = ""
    versions: Mapping[str, str] = {}
    doubts: Sequence[str] = ()


def model_section(detector: Any, accuracy: Accuracy, alarm: Alarm, verdicts: Verdicts | None, origin: Origin) -> Markup:
    """What the model is, and the numbers that matter."""
    doubts = element("div", *(element("p", f"Mind: {doubt}") for doubt in origin.doubts), class_="doubts")
    facts = [
        (number(accuracy.rmse), f"error (RMSE) on held-out rows; always the mean: {number(accuracy.rmse_of_mean)}"),
        *(
            (f"{one.auc:.3f}", f"AUC of {one.kind}: ordinary rows against rows off the map")
            for one in alarm.separations
        ),
        (percent(alarm.rate), f"promised rate of false alarms{_measured(detector)}"),
    ]
    if verdicts is not None:
        share = percent(verdicts.flagged / verdicts.rows)
        facts.append((f"{verdicts.flagged:,}", f"of {verdicts.rows:,} rows of the table are flagged: {share}"))
    return section(
        "model", "What the model is", paragraphs(_what(detector)), tiles(facts), doubts if origin.doubts else ""
    )


def _what(detector: Any) -> str:
    n_rows = f"{detector.schema_.rows:,} rows and " if detector.schema_ is not None else ""
    source = f"{n_rows}{len(detector.columns_):,} column{'s' * (len(detector.columns_) > 1)}"
    regressor = detector.estimators_[0]
    if not hasattr(regressor, "uncertainty"):
        return (
            f"{type(regressor).__name__}, learned from {source}. It is one predictor, so nothing can disagree: the "
            "alarm goes by novelty alone, the distance of a row's inputs from the training rows."
        )
    evidence = {
        "both": "The alarm also goes by novelty: the distance of a row's inputs from the training rows.",
        "disagreement": "The alarm goes by this disagreement alone.",
        "novelty": "The alarm goes by novelty alone: the distance of a row's inputs from the training rows.",
    }
    return (
        f"Many predictors that all explain the training rows ({_method_name(regressor)}), learned from {source}. Where "
        f"they agree, the data decide; where they disagree, they do not. {evidence[detector.evidence_]}"
    )


def _method_name(regressor: Any) -> str:
    return regressor.method if isinstance(regressor.method, str) else type(regressor.method).__name__


def _measured(detector: Any) -> str:
    quality = getattr(detector, "quality_", None)
    return "" if quality is None else f"; measured on the rows held back: {percent(quality['measured'])}"


def card_section(detector: Any, alarm: Alarm, origin: Origin) -> Markup:
    """Data, settings, versions, promises and limits."""
    n_rows = len(detector.held_out_["y"])
    scatter = percent(float(np.sqrt(alarm.rate * (1 - alarm.rate) / n_rows)))
    promise = PROMISES[detector.calibration_].format(rate=percent(alarm.rate))
    limits = [limit.format(scatter=scatter, rows=f"{n_rows:,}") for limit in LIMITS]
    return section(
        "card",
        "Model card",
        element("h3", "What is promised"),
        paragraphs(promise),
        element("h3", "What is not"),
        items(limits),
        element("h3", "Data"),
        items(_columns(detector)),
        figures(
            element("div", facts_table(_settings(detector), "Settings")),
            element("div", facts_table(origin.versions.items(), "Versions")),
        ),
    )


def _columns(detector: Any) -> list[str]:
    if detector.schema_ is not None:
        return describe(detector.schema_)
    return [
        f"{len(detector.columns_):,} number columns: {listed([one.describe() for one in detector.columns_], most=30)}"
    ]


def _settings(detector: Any) -> Iterable[tuple[str, str]]:
    """Every setting of the detector and of its regressor, and what fitting made of them."""
    regressor = detector.estimators_[0]
    chosen = {**detector.get_params(deep=False), **regressor.get_params(deep=False)}
    chosen |= {"estimator": type(regressor).__name__, "calibration": detector.calibration_}
    if hasattr(regressor, "noise_std_"):
        found = np.mean([one.noise_std_**2 for one in detector.estimators_]) ** 0.5
        chosen |= {"method": repr(regressor.method_), "noise_std": f"{number(found)} ({regressor.noise_std})"}
    for name, value in chosen.items():
        text = str(value)
        yield name, text if len(text) <= LONGEST_SETTING else f"{text[:LONGEST_SETTING]}..."
