"""A small table with every kind of column, and a detector that is fitted to it in a second or two."""

from typing import Any

import numpy as np
import pyarrow as pa

from offmap.detector import OODDetector
from offmap.inference.ensemble import Ensemble
from offmap.optimize import Training
from offmap.regressor import DiverseRegressor
from offmap.schedules import Constant

TINY = Ensemble(Training(learning_rate=0.01, batch_size=64, schedule=Constant(epochs=20), optimizer="momentum"), 4)


def tiny_detector(**options: Any) -> OODDetector:
    """Four small networks, trained for a moment."""
    regressor = DiverseRegressor(TINY, noise_std=1.0, hidden=(8,), random_state=0)
    return OODDetector(regressor, random_state=0, **options)


def patients(n: int = 120, seed: int = 0) -> pa.Table:
    """Numbers with holes, categories, dates, true and false, an id, and a cost that depends on some of them."""
    random = np.random.default_rng(seed)
    age, bmi = random.integers(18, 91, n), random.normal(26.0, 4.0, n).round(1)
    city, smoker = random.choice(["Bonn", "Oslo", "Rome"], n), random.choice(["no", "yes"], n)
    visit = np.datetime64("2020-01-01") + random.integers(0, 900, n)
    cost = 0.5 * age + 2 * bmi + 10 * (city == "Rome") + 15 * (smoker == "yes") + random.normal(0, 2, n)
    return pa.table(
        {
            "patient": [f"P{place:05}" for place in range(n)],
            "age": age,
            "bmi": pa.array(bmi, mask=random.random(n) < 0.1),
            "city": city,
            "smoker": smoker,
            "visit": pa.array(visit.astype("datetime64[D]")),
            "cost": cost.round(2),
        }
    )
