"""How often the alarm rings: on ordinary rows, where the rate is promised, and on rows of nu, where it should."""

from collections.abc import Callable

import jax
import numpy as np
from sklearn.utils import check_random_state

from offmap.detector import OODDetector
from offmap.folds import splits_of
from offmap.metrics import auc
from offmap.ood import Evidences, PValues, cross_p_values
from offmap.regressor import DiverseRegressor
from offmap.scaling import Scale
from offmap.study.baselines import Baseline
from offmap.study.measure import Split
from offmap.study.protocol import Setup
from offmap.study.record import RATES, Record

N_NU = 2000

Alarm = Callable[[np.ndarray], dict[str, np.ndarray]]  # p-values of rows, by evidence


def alarm_of_detector(regressor: DiverseRegressor, split: Split, seed: int) -> Alarm:
    """The detector's p-values: of disagreement, of novelty, and of both."""
    detector = OODDetector(regressor, random_state=seed).fit(split.X_train, split.y_train)
    return lambda X: detector.p_values_by_evidence(X)._asdict()


def alarm_of_baseline(baseline: Baseline, split: Split, seed: int) -> Alarm:
    """A baseline's score, calibrated on the rows that the detector would be calibrated on."""
    places = splits_of(len(split.y_train), "auto", OODDetector().false_alarm_rate, check_random_state(seed))
    scorers = [baseline.fit(split.X_train[learned], split.y_train[learned], seed) for learned, _ in places]

    def scores(fold: int, X: np.ndarray) -> Evidences:
        found = scorers[fold].uncertainty(X)
        return Evidences(disagreement=found, novelty=found)

    known = [scores(fold, split.X_train[kept_back]) for fold, (_, kept_back) in enumerate(places)]

    def p_values(X: np.ndarray) -> dict[str, np.ndarray]:
        found: PValues = cross_p_values([scores(fold, X) for fold in range(len(places))], known)
        return {"score": found.novelty}

    return p_values


def rung(alarm: Alarm, split: Split, setup: Setup, seed: int) -> Record:
    """By evidence: the shares of test rows and of rows of nu that are flagged at `RATES`, and the AUC of the two."""
    rows = setup.nu(split.X_train).sample(jax.random.key(seed), N_NU)
    ordinary, off = alarm(split.X_test), alarm(Scale.of(split.X_train).restore(np.asarray(rows)))
    return {
        evidence: {
            "false_alarms": [float(np.mean(ordinary[evidence] <= rate)) for rate in RATES],
            "power": [float(np.mean(off[evidence] <= rate)) for rate in RATES],
            "auc": auc(-ordinary[evidence], -off[evidence]),
        }
        for evidence in ordinary
    }
