"""Every setting of a cell, as JSON knows it, and which of them a record was made without."""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from offmap.regressor import DiverseRegressor
from offmap.study.baselines import BASELINES
from offmap.study.record import Cell, Record, is_unmixed
from offmap.study.variants import protocol_named

BY_ROWS = ("auto", "by the table's size")  # what is chosen from the rows is no setting


def settings_of(cell: Cell) -> Record:
    """What the cell is fitted under."""
    if cell.method in BASELINES:
        return _as_json({"method": _fields(BASELINES[cell.method])})
    setup = protocol_named(cell.protocol).setups[cell.dataset]
    settings = {
        "method": _fields(setup.methods[cell.method]),
        "noise_in_target_stds": setup.noise_of(cell.method),
        "noise_std": setup.noise_std,
        "prior_std": setup.prior(cell.method).std,
        "hidden": setup.hidden or "by the table's size",
        "activation": setup.activation,
        "nu": setup.box or "box of the training rows",
        "n_draws": DiverseRegressor().n_draws,
    }
    return _as_json(settings)


def _as_json(value: Record) -> Record:
    """The value as it is read back from a file: tuples are lists there."""
    return dict(json.loads(json.dumps(value)))


def _fields(value: Any) -> Any:
    """The fields of a value, and of the values in it, beside the name of its class."""
    if hasattr(value, "_asdict"):
        return {name: _fields(item) for name, item in value._asdict().items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {"class": type(value).__name__} | {
            item.name: _fields(getattr(value, item.name)) for item in fields(value)
        }
    return value


def outdated(record: Record) -> list[str]:
    """The settings that a record was made under and that its cell no longer has, each as "epochs was 3000, is 1000".

    A setting that came later is none of them, nor one that was not used. When chains may give up says nothing of chains
    that have mixed.
    """
    if record["settings"] is None:
        return []
    then = {"prior_std": record["prior_std"], **record["settings"]}
    now = settings_of(Cell.of(record))
    idle = set() if is_unmixed(record) else {"most_draws"}
    return [f"{name} was {was}, is {value}" for name, was, value in _changes(then, now) if name not in idle]


def _changes(then: Record, now: Record) -> Iterator[tuple[str, Any, Any]]:
    for name, was in then.items():
        value = now.get(name)
        if isinstance(was, dict) and isinstance(value, dict):
            yield from _changes(was, value)
        elif was is not None and value not in BY_ROWS and was != value:
            yield name, was, value
