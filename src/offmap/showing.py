"""offmap show: what a model is, what it learned from, what it promises, and what wrote it."""

import dataclasses
from pathlib import Path
from typing import Any

from offmap.artifact import versions_of
from offmap.detector import OODDetector
from offmap.inference import METHODS
from offmap.quality import Quality, describe_quality, doubts
from offmap.regressor import DiverseRegressor
from offmap.scoring import load_detector
from offmap.table import describe
from offmap.table.cells import number_text


def describe_model(path: Path) -> list[str]:
    """Everything a user may want to know about a model directory, in lines of text."""
    detector = load_detector(path)
    sections = {
        "learned from": _columns(detector),
        "method": _method(detector.estimators_[0]),
        "alarm": _alarm(detector),
        "measured when it was fitted": _measured(getattr(detector, "quality_", None)),
        "written by": [", ".join(f"{name} {number}" for name, number in versions_of(path).items())],
    }
    target = getattr(detector, "target_name_", None)
    lines = [f"{path}: predicts {target!r}" if target else f"{path}: predicts a target without a name"]
    for title, content in sections.items():
        lines += [title, *(f"  {line}" for line in content)] if content else []
    return lines


def _columns(detector: OODDetector) -> list[str]:
    if detector.schema_ is not None:
        return describe(detector.schema_)
    names = ", ".join(column.describe() for column in detector.columns_)
    return [f"{detector.n_features_in_:,} columns of numbers without holes: {names}"]


def _method(regressor: Any) -> list[str]:
    """The method, its settings, the network and the noise."""
    if not isinstance(regressor, DiverseRegressor):
        return [f"{regressor}: it has no predictors that could disagree, so novelty alone decides"]
    method = regressor.method_
    name = next((name for name, known in METHODS.items() if known == method), type(method).__name__)
    settings = [f"{field.name} {getattr(method, field.name)}" for field in dataclasses.fields(method)]
    layers = " -> ".join(str(width) for width in (regressor.network_.n_inputs, *regressor.network_.hidden, 1))
    return [
        f"{name}: {'; '.join(settings)}",
        f"network {layers} ({regressor.network_.activation}), {regressor.n_draws:,} draws",
        f"noise_std {regressor.noise_std}: {number_text(regressor.noise_std_)} in target units",
    ]


def _alarm(detector: OODDetector) -> list[str]:
    """What is flagged, and what that promises."""
    n_rows, rate = len(detector.held_out_["y"]), detector.false_alarm_rate
    lines = [f"evidence: {detector.evidence_}; flagged are rows with a p-value of at most {rate:g}"]
    if detector.calibration_ == "held-out":
        lines += [
            f"calibration: held-out, on {n_rows:,} rows that the predictors never saw",
            f"promise: a new row of the same kind as the training rows is flagged with probability at most {rate:g}",
        ]
    else:
        lines += [
            f"calibration: cross-fit, on all {n_rows:,} rows, each judged by predictors that never saw it",
            f"promise: a new row of the same kind as the training rows is flagged with probability about {rate:g}, in "
            f"the worst case {2 * rate + 8 / n_rows:.2g}",
        ]
    return [*lines, "no promise: for rows that come from elsewhere, later in time, or in groups of near copies"]


def _measured(figures: dict[str, Any] | None) -> list[str]:
    """What `offmap fit` found; nothing for a model that was fitted in Python."""
    if figures is None:
        return []
    quality = Quality(**figures)
    return [*describe_quality(quality), *(f"warning: {line}" for line in doubts(quality))]
