"""OODDetector: flags rows off the map, at a false-alarm rate that holds."""

import math
import warnings
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import OutlierMixin, clone
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import Tags, check_random_state

from offmap.artifact import load, storable
from offmap.checks import is_number
from offmap.console import progress_bar
from offmap.estimator import TableEstimator
from offmap.ood import conformal_p_values, conformal_threshold
from offmap.predictive import epistemic_uncertainty
from offmap.progress import part
from offmap.regressor import DiverseRegressor

__all__ = ["OODDetector", "load"]  # `load` from here: by now every class that a model directory may hold is known

CALIBRATIONS = ("held-out", "cross-fit")
HELD_OUT_SHARE, N_FOLDS, ENOUGH_HELD_OUT = 0.2, 5, 200


@storable
class OODDetector(OutlierMixin, TableEstimator):
    """Flags rows that are too far from what a regressor learned, at a false-alarm rate that holds.

    estimator: a `DiverseRegressor`, fitted or not: it is cloned and fitted anew. None for the default one.
    false_alarm_rate: the share of ordinary new rows that may be flagged.
    calibration: "held-out" sets a fifth of the rows aside; "cross-fit" leaves every fifth out in turn; "auto" picks.
    random_state: which rows are set aside, and the seed of a regressor that has none of its own.

    The scored predictors never learned from the rows they are compared with. Held-out, the promise is exact: a new row
    exchangeable with the training rows is flagged with probability at most `false_alarm_rate`. Cross-fitted, a row is
    scored by the most confident of five regressors, and the rate is at most twice that plus sqrt(2 / rows) in the worst
    case, and in practice below it. See docs/design.md.
    """

    def __init__(
        self,
        estimator: DiverseRegressor | None = None,
        *,
        false_alarm_rate: float = 0.05,
        calibration: Literal["auto", "held-out", "cross-fit"] = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.false_alarm_rate = false_alarm_rate
        self.calibration = calibration
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the regressor on some rows, and set the alarm by the others."""
        if not (is_number(self.false_alarm_rate) and 0 < self.false_alarm_rate < 1):
            raise ValueError(f"false_alarm_rate is {self.false_alarm_rate!r}, but it must lie between 0 and 1.")
        if self.calibration not in ("auto", *CALIBRATIONS):
            raise ValueError(f"calibration is {self.calibration!r}, but it must be auto, {' or '.join(CALIBRATIONS)}.")
        with self._all_or_nothing(), progress_bar(getattr(self.estimator, "verbose", False)):
            self._fit(*self._training_rows(X, y, at_least=3))
        return self

    def fit_predict(self, X: Any, y: Any) -> np.ndarray:
        """`fit` to these rows, then `predict` them."""
        return self.fit(X, y).predict(X)

    def _fit(self, X: np.ndarray, y: np.ndarray) -> None:
        regressor = DiverseRegressor() if self.estimator is None else self.estimator
        if not isinstance(regressor, DiverseRegressor):
            raise ValueError(f"estimator is {regressor!r}, but it must be a DiverseRegressor.")
        regressor, fitted, scores = clone(regressor), [], []
        if regressor.random_state is None:
            regressor.random_state = check_random_state(self.random_state).randint(2**31 - 1)
        splits = self._splits(len(X))
        for number, (learned, kept_back) in enumerate(splits, start=1):
            with part(f"fit {number} of {len(splits)}"):
                fitted.append(clone(regressor).fit(X[learned], y[learned]))
            scores.append(fitted[-1].uncertainty(X[kept_back]))
        self.estimators_, self.calibration_scores_ = fitted, np.sort(np.concatenate(scores))
        if self.calibration_scores_[-1] == -math.inf:
            raise ValueError(
                "All predictors agree on every calibration row, so their disagreement cannot tell rows apart. Use a "
                "method with at least 2 members, and at least one hidden layer."
            )
        threshold = conformal_threshold(self.calibration_scores_, self.false_alarm_rate)
        self.offset_ = -threshold
        if threshold == math.inf:
            warnings.warn(
                f"Nothing can be flagged: {len(self.calibration_scores_)} calibration rows are too few for a "
                f"false_alarm_rate of {self.false_alarm_rate:g}. It takes at least "
                f"{math.ceil(1 / self.false_alarm_rate) - 1} of them, or a larger rate.",
                stacklevel=3,
            )

    def _splits(self, n_rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """(rows to learn, rows to calibrate on): one pair when a fifth of the rows is enough, else five."""
        random = check_random_state(self.random_state)
        kind = self.calibration
        if kind == "auto":
            enough = HELD_OUT_SHARE * n_rows >= max(ENOUGH_HELD_OUT, 10 / self.false_alarm_rate)
            kind = "held-out" if enough else "cross-fit"
        if kind == "held-out":
            return [train_test_split(np.arange(n_rows), test_size=HELD_OUT_SHARE, random_state=random)]
        return list(KFold(min(N_FOLDS, n_rows), shuffle=True, random_state=random).split(np.arange(n_rows)))

    @property
    def calibration_(self) -> str:
        """Which calibration was used: "held-out" or "cross-fit"."""
        return "held-out" if len(self.estimators_) == 1 else "cross-fit"

    def score_samples(self, X: Any) -> np.ndarray:
        """-U(x), in nats: smaller is further off the map (scikit-learn's sign). U is that of the most confident
        regressor, where cross-fitting made several."""
        X = self._new_rows(X)
        return -np.min([regressor.uncertainty(X) for regressor in self.estimators_], axis=0)

    def decision_function(self, X: Any) -> np.ndarray:
        """`score_samples` minus `offset_`: negative for flagged rows."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """+1 for rows on the map, -1 for rows off it."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def p_values(self, X: Any) -> np.ndarray:
        """Conformal p-values, in (0, 1]: how unusual a row's U is among rows that the regressor did not learn from."""
        return conformal_p_values(-self.score_samples(X), self.calibration_scores_)

    def verdicts(self, X: Any) -> dict[str, np.ndarray]:
        """Every answer about every row, by name: prediction, std_epistemic, std_total (target units), ood_score (U,
        nats), p_value and is_ood. The prediction pools the draws of all regressors."""
        X = self._new_rows(X)
        mean, variance = np.array([regressor._moments(X) for regressor in self.estimators_]).transpose(1, 0, 2)
        epistemic = variance.mean(axis=0) + mean.var(axis=0)
        noise = np.mean([regressor.noise_std_**2 for regressor in self.estimators_])
        score = np.min(epistemic_uncertainty(variance), axis=0)
        return {
            "prediction": mean.mean(axis=0),
            "std_epistemic": np.sqrt(epistemic),
            "std_total": np.sqrt(epistemic + noise),
            "ood_score": score,
            "p_value": conformal_p_values(score, self.calibration_scores_),
            "is_ood": -score - self.offset_ < 0,
        }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
