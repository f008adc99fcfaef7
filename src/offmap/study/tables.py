"""The study's tables, as Markdown: each of our numbers beside the paper's, and what explains the difference."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from offmap.study.differences import differs, footnote, is_better
from offmap.study.paper import LARGER_IS_BETTER, PUBLISHED_DATASETS, PUBLISHED_METHODS, best_published, published
from offmap.study.record import ESS_LIMIT, RATES, RHAT_LIMIT, Record, is_unmixed
from offmap.study.summary import OverSeeds, Study
from offmap.study.variants import base_of

NOT_RUN, NOT_APPLICABLE, NOT_MIXED, WRONG = "\N{EN DASH}", "n/a", "not mixed", "✗"
DECIMALS = {"auc": 4, "auc_test": 4, "auc_permuted": 4, "lpp": 2, "lpp_variance_only": 2, "error_ratio": 2, "aurc": 2}
DECIMALS |= {"power": 4}
DECIMALS |= {"spearman": 2, "entropy_parameter": 0, "entropy_predictor": 0}
BETTER = LARGER_IS_BETTER | {"auc_test": True, "auc_permuted": True, "seconds": False, "spearman": True, "aurc": False}
BETTER |= {"power": True}


class Lookup(NamedTuple):
    """Where a table's numbers come from: a row's and a method's, if it was run, and if chains have not mixed."""

    number: Callable[[str, str], OverSeeds | None]
    was_run: Callable[[str, str], bool]
    is_unmixed: Callable[[str, str], bool] = lambda name, method: False


def grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def decimals_for(quantity: str, numbers: Sequence[float]) -> int:
    """How many decimals a row of such numbers is printed with: an error's depend on its size, since units differ."""
    if quantity in DECIMALS:
        return DECIMALS[quantity]
    smallest = min((abs(number) for number in numbers if number), default=1.0)
    if quantity == "seconds":
        return 0 if smallest >= 10 else 1
    return max(2, 2 - math.floor(math.log10(smallest)))


def row_texts(quantity: str, row: Mapping[str, OverSeeds | None]) -> dict[str, str]:
    """The numbers of a row as text, by method: mean ± std over seeds, the best in bold. Those that print alike tie."""
    found = {method: number for method, number in row.items() if number is not None}
    decimals = decimals_for(quantity, [number.mean for number in found.values()])
    means = {method: round(number.mean, decimals) + 0.0 for method, number in found.items()}
    best = (max if BETTER[quantity] else min)(means.values(), default=None) if quantity in BETTER else None
    texts = {}
    for method, number in found.items():
        text = f"{means[method]:.{decimals}f}"
        text = f"**{text}**" if means[method] == best else text
        texts[method] = text if number.std is None else f"{text} ± {number.std:.{decimals}f}"
    return texts


def _cells(quantity: str, name: str, methods: Sequence[str], lookup: Lookup) -> list[str]:
    texts = row_texts(quantity, {method: lookup.number(name, method) for method in methods})
    return [_cell(texts.get(method), name, method, lookup) for method in methods]


def _cell(text: str | None, name: str, method: str, lookup: Lookup) -> str:
    if text is not None:
        return text
    if lookup.is_unmixed(name, method):
        return NOT_MIXED
    return NOT_APPLICABLE if lookup.was_run(name, method) else NOT_RUN


def _lookup(study: Study, quantity: str, protocol: str) -> Lookup:
    return Lookup(
        number=lambda dataset, method: study.over_seeds(quantity, protocol, dataset, method),
        was_run=lambda dataset, method: any(study.cells(protocol, dataset, method)),
        is_unmixed=lambda dataset, method: any(map(is_unmixed, study.cells(protocol, dataset, method))),
    )


def beside_paper(study: Study, quantity: str) -> str:
    """A table of the paper, each cell `ours (paper)`, and footnotes to the cells that differ beyond noise."""
    footnotes: list[str] = []
    rows = []
    lookup = _lookup(study, quantity, "paper")
    for dataset in PUBLISHED_DATASETS:
        row = [dataset]
        for method, text in zip(PUBLISHED_METHODS, _cells(quantity, dataset, PUBLISHED_METHODS, lookup), strict=True):
            theirs, ours = published(quantity, dataset, method), lookup.number(dataset, method)
            row.append(f"{text} ({theirs.text if theirs else 'NA'})")
            if theirs and ours and differs(quantity, ours, theirs):
                note = footnote(quantity, dataset, method, is_better(quantity, ours, theirs))
                if note not in footnotes:
                    footnotes.append(note)
                row[-1] += f"<sup>{_letter(footnotes.index(note))}</sup>"
        if quantity == "lpp":
            row += _cells("lpp_variance_only", dataset, ["ensemble"], _lookup(study, "lpp_variance_only", "paper"))
        rows.append(row)
    header = ["", *PUBLISHED_METHODS, *(["`ensemble`, variance only"] if quantity == "lpp" else [])]
    notes = [f"<sup>{_letter(index)}</sup> {note}" for index, note in enumerate(footnotes)]
    return "\n\n".join([grid(header, rows), *notes])


def _letter(index: int) -> str:
    return chr(ord("a") + index)


