"""The order of the paper's figure 1: who knows that nothing is known beside the two patches."""

import numpy as np
import pytest

from offmap.datasets import wave
from offmap.prior import GaussianPrior
from offmap.regressor import DiverseRegressor

x = np.linspace(-4, 2, 601)
PATCHES = (np.abs(x) >= 0.5) & (np.abs(x) <= 1)
BETWEEN, LEFT = np.abs(x) < 0.5, x <= -1.5


def spread(method: str) -> np.ndarray:
    """Epistemic std along x."""
    model = DiverseRegressor(
        method, noise_std=0.1, activation="tanh", prior=GaussianPrior(), ood_inputs=x[:, None], random_state=0
    )
    return model.fit(*wave()).epistemic_std(x[:, None])


def test_funn_hyvi_disagrees_off_the_patches_and_more_than_the_ensemble() -> None:
    funn, ensemble = spread("funn-hyvi"), spread("ensemble")
    assert funn[LEFT].min() > 5 * funn[PATCHES].mean()
    assert funn[BETWEEN].mean() > ensemble[BETWEEN].mean()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The chains have not mixed")
def test_hmc_disagrees_off_the_patches() -> None:
    std = spread("hmc")
    assert std[LEFT].min() > 5 * std[PATCHES].mean()
