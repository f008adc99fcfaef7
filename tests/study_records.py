"""Records of cells that were never run, with numbers of one's own."""

from typing import Any

from offmap.study.paper import published
from offmap.study.record import KEYS, Cell
from offmap.study.summary import EXPECTED


def record(protocol: str, dataset: str, method: str, seed: int = 0, **more: Any) -> Any:
    """A cell's record with a few numbers; chains, where there are any, mixed."""
    cell = Cell(protocol, dataset, method, seed)
    mixed = {"rhat": 1.002, "ess": 2000.0} if method == "hmc" else {}
    told = {"seconds": 36.0, "cores": 1, "command": cell.command(1)}
    return dict.fromkeys(KEYS) | cell._asdict() | told | mixed | more


def as_published() -> list[Any]:
    """Every cell of the paper's protocol with the very numbers of the paper, and chains that mixed."""
    found = []
    for cell in EXPECTED:
        numbers = {key: published(key, cell.dataset, cell.method) for key in ("auc", "rmse", "lpp")}
        numbers |= {
            key: published(key, cell.dataset, cell.method) for key in ("entropy_parameter", "entropy_predictor")
        }
        values = {key: number.value if number else None for key, number in numbers.items()}
        found.append(record(*cell) | values)
    return found


def changed(records: list[Any], dataset: str, method: str, **to: Any) -> list[Any]:
    """The records, those of one dataset and method with other numbers."""
    return [one | to if (one["dataset"], one["method"]) == (dataset, method) else one for one in records]


def default_records(best: float, neighbours: float, funn_error: float) -> list[Any]:
    """Yacht under the default protocol."""
    return [
        record("default", "yacht", "hmc", auc=best, rmse=0.62),
        record("default", "yacht", "funn-hyvi", auc=0.9826, rmse=funn_error),
        record("default", "yacht", "knn-distance", auc=neighbours),
        record("default", "yacht", "gaussian-process", auc=1.0, rmse=0.6),
    ]


def alarm_records(*false_alarms: float) -> list[Any]:
    """One split for each share of false alarms at 5%; the neighbours flag all of nu and no ordinary row."""
    found = []
    for seed, share in enumerate(false_alarms):
        one = {"false_alarms": [0.0, share, 0.1], "power": [0.2, 0.4 + share, 0.8], "auc": 0.97}
        none = {"false_alarms": [0.0, 0.0, 0.0], "power": [1.0, 1.0, 1.0], "auc": 0.96}
        found.append(record("alarms", "yacht", "funn-hyvi", seed, alarms={"both": one, "novelty": none}))
        found.append(record("alarms", "yacht", "knn-distance", seed, alarms={"score": none}))
    return found
