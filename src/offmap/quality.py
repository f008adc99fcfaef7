"""How good a fitted detector is: its error beside that of simple predictors, and its alarm, on rows held back."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import chi2
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from offmap.detector import OODDetector
from offmap.encoding import N_NU, box_rows
from offmap.metrics import auc, rmse
from offmap.ood import Evidences, cross_p_values

RIDGE_PENALTIES = np.logspace(-3, 4, 15)
N_PARTS = 5
# The epistemic std of the 95th percentile over that of the 5th. Below this, times what the finite number of draws alone
# would make of a constant std, even rows far off the map are hardly more uncertain than ordinary ones.
FLAT = 1.5
MOST_ERRORS = 3.0  # binomial standard errors that the measured rate may lie above the promised one


class Quality(NamedTuple):
    """What was measured on `rows` rows held back, and on `N_NU` rows of nu: uniform in the box of the training rows.

    Both are scored alike: a row held back by the regressor that did not learn from it, a row of nu by each of them.

    `spread` is the 95th percentile of the epistemic std over the 5th, and `chance_spread` what a constant one would
    give. `promised` and `measured` are false-alarm rates.
    """

    rows: int
    rmse: float
    rmse_of_mean: float
    rmse_of_ridge: float
    auc: float
    spread: float
    chance_spread: float
    promised: float
    measured: float

    @property
    def standard_error(self) -> float:
        """The binomial one of a share of `rows` rows, where the promise holds."""
        return math.sqrt(self.promised * (1 - self.promised) / self.rows)


def quality_of(detector: OODDetector, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Quality:
    """The quality of a detector that was fitted to the rows with encoded inputs `X`."""
    held_out = detector.held_out_
    mean, ridge = simple_predictions(X, y, held_out["row"])
    box = box_rows(detector.columns_)
    nu = np.concatenate([regressor.uncertainty(box) for regressor in detector.estimators_])
    low, high = np.quantile(np.concatenate([held_out["ood_score"], nu]), [0.05, 0.95])
    return Quality(
        rows=len(held_out["y"]),
        rmse=rmse(held_out["y"], held_out["prediction"]),
        rmse_of_mean=rmse(held_out["y"], mean),
        rmse_of_ridge=rmse(held_out["y"], ridge),
        auc=auc(held_out["ood_score"], nu),
        spread=math.exp(high - low),  # U is the logarithm of the std, and a constant
        chance_spread=chance_spread(_n_draws(detector)),
        promised=detector.false_alarm_rate,
        measured=measured_false_alarms(held_out, detector.evidence_, detector.false_alarm_rate),
    )


def simple_predictions(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], held_out: Int[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """The mean and a ridge regression's answer for the rows held out, from the others; in turns when all rows are."""
    others = np.setdiff1d(np.arange(len(y)), held_out)
    splits = [(others, held_out)] if len(others) else KFold(N_PARTS, shuffle=True, random_state=0).split(X)
    mean, ridge = np.empty(len(y)), np.empty(len(y))
    for learned, asked in splits:
        regression = make_pipeline(StandardScaler(), RidgeCV(RIDGE_PENALTIES)).fit(X[learned], y[learned])
        mean[asked], ridge[asked] = np.mean(y[learned]), regression.predict(X[asked])
    return mean[held_out], ridge[held_out]


def measured_false_alarms(held_out: dict[str, np.ndarray], evidence: str, rate: float) -> float:
    """The share of held-out rows that an alarm set by rows of other parts of the table flags.

    The parts are fifths of the table in its own order, not at random: an alarm set by a random half keeps its rate on
    the other half whatever the rows, so that nothing would be measured. Rows that change along the table, or come in
    groups, break the promise for later rows too, and show here.
    """
    order = np.argsort(held_out["row"])
    scores = Evidences(disagreement=held_out["ood_score"], novelty=held_out["novelty"])
    flagged = 0
    for part in np.array_split(order, N_PARTS):
        others = np.setdiff1d(order, part)
        asked, known = (Evidences(*(score[rows] for score in scores)) for rows in (part, others))
        flagged += int(np.sum(getattr(cross_p_values([asked], [known]), evidence) <= rate))
    return flagged / len(order)


def chance_spread(n_draws: int) -> float:
    """The 95th percentile over the 5th of the std of `n_draws` normal draws: what chance makes of a constant one.

    >>> round(chance_spread(10), 2), round(chance_spread(1000), 2)
    (2.26, 1.08)
    """
    low, high = chi2.ppf([0.05, 0.95], n_draws - 1)
    return math.sqrt(high / low)


def describe_quality(quality: Quality) -> list[str]:
    """What was measured, in a few lines."""
    return [
        f"error (RMSE) on {quality.rows:,} rows held back: {quality.rmse:.4g}; ridge regression: "
        f"{quality.rmse_of_ridge:.4g}; always the mean: {quality.rmse_of_mean:.4g}",
        f"AUC of the disagreement, those rows against {N_NU:,} uniform in the box around the table: {quality.auc:.3f}",
        f"false alarms: {percent(quality.promised)} promised, {percent(quality.measured)} measured on those rows, each "
        f"fifth of the table judged by the others (chance alone: +- {percent(quality.standard_error)})",
    ]


def percent(share: float) -> str:
    """A share as people write it.

    >>> percent(0.05), percent(0.01234)
    ('5%', '1.2%')
    """
    return f"{100 * share:.2g}%"


def doubts(quality: Quality) -> list[str]:
    """What the user should worry about."""
    found = []
    if quality.rmse >= quality.rmse_of_mean:
        found.append(
            "the model predicts no better than the mean: the columns may say nothing about the target, or the rows are "
            "too few. Its predictions are of no use, and its disagreement is of little."
        )
    elif quality.rmse >= quality.rmse_of_ridge:
        found.append(
            "the model predicts no better than a ridge regression: the relation seems linear, or the rows are too few "
            "to show more. The alarm keeps its promise all the same."
        )
    if quality.spread < FLAT * quality.chance_spread:
        found.append(
            f"the epistemic uncertainty is nearly constant: from ordinary rows to strange ones it grows only "
            f"{quality.spread:.2g}-fold (a constant one would show {quality.chance_spread:.2g}), so that disagreement "
            "hardly tells rows apart. Novelty still does. Try another --method."
        )
    if quality.measured > quality.promised + MOST_ERRORS * quality.standard_error:
        found.append(
            "more false alarms than promised: rows in different parts of the table differ, as they do when they are "
            "sorted, drift over time or come in groups. If new rows differ from the old ones as much, expect as many."
        )
    return found


def _n_draws(detector: OODDetector) -> int:
    regressor = detector.estimators_[0]
    members = regressor.posterior_.n_members
    return regressor.n_draws if members is None else min(regressor.n_draws, members)
