"""OODDetector: flags rows off the map, at a false-alarm rate that holds, and says why."""

import math
import warnings
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Bool
from sklearn.base import OutlierMixin, clone
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from offmap.artifact import load, storable
from offmap.attribution import learn_background
from offmap.checks import is_number, target_as_numbers
from offmap.console import progress_bar
from offmap.encoding import (
    Rows,
    column_groups,
    column_weights,
    encoded,
    is_mixed_frame,
    lost_values,
    number_columns,
    take,
)
from offmap.estimator import TableEstimator
from offmap.explanation import KINDS, Explanation, explained, findings, which_spoke
from offmap.folds import Answers, Fold, ask, held_out_answers, splits_of, training_rows
from offmap.novelty import learn_reference, nearest, place
from offmap.ood import Evidences, PValues, conformal_threshold, cross_p_values
from offmap.phrases import reason_of, sentence_of
from offmap.progress import part
from offmap.regressor import DiverseRegressor
from offmap.table import Schema, learn_schema

__all__ = ["OODDetector", "load"]  # `load` from here: by now every class that a model directory may hold is known

CALIBRATIONS = ("held-out", "cross-fit")


@storable
class OODDetector(OutlierMixin, TableEstimator):
    """Flags rows that are too far from what a regressor learned, at a false-alarm rate that holds.

    estimator: a `DiverseRegressor`, fitted or not: it is cloned and fitted anew. None for the default one. Any other
        scikit-learn regressor has no predictors that could disagree: novelty alone decides then, and a warning says so.
    false_alarm_rate: the share of ordinary new rows that may be flagged.
    evidence: "disagreement" of the predictors, "novelty" of the inputs (far from every training row), or "both".
    calibration: "held-out" sets a fifth of the rows aside; "cross-fit" leaves every fifth out in turn; "auto" picks.
    random_state: which rows are set aside, and the seed of a regressor that has none of its own.

    What scores a calibration row never learned from it. Held-out, the promise is exact: a new row exchangeable with the
    training rows is flagged with probability at most `false_alarm_rate`. Cross-fitted, that probability is at most
    2 x rate + 8 / rows in the worst case; in practice the rate holds. See docs/design.md.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        false_alarm_rate: float = 0.05,
        evidence: Literal["both", "disagreement", "novelty"] = "both",
        calibration: Literal["auto", "held-out", "cross-fit"] = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.false_alarm_rate = false_alarm_rate
        self.evidence = evidence
        self.calibration = calibration
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the regressor on some rows, and set the alarm by the others.

        X: numbers, or a frame with text, dates, true and false, and holes. Rows without a target must be left out.
        """
        _check_rate(self.false_alarm_rate)
        for name, choices in (("calibration", ("auto", *CALIBRATIONS)), ("evidence", ("both", *KINDS))):
            if getattr(self, name) not in choices:
                allowed = f"{', '.join(choices[:-1])} or {choices[-1]}"
                raise ValueError(f"{name} is {getattr(self, name)!r}, but it must be {allowed}.")
        regressor = self._regressor()
        with self._all_or_nothing(), progress_bar(getattr(self.estimator, "verbose", False)):
            self._fit(regressor, *self._learn_columns(X, y))
        return self

    def fit_predict(self, X: Any, y: Any) -> np.ndarray:
        """`fit` to these rows, then `predict` them."""
        return self.fit(X, y).predict(X)

    def _regressor(self) -> Any:
        """The regressor to fit, or an error when it cannot give the evidence that is asked for."""
        regressor = DiverseRegressor() if self.estimator is None else self.estimator
        if not (hasattr(regressor, "fit") and hasattr(regressor, "predict")):
            raise ValueError(
                f"estimator is {regressor!r}, but it must be a DiverseRegressor, or another scikit-learn regressor."
            )
        if not isinstance(regressor, DiverseRegressor) and self.evidence != "novelty":
            problem = f"{type(regressor).__name__} has no predictors that could disagree"
            if self.evidence == "disagreement":
                raise ValueError(f"{problem}. Use a DiverseRegressor, or evidence='novelty'.")
            warnings.warn(
                f"{problem}, so novelty alone decides. With evidence='novelty' there is no warning.", stacklevel=3
            )
        regressor = clone(regressor)
        if getattr(regressor, "random_state", 0) is None:
            regressor.random_state = check_random_state(self.random_state).randint(2**31 - 1)
        return regressor

    def _learn_columns(self, X: Any, y: Any) -> tuple[Rows, np.ndarray]:
        """The rows as numbers, and their targets. Frames that are not all numbers get a schema."""
        if not is_mixed_frame(X):
            features, y = self._training_rows(X, y, at_least=3)
            self.schema_ = None
            self.columns_ = number_columns(features, getattr(self, "feature_names_in_", None))
            return Rows(features, None), y
        if y is None:
            raise ValueError("OODDetector requires y to be passed, but the target y is None.")
        y = target_as_numbers(y, X).ravel()
        if len(y) < 3:
            raise ValueError(f"The table has {len(y)} rows, but a minimum of 3 is required.")
        self.schema_ = learn_schema(X)
        self.columns_ = self.schema_.columns
        self.feature_names_in_ = np.array([column.name for column in self.columns_], dtype=object)
        self.n_features_in_ = len(self.columns_)
        return encoded(self.schema_, X), y

    def _fit(self, regressor: Any, rows: Rows, y: np.ndarray) -> None:
        for told in ("quality_", "target_name_"):  # of an earlier fit, by `offmap fit`
            self.__dict__.pop(told, None)
        random = check_random_state(self.random_state)
        splits = splits_of(len(y), self.calibration, self.false_alarm_rate, random)
        self.training_ = training_rows(rows, y, splits, random)
        self.folds_: list[Fold] = []
        parts = []
        for number, (learned, kept_back) in enumerate(splits):
            lost = lost_values(self.columns_, rows, learned, kept_back)
            with part(f"fit {number + 1} of {len(splits)}"):
                fitted = clone(regressor).fit(rows.features[learned], y[learned])
            compared = self.training_.features[self.training_.fold != number]
            fold = Fold(fitted, learn_reference(compared, column_weights(self.columns_)), lost)
            answers = ask(fold, self.columns_, take(rows, kept_back))
            self.folds_.append(fold)
            parts.append(held_out_answers(fold, number, answers, kept_back, y[kept_back]))
        self.held_out_ = {name: np.concatenate([values[name] for values in parts]) for name in parts[0]}
        groups = column_groups(self.columns_)
        self.background_ = learn_background(self.folds_[0].reference, self.training_.features, groups)
        self._set_offset()

    def _set_offset(self) -> None:
        scores = self.calibration_scores_
        if self.evidence_ != "novelty" and scores[-1] == -math.inf:
            raise ValueError(
                "All predictors agree on every calibration row, so their disagreement cannot tell rows apart. Use a "
                "method with at least 2 members, and at least one hidden layer."
            )
        threshold = conformal_threshold(scores, self.false_alarm_rate)
        self.offset_ = -threshold
        if threshold == math.inf:
            warnings.warn(
                f"Nothing can be flagged: {len(scores)} calibration rows are too few for a "
                f"false_alarm_rate of {self.false_alarm_rate:g}. It takes at least "
                f"{math.ceil(1 / self.false_alarm_rate) - 1} of them, or a larger rate.",
                stacklevel=4,
            )

    @property
    def estimators_(self) -> list[Any]:
        """The fitted regressor of each fold."""
        return [fold.regressor for fold in self.folds_]

    @property
    def calibration_(self) -> str:
        """Which calibration was used: "held-out" or "cross-fit"."""
        return "held-out" if len(self.folds_) == 1 else "cross-fit"

    @property
    def evidence_(self) -> str:
        """Which evidence decides: "both", "disagreement" or "novelty". The last for a regressor without predictors."""
        return self.evidence if self.folds_[0].has_predictors else "novelty"

    @property
    def calibration_scores_(self) -> np.ndarray:
        """The scores that `offset_` comes from, in order: U of the calibration rows, or their novelty without U."""
        return np.sort(self.held_out_["ood_score" if self.folds_[0].has_predictors else "novelty"])

    def _rows(self, X: Any) -> Rows:
        """New rows as numbers. Also a frame of numbers may have holes now, or text where it should not."""
        check_is_fitted(self)
        if self.schema_ is not None:
            return encoded(self.schema_, X)
        if hasattr(self, "feature_names_in_") and is_mixed_frame(X):
            return encoded(Schema(rows=0, columns=self.columns_, left_out=()), X)
        return Rows(self._new_rows(X), None)

    def _answers(self, rows: Rows) -> list[Answers]:
        return [ask(fold, self.columns_, rows) for fold in self.folds_]

    def _p_values(self, answers: list[Answers]) -> PValues:
        """How unusual the rows are. Without predictors only novelty has an answer."""
        kept, fold = self.held_out_, self.held_out_["fold"]
        known = [
            Evidences(disagreement=kept["ood_score"][fold == number], novelty=kept["novelty"][fold == number])
            for number in range(len(self.folds_))
        ]
        p_values = cross_p_values([each.evidences for each in answers], known)
        if self.folds_[0].has_predictors:
            return p_values
        nothing = np.full(len(p_values.novelty), math.nan)
        return PValues(disagreement=nothing, novelty=p_values.novelty, both=nothing)

    def score_samples(self, X: Any) -> np.ndarray:
        """-U(x), in nats: smaller is further off the map (scikit-learn's sign). U is that of the most confident
        regressor, where cross-fitting made several. This is disagreement alone; novelty has its say in `p_values`,
        `predict` and `verdicts`. For a regressor without predictors that could disagree: minus the novelty."""
        evidences = [each.evidences for each in self._answers(self._rows(X))]
        has_predictors = self.folds_[0].has_predictors
        return -np.min([each.disagreement if has_predictors else each.novelty for each in evidences], axis=0)

    def decision_function(self, X: Any) -> np.ndarray:
        """`score_samples` minus `offset_`: negative for rows that its score alone would flag (cross-fitted: most)."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """+1 for rows on the map, -1 for rows off it: those whose p-value is at most `false_alarm_rate`."""
        return np.where(self.p_values(X) <= self.false_alarm_rate, -1, 1)

    def p_values(self, X: Any) -> np.ndarray:
        """Conformal p-values, in (0, 1]: how unusual a row is among rows that the regressor did not learn from."""
        return np.asarray(getattr(self.p_values_by_evidence(X), self.evidence_))

    def p_values_by_evidence(self, X: Any) -> PValues:
        """The p-values of disagreement, of novelty, and of both together; NaN where there are no predictors."""
        return self._p_values(self._answers(self._rows(X)))

    def verdicts(self, X: Any, false_alarm_rate: float | None = None) -> dict[str, np.ndarray]:
        """Every answer about every row, by name: prediction, std_epistemic, std_total (target units), ood_score (U,
        nats), p_disagreement, p_novelty, p_value, is_ood, and a short reason, empty for rows that are not flagged.

        The prediction pools the draws of all regressors. false_alarm_rate: another one than the detector's. A regressor
        without predictors that could disagree leaves std_epistemic, std_total, ood_score and p_disagreement NaN.
        """
        rate = self.false_alarm_rate if false_alarm_rate is None else false_alarm_rate
        _check_rate(rate)
        rows = self._rows(X)
        answers = self._answers(rows)
        p_values = self._p_values(answers)
        mean, variance = (np.array([each[place] for each in answers]) for place in (0, 1))
        epistemic = variance.mean(axis=0) + mean.var(axis=0)
        noise = np.mean([fold.noise_variance for fold in self.folds_])
        p_value = np.asarray(getattr(p_values, self.evidence_))
        is_ood = p_value <= rate
        return {
            "prediction": mean.mean(axis=0),
            "std_epistemic": np.sqrt(epistemic),
            "std_total": np.sqrt(epistemic + noise),
            "ood_score": np.min([each.evidences.disagreement for each in answers], axis=0),
            "p_disagreement": p_values.disagreement,
            "p_novelty": p_values.novelty,
            "p_value": p_value,
            "is_ood": is_ood,
            "reason": self._reasons(rows, which_spoke(p_values, self.evidence_, rate)),
        }

    def explain(self, X: Any) -> list[Explanation]:
        """Why each row is strange, or what is least usual about it: columns and their parts, neighbours, a sentence."""
        rows = self._rows(X)
        spoke = which_spoke(self._p_values(self._answers(rows)), self.evidence_, self.false_alarm_rate)
        found = findings(self.folds_, self.background_, self.columns_, rows, spoke)
        reference = self.folds_[0].reference
        everything = reference._replace(rows=place(reference, self.training_.features))
        neighbours = self.training_.row[nearest(everything, place(reference, rows.features)).places]
        return [explained(each, sentence_of(each), near) for each, near in zip(found, neighbours, strict=True)]

    def _reasons(self, rows: Rows, spoke: Bool[np.ndarray, "n 2"]) -> np.ndarray:
        """A phrase for each row of which some evidence spoke, and nothing for the others."""
        reasons, flagged = np.full(len(spoke), "", dtype=object), np.flatnonzero(spoke.any(axis=1))
        found = findings(self.folds_, self.background_, self.columns_, take(rows, flagged), spoke[flagged])
        for row, each in zip(flagged, found, strict=True):
            reasons[row] = reason_of(each)
        return reasons

    def report(self, path: str | Path, X: Any = None, force: bool = False) -> None:
        """Write one self-contained page about the detector, and about rows X: a frame, an array or a path."""
        from offmap.report import write_report

        write_report(self, path, X, force=force)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _check_rate(rate: Any) -> None:
    if not (is_number(rate) and 0 < rate < 1):
        raise ValueError(f"false_alarm_rate is {rate!r}, but it must lie between 0 and 1.")
