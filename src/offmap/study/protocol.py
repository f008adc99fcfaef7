"""Under which settings the study fits: the paper's, ours, and quick ones to try the machinery."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import jax.numpy as jnp
import numpy as np

from offmap.datasets import DATASETS
from offmap.inference import METHODS, PAPER_METHODS, PAPER_METHODS_LARGE, BatchedHMC, Method
from offmap.inference.hmc import HMC
from offmap.inference.variational import Variational
from offmap.inputs import UniformBox
from offmap.prior import GaussianPrior
from offmap.regressor import DEFAULT_PRIOR, DiverseRegressor
from offmap.scaling import Scale
from offmap.schedules import Constant

SMALL = ("boston", "concrete", "energy", "wine", "yacht")
LARGE = ("navalC", "powerplant", "protein")

# The paper's sigma_l, in units of the standardised target, as printed.
PAPER_NOISE = {
    "boston": 2.5,
    "concrete": 4.5,
    "energy": 1.4,
    "wine": 0.5,
    "yacht": 1.4,
    "navalC": 0.2,
    "powerplant": 3.1,
    "protein": 4.4,
}
# navalC's entropies are those of 0.2, but under 0.2 no density can be as high as the log predictive densities that the
# paper has for these two, which only need a noise for that. 0.02 fits them.
PAPER_NOISES = {"navalC": {"mc-dropout": 0.02, "ensemble": 0.02}}
# The paper's variational rows are those of a narrower prior than the one it states, which its hmc had: their entropies
# agree with it (variant paper:prior_std=0.7071067811865476 has the stated one, in docs/results).
PAPER_PRIOR_STD = dict.fromkeys(("mfvi", "funn-mfvi", "nn-hyvi", "funn-hyvi"), 0.5)
NAVAL_HMC = BatchedHMC(
    leapfrog_steps=8000, warmup=300, first_share=1e-7, draws=300, thinning=8, most_draws=600, guides=500
)
WAVE_NOISE_STD, WAVE_BOX, WAVE_INPUTS = 0.1, (-4.0, 2.0), 50


@dataclass(frozen=True)
class Setup:
    """How one dataset is fitted under a protocol.

    `noise` is the likelihood's std in units of the standardised target, unless `noises` has another for the method or
    `noise_std` gives it in target units; None for all: estimated. `hidden` is None where the table's size decides.
    `box` is nu where it is not the box of the training rows, `n_inputs` how many of its rows a predictor's entropy is
    measured at.
    """

    methods: Mapping[str, Method]
    noise: float | None = None
    noises: Mapping[str, float] = field(default_factory=dict)
    noise_std: float | None = None
    hidden: tuple[int, ...] | None = None
    activation: Literal["auto", "relu", "gelu", "tanh"] = "auto"
    prior_std: float = DEFAULT_PRIOR.std
    prior_stds: Mapping[str, float] = field(default_factory=dict)
    box: tuple[float, float] | None = None
    n_inputs: int = 200

    def nu(self, X: np.ndarray) -> UniformBox:
        """The box that stands for rows off the map, standardised as the training rows `X` are."""
        scale = Scale.of(X)
        if self.box is None:
            return UniformBox.around(jnp.asarray(scale.standardise(X)))
        low, high = (jnp.asarray(scale.standardise(np.full(X.shape[1], end))) for end in self.box)
        return UniformBox(low=low, high=high)

    def prior(self, method: str) -> GaussianPrior:
        """What a method believes of theta before it sees the rows."""
        return GaussianPrior(std=self.prior_stds.get(method, self.prior_std))

    def noise_of(self, method: str) -> float | None:
        """A method's noise, in units of the standardised target."""
        return self.noises.get(method, self.noise)

    def regressor(self, method: str, y: np.ndarray, seed: int) -> DiverseRegressor:
        """The estimator that learns the training targets `y`."""
        noise = self.noise_of(method)
        noise_std = self.noise_std if noise is None else noise * float(Scale.of(y).std)
        return DiverseRegressor(
            self.methods[method],
            noise_std="auto" if noise_std is None else noise_std,
            hidden=self.hidden,
            activation=self.activation,
            prior=self.prior(method),
            ood_inputs="box" if self.box is None else np.linspace(*self.box, 10_001)[:, None],
            random_state=seed,
        )


@dataclass(frozen=True)
class Protocol:
    """A setup for every dataset, and what is measured.

    "nu": how rows of nu are told from the table's, as in the paper. "shifts": how rows that a rule holds out are.
    "alarms": how often a calibrated alarm rings, over many splits.
    """

    setups: Mapping[str, Setup]
    measured: Literal["nu", "shifts", "alarms"] = "nu"


def _paper() -> dict[str, Setup]:
    wave_methods = {
        name: replace(method, comparison=method.comparison._replace(n_inputs=WAVE_INPUTS))
        if isinstance(method, Variational)
        else method
        for name, method in PAPER_METHODS.items()
    }
    wave = Setup(
        methods=wave_methods,
        noise_std=WAVE_NOISE_STD,
        hidden=(50,),
        activation="tanh",
        prior_std=GaussianPrior().std,
        prior_stds=PAPER_PRIOR_STD,
        box=WAVE_BOX,
        n_inputs=WAVE_INPUTS,
    )
    sizes = dict.fromkeys(SMALL, (PAPER_METHODS, (50,))) | dict.fromkeys(LARGE, (PAPER_METHODS_LARGE, (100,)))
    # Under wine's noise populations lose their ancestors, and chains mix only if they are very long. Under navalC's
    # even more so: from one end of the posterior to the other it is ten thousand leapfrog steps.
    sizes["wine"] = (PAPER_METHODS | {"hmc": BatchedHMC()}, (50,))
    sizes["navalC"] = (PAPER_METHODS_LARGE | {"hmc": NAVAL_HMC}, (100,))
    return {"wave": wave} | {
        name: Setup(
            methods=methods,
            noise=PAPER_NOISE[name],
            noises=PAPER_NOISES.get(name, {}),
            hidden=hidden,
            activation="relu",
            prior_std=GaussianPrior().std,
            prior_stds=PAPER_PRIOR_STD,
        )
        for name, (methods, hidden) in sizes.items()
    }


def _same_for_all(setup: Setup) -> dict[str, Setup]:
    return dict.fromkeys(DATASETS, setup) | {"wave": replace(setup, box=WAVE_BOX)}


def _quick(method: Method) -> Method:
    """The method with hardly any training: its numbers mean nothing, but every part of the study runs."""
    if isinstance(method, HMC):
        return replace(method, warmup=20, draws=20, most_draws=20)
    return replace(method, training=replace(method.training, schedule=Constant(epochs=2)))  # type: ignore[attr-defined]


PROTOCOLS: dict[str, Protocol] = {
    "paper": Protocol(_paper()),
    "default": Protocol(_same_for_all(Setup(METHODS))),
    "shifts": Protocol(_same_for_all(Setup(METHODS)), measured="shifts"),
    "alarms": Protocol(_same_for_all(Setup(METHODS)), measured="alarms"),
    "quick": Protocol(
        _same_for_all(Setup({name: _quick(method) for name, method in METHODS.items()}, noise=0.3, n_inputs=20))
    ),
}
