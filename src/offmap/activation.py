"""activation="auto": corners, or a smooth bend, between the layers."""

from dataclasses import replace

from offmap.arrays import Data, Key
from offmap.heldout import held_out_error
from offmap.inference import SMALL_TABLE
from offmap.inference.ensemble import Ensemble
from offmap.model import Model
from offmap.network import Activation
from offmap.optimize import Training
from offmap.progress import part
from offmap.schedules import Cosine

MUCH_NOISE = 0.3  # of the target's std; what ReLU cannot learn counts, too, so it is more than LITTLE_NOISE
CLEARLY_SMALLER = 0.9  # than ReLU's error: the defaults were chosen with ReLU, and it is the faster one

# Large batches, since the noise of small ones hides what smoothness is worth.
_PROBE = Ensemble(members=3, training=Training(learning_rate=0.01, batch_size=500, schedule=Cosine(steps=3000)))


def suited_activation(key: Key, model: Model, noise_std: float, data: Data) -> Activation:
    """ReLU, or GELU (a ReLU with a rounded corner) where that predicts held-out rows clearly better.

    That is so where the target is smooth and has little noise, and its rows are few: much noise hides the corners of a
    ReLU network, and many rows place them closely, so there it is not even tried. `noise_std` is what ReLU leaves.
    """
    if len(data.y) > SMALL_TABLE or noise_std > MUCH_NOISE or not model.network.hidden:
        return "relu"
    with part("choosing the activation"):
        corners, smooth = (
            held_out_error(key, _PROBE, replace(model, network=replace(model.network, activation=activation)), data)
            for activation in ("relu", "gelu")
        )
    return "gelu" if smooth < CLEARLY_SMALLER * corners else "relu"
