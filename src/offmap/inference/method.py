"""What a method is: a frozen value that turns (key, model, data) into a posterior."""

from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from offmap.arrays import Array, Data, Key
from offmap.families import Posterior
from offmap.model import Model

SMALL_TABLE = 1500  # rows; larger ones need more units, more and other steps, and less of the prior

Density = Literal["mixture", "gaussian"]


class Fit(NamedTuple):
    """What fitting gives."""

    posterior: Posterior  # arrays only, so it can be saved
    trace: dict[str, Array]  # for the report; never used to predict


class Method(Protocol):
    """A frozen dataclass whose fields are the hyper-parameters."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    # How p(y | x) is made of draws: a mixture of one Gaussian each, or one Gaussian with their mean and variance.
    density: ClassVar[Density]
    # Whether activation="auto" may choose a smooth one. That was measured, not derived: see docs/design.md.
    may_be_smooth: ClassVar[bool]

    @property
    def networks_at_once(self) -> int:
        """How many thetas, gradients and averages of them a fit holds at its peak, about: memory grows with it."""

    def fit(self, key: Key, model: Model, data: Data) -> Fit:
        """Learn from `data`, in standardised units."""
