"""noise_std="auto": how large the noise of the target is."""

from offmap.arrays import Data, Key
from offmap.heldout import held_out_error
from offmap.inference import SMALL_TABLE
from offmap.inference.ensemble import Ensemble
from offmap.model import Model
from offmap.optimize import Training
from offmap.progress import part
from offmap.schedules import Cosine

SMALLEST = 0.01  # of the target's std: below it a network of 32-bit floats fits nothing but rounding

# Two lengths of training: some tables need the long one, and on noisy ones the long one overfits.
_PROBES = [
    Ensemble(members=5, training=Training(learning_rate=0.01, batch_size=100, schedule=schedule))
    for schedule in (Cosine(steps=300), Cosine(steps=3000, enough_for=SMALL_TABLE))
]


def held_out_noise_std(key: Key, model: Model, data: Data) -> float:
    """The smaller of a short and a long training's error on held-out rows, in units of `data.y`.

    Unlike the noise that maximises the likelihood of the training rows, this cannot be made small by overfitting. It
    includes what the network cannot learn, as the likelihood's noise should.
    """
    with part("estimating the noise"):
        errors = [held_out_error(key, probe, model, data) for probe in _PROBES]
    return max(min(errors), SMALLEST)
