"""offmap: is this input too far from what the model learned for its prediction to be trusted?"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offmap import divergences
    from offmap.detector import OODDetector, load
    from offmap.inference import METHODS, PAPER_METHODS, PAPER_METHODS_LARGE
    from offmap.prior import GaussianPrior, GaussianProcessPrior
    from offmap.regressor import DiverseRegressor

# Where each public name lives: imported on first use, so that `import offmap` and `offmap --help` do not wait for JAX.
_HOMES = {
    "DiverseRegressor": "regressor",
    "OODDetector": "detector",
    "METHODS": "inference",
    "PAPER_METHODS": "inference",
    "PAPER_METHODS_LARGE": "inference",
    "GaussianPrior": "prior",
    "GaussianProcessPrior": "prior",
    "load": "detector",
}

__all__ = [
    "METHODS",
    "PAPER_METHODS",
    "PAPER_METHODS_LARGE",
    "DiverseRegressor",
    "GaussianPrior",
    "GaussianProcessPrior",
    "OODDetector",
    "divergences",
    "load",
]
__version__ = version("offmap")


def __getattr__(name: str) -> Any:
    if name == "divergences":
        return import_module("offmap.divergences")
    if name not in _HOMES:
        raise AttributeError(f"module 'offmap' has no attribute {name!r}")
    return getattr(import_module(f"offmap.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