def of_protocol(study: Study, protocol: str, quantity: str) -> str:
    """Methods and baselines side by side, and the best of the paper's row, whatever method that was."""
    lookup = _lookup(study, quantity, protocol)
    datasets = study.names(protocol, "dataset")
    methods = [
        method
        for method in study.names(protocol, "method")
        if any(lookup.number(dataset, method) or lookup.is_unmixed(dataset, method) for dataset in datasets)
    ]
    best = {dataset: best_published(quantity, dataset) for dataset in datasets}
    compared = any(best.values()) and quantity != "seconds"
    rows = [
        [dataset, *_cells(quantity, dataset, methods, lookup)]
        + ([f"{pair[1].text} {pair[0]}" if (pair := best[dataset]) else "NA"] if compared else [])
        for dataset in datasets
    ]
    return grid(["", *methods, *(["best of the paper"] if compared else [])], rows)


def under_shifts(study: Study, quantity: str) -> str:
    """One row for every rule that holds rows of a table out."""
    rules = {
        f"{record['dataset']}: {rule}": (record["dataset"], rule)
        for record in study.cells("shifts")
        for rule in record["shifts"] or {}
    }
    lookup = Lookup(
        number=lambda row, method: study.shift(quantity, rules[row][1], rules[row][0], method),
        was_run=lambda row, method: any(study.cells("shifts", rules[row][0], method)),
    )
    methods = [method for method in study.names("shifts", "method") if any(lookup.number(row, method) for row in rules)]
    return grid(["held out", *methods], [[row, *_cells(quantity, row, methods, lookup)] for row in rules])


def false_alarms(study: Study) -> str:
    """The share of ordinary rows that each alarm flags at each promised rate, mean and its standard error."""
    rows = [
        [dataset, kind, str(len(splits)), *(_share(splits, "false_alarms", place) for place in range(len(RATES)))]
        for dataset, kinds in study.alarms().items()
        for kind, splits in kinds.items()
    ]
    return grid(["", "alarm", "splits", *(f"promised {rate:g}" for rate in RATES)], rows)


def _share(splits: Sequence[Record], quantity: str, place: int) -> str:
    """Mean over splits and its standard error; bold and crossed when it lies beyond the rate by three of them."""
    shares = np.array([split[quantity][place] for split in splits])
    error = float(np.std(shares, ddof=1) / math.sqrt(len(shares))) if len(shares) > 1 else math.nan
    return _marked(f"{shares.mean():.4f} ± {error:.4f}", bool(shares.mean() > RATES[place] + 3 * error))


def alarm_power(study: Study, quantity: str) -> str:
    """Detection of rows of nu by each alarm: the share that is flagged at 5% ("power"), or the AUC ("auc")."""
    found = study.alarms()
    kinds = list(dict.fromkeys(kind for by_kind in found.values() for kind in by_kind))

    def number(dataset: str, kind: str) -> OverSeeds | None:
        splits = found[dataset].get(kind, [])
        values = [split["auc"] if quantity == "auc" else split["power"][RATES.index(0.05)] for split in splits]
        return OverSeeds.of(values) if values else None

    lookup = Lookup(number=number, was_run=lambda dataset, kind: kind in found[dataset])
    return grid(["", *kinds], [[dataset, *_cells(quantity, dataset, kinds, lookup)] for dataset in found])


def with_changes(study: Study) -> str:
    """What changed settings give: a row for each dataset and method of a variant, its protocol's in brackets."""
    quantities = {"auc": "AUC", "rmse": "RMSE", "lpp": "LPP"}
    quantities |= {"entropy_parameter": "entropy of parameters", "entropy_predictor": "of predictors"}
    rows = []
    for protocol, dataset, method in study.variants():
        n_seeds = len(list(study.cells(protocol, dataset, method)))
        pairs = (_changed(study, quantity, protocol, dataset, method) for quantity in quantities)
        rows.append([f"`{protocol}`", dataset, method, str(n_seeds), *pairs])
    return grid(["protocol", "dataset", "method", "seeds", *quantities.values()], rows)


def _changed(study: Study, quantity: str, protocol: str, dataset: str, method: str) -> str:
    lookups = [_lookup(study, quantity, name) for name in (protocol, base_of(protocol))]
    means = [number.mean if (number := lookup.number(dataset, method)) else None for lookup in lookups]
    decimals = decimals_for(quantity, [mean for mean in means if mean is not None])
    changed, unchanged = (
        _cell(None if mean is None else f"{round(mean, decimals) + 0.0:.{decimals}f}", dataset, method, lookup)
        for mean, lookup in zip(means, lookups, strict=True)
    )
    return f"{changed} ({unchanged})"


def hmc_diagnostics(study: Study) -> str:
    """R-hat and ESS of every cell of hmc, one number a seed; those beyond the limits are bold."""
    groups = dict.fromkeys((record["protocol"], record["dataset"]) for record in study.records)
    rows = []
    for protocol, dataset in groups:
        cells = [record for record in study.cells(protocol, dataset, "hmc") if record["rhat"] is not None]
        if cells:
            rhats = [_marked(f"{cell['rhat']:.4f}", cell["rhat"] > RHAT_LIMIT) for cell in cells]
            sizes = [_marked(f"{cell['ess']:.0f}", cell["ess"] < ESS_LIMIT) for cell in cells]
            rows.append([protocol, dataset, " / ".join(rhats), " / ".join(sizes)])
    return grid(["protocol", "dataset", "worst R-hat, by seed", "smallest ESS, by seed"], rows)


def _marked(text: str, wrong: bool) -> str:
    return f"**{text}** {WRONG}" if wrong else text
