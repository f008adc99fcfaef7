"""The records of a study, by cell: what their numbers are over seeds, and which cells are missing."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from offmap.study.paper import PUBLISHED_DATASETS, PUBLISHED_METHODS
from offmap.study.protocol import SMALL
from offmap.study.record import Cell, Record, is_unmixed
from offmap.study.runs import ORDER, place
from offmap.study.variants import is_variant

EXPECTED = tuple(
    Cell("paper", dataset, method, seed)
    for dataset in PUBLISHED_DATASETS
    for method in PUBLISHED_METHODS
    for seed in range(3 if dataset in SMALL else 1)
)


class OverSeeds(NamedTuple):
    """Mean and std of a number over the seeds it was measured with; no std of one."""

    mean: float
    std: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "OverSeeds":
        """Of one value a seed."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True)
class Study:
    """Records in the order of the tables of names."""

    records: tuple[Record, ...]

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Study":
        """The records, put in order."""
        return cls(tuple(sorted(records, key=lambda record: place(Cell.of(record)))))

    def cells(self, protocol: str, dataset: str | None = None, method: str | None = None) -> Iterator[Record]:
        """Those of a protocol, a dataset, a method."""
        for record in self.records:
            is_of = record["protocol"] == protocol and dataset in (None, record["dataset"])
            if is_of and method in (None, record["method"]):
                yield record

    def names(self, protocol: str, what: str) -> list[str]:
        """The datasets, or the methods, that a protocol has records of."""
        known, found = ORDER[1 if what == "dataset" else 2], {record[what] for record in self.cells(protocol)}
        return [*(name for name in known if name in found), *sorted(found - set(known))]

    def variants(self) -> list[tuple[str, str, str]]:
        """Protocol, dataset and method of every cell that was run with settings changed."""
        return list(dict.fromkeys(Cell.of(record)[:3] for record in self.records if is_variant(record["protocol"])))

    def over_seeds(self, quantity: str, protocol: str, dataset: str, method: str) -> OverSeeds | None:
        """A number over the seeds of a cell.

        None where it was not run, where a seed has no such number, and where draws of hmc have not mixed: then the
        number is not the posterior's.
        """
        records = list(self.cells(protocol, dataset, method))
        return None if any(map(is_unmixed, records)) else _over_seeds([record[quantity] for record in records])

    def shift(self, quantity: str, rule: str, dataset: str, method: str) -> OverSeeds | None:
        """The same of a number under one of the rules that hold rows out."""
        every = [record["shifts"] or {} for record in self.cells("shifts", dataset, method)]
        return _over_seeds([_of_shift(quantity, shifts[rule]) for shifts in every if rule in shifts])

    def alarms(self) -> dict[str, dict[str, list[Record]]]:
        """By dataset and by kind of alarm, such as "funn-hyvi: both": what every split found."""
        found: dict[str, dict[str, list[Record]]] = {}
        for record in self.cells("alarms"):
            for evidence, measured in (record["alarms"] or {}).items():
                kind = record["method"] if evidence == "score" else f"{record['method']}: {evidence}"
                found.setdefault(record["dataset"], {}).setdefault(kind, []).append(measured)
        return found

    def missing(self) -> list[Cell]:
        """Cells of the paper's protocol that a whole study has, and this one has not."""
        found = {Cell.of(record) for record in self.records}
        return [cell for cell in EXPECTED if cell not in found]


def _of_shift(quantity: str, measured: Record) -> float | None:
    """One number of a shift. The risk-coverage area has a unit, so it is put between the best order's and chance's."""
    if quantity != "aurc" or measured["aurc"] is None:
        return measured[quantity]
    best, chance = measured["aurc_oracle"], measured["aurc_random"]
    return (measured["aurc"] - best) / (chance - best) if chance > best else None


def _over_seeds(values: list[float | None]) -> OverSeeds | None:
    numbers = [value for value in values if value is not None]
    return OverSeeds.of(numbers) if numbers and len(numbers) == len(values) else None
