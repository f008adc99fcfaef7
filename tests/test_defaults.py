"""What a user gets without choosing anything. `pytest -m slow -s tests/test_defaults.py` prints the table."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from offmap.metrics import auc, rmse
from offmap.regressor import DiverseRegressor
from tests.conftest import Split

# The paper's funn-hyvi: AUC (table 1), RMSE (supplement).
PAPER = {
    "boston": (1.0, 3.05),
    "concrete": (0.9977, 5.19),
    "energy": (1.0, 0.49),
    "wine": (0.9996, 0.72),
    "yacht": (0.9826, 1.07),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_defaults_are_worth_having(name: str, uci: Callable[[str], Split]) -> None:
    table = uci(name)
    started = time.perf_counter()
    model = DiverseRegressor(random_state=0).fit(table.X_train, table.y_train)
    seconds = time.perf_counter() - started
    nu = np.random.default_rng(0).uniform(
        table.X_train.min(axis=0), table.X_train.max(axis=0), (10_000, table.X.shape[1])
    )
    separation = auc(model.uncertainty(table.X), model.uncertainty(nu))
    mean, std = model.predict(table.X_test, return_std=True)
    error = rmse(table.y_test, mean)
    standardised = (table.y_test - mean) / std
    print(
        f"\n| {name} | {separation:.4f} ({PAPER[name][0]}) | {error:.3f} ({PAPER[name][1]}) | {model.noise_std_:.3f} | "
        f"{np.sqrt(np.mean(standardised**2)):.2f} | {np.mean(np.abs(standardised) < 1.645):.0%} | {seconds:.0f} |"
    )
    assert separation > PAPER[name][0] - 0.01
    assert error < 1.1 * PAPER[name][1]
    # Total std that holds on new rows: within the range that 31 to 160 rows with outliers allow.
    assert 0.4 < np.sqrt(np.mean(standardised**2)) < 1.6
