"""What the study must show, and whether it does: every target as verdicts, one a cell."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from offmap.study.baselines import BASELINES
from offmap.study.differences import error_of_difference
from offmap.study.paper import PUBLISHED_DATASETS, Published, best_published, published
from offmap.study.protocol import SMALL
from offmap.study.record import is_unmixed
from offmap.study.summary import EXPECTED, OverSeeds, Study
from offmap.study.variants import is_variant

JUDGED = ("hmc", "ensemble", "nn-hyvi", "funn-hyvi")
AUC_SLACK, ENTROPY_SLACK, ERROR_SLACK = 0.01, 20.0, 1.1
# The test error of scikit-learn-contrib's bde (8 members of 50 units, else as in its README) on the same split.
PEER_RMSE = {"yacht": 0.569, "boston": 2.25}


class Verdict(NamedTuple):
    """Whether a cell does what a target asks; None where it was not run."""

    cell: str
    met: bool | None
    said: str = ""


def _of_cells(study: Study) -> Iterator[Verdict]:
    missing = set(study.missing())
    for cell in EXPECTED:
        yield Verdict(str(cell), None if cell in missing else True, "not run")


def _of_auc(study: Study) -> Iterator[Verdict]:
    for dataset in PUBLISHED_DATASETS:
        for method in JUDGED:
            if theirs := published("auc", dataset, method):
                ours = study.over_seeds("auc", "paper", dataset, method)
                met = None if ours is None else round(ours.mean, 4) >= round(theirs.value - AUC_SLACK, 4)
                yield Verdict(f"{dataset} {method}", met, _beside(ours, theirs, ".4f"))


def _beside(ours: OverSeeds | None, theirs: Published, form: str) -> str:
    """Our number and the paper's, and how far apart they are beside what fits scatter by."""
    if ours is None:
        return ""
    error = error_of_difference(ours, theirs)
    apart = f", {abs(ours.mean - theirs.value) / error:.1f} standard errors apart" if error else ""
    return f"{ours.mean:{form}} over {ours.n} seed{'s' * (ours.n > 1)} against {theirs.text}{apart}"


def _of_entropy(study: Study) -> Iterator[Verdict]:
    for dataset in SMALL:
        for method in ("hmc", "nn-hyvi"):
            if theirs := published("entropy_predictor", dataset, method):
                ours = study.over_seeds("entropy_predictor", "paper", dataset, method)
                met = None if ours is None else abs(ours.mean - theirs.value) <= ENTROPY_SLACK
                yield Verdict(f"{dataset} {method}", met, _beside(ours, theirs, ".0f"))


def _of_error(study: Study) -> Iterator[Verdict]:
    for dataset in PUBLISHED_DATASETS:
        for method in JUDGED:
            if theirs := published("rmse", dataset, method):
                ours = study.over_seeds("rmse", "paper", dataset, method)
                met = None if ours is None else ours.mean <= ERROR_SLACK * theirs.value
                yield Verdict(f"{dataset} {method}", met, _beside(ours, theirs, ".3g"))


def _of_chains(study: Study) -> Iterator[Verdict]:
    for record in study.records:
        if record["method"] == "hmc" and record["protocol"] != "quick" and not is_variant(record["protocol"]):
            name = f"{record['protocol']} {record['dataset']} seed {record['seed']}"
            if record["rhat"] is None:
                yield Verdict(name, False, "not measured")
            else:
                yield Verdict(name, not is_unmixed(record), f"R-hat {record['rhat']:.4f}, ESS {record['ess']:.0f}")


def _of_default_auc(study: Study) -> Iterator[Verdict]:
    for dataset in PUBLISHED_DATASETS:
        best, neighbours = best_ours(study, "auc", dataset), study.over_seeds("auc", "default", dataset, "knn-distance")
        theirs = best_published("auc", dataset)
        if best is None or neighbours is None or theirs is None:
            yield Verdict(dataset, None)
        else:
            met = round(best[1], 4) >= max(theirs[1].value, round(neighbours.mean, 4))
            said = f"{best[0]} {best[1]:.4f}; paper's {theirs[0]} {theirs[1].text}, knn-distance {neighbours.mean:.4f}"
            if not met and (pair := _with_novelty(study, dataset)):
                met = round(pair[0], 4) >= max(theirs[1].value, round(pair[1], 4))
                said += f"; by p-value on test rows, both kinds of evidence {pair[0]:.4f}, knn-distance {pair[1]:.4f}"
            yield Verdict(dataset, met, said)


def _with_novelty(study: Study, dataset: str) -> tuple[float, float] | None:
    """The AUC of disagreement and novelty together, and the neighbours', both as calibrated alarms on unseen rows."""
    kinds = study.alarms().get(dataset, {})
    if not {"funn-hyvi: both", "knn-distance"} <= set(kinds):
        return None
    both, neighbours = (
        OverSeeds.of([split["auc"] for split in kinds[kind]]).mean for kind in ("funn-hyvi: both", "knn-distance")
    )
    return both, neighbours


def best_ours(study: Study, quantity: str, dataset: str, methods: tuple[str, ...] = ()) -> tuple[str, float] | None:
    """The best of our methods (or of some of them) under the default protocol, and its number."""
    found = {
        method: number.mean
        for method in methods or study.names("default", "method")
        if method not in BASELINES and (number := study.over_seeds(quantity, "default", dataset, method))
    }
    return max(found.items(), key=lambda item: item[1] if quantity == "auc" else -item[1], default=None)


def _of_default_funn_hyvi(study: Study) -> Iterator[Verdict]:
    for dataset in PUBLISHED_DATASETS:
        auc, error = (study.over_seeds(key, "default", dataset, "funn-hyvi") for key in ("auc", "rmse"))
        their_auc, their_error = (published(key, dataset, "funn-hyvi") for key in ("auc", "rmse"))
        if auc is None or error is None or their_auc is None or their_error is None:
            yield Verdict(dataset, None)
        else:
            as_printed = round(error.mean, their_error.decimals)
            met = round(auc.mean, 4) >= their_auc.value and as_printed <= their_error.value
            yield Verdict(
                dataset,
                met,
                f"AUC {auc.mean:.4f} against {their_auc.text}, RMSE {error.mean:.3g} against {their_error.text}",
            )


def _of_default_error(study: Study) -> Iterator[Verdict]:
    for dataset in SMALL:
        best = best_ours(study, "rmse", dataset, ("hmc", "funn-hyvi", "ensemble"))
        process = study.over_seeds("rmse", "default", dataset, "gaussian-process")
        theirs = best_published("rmse", dataset)
        if best is None or process is None or theirs is None:
            yield Verdict(dataset, None)
            continue
        rivals = {f"paper's {theirs[0]}": theirs[1].value, "gaussian-process": process.mean}
        rivals |= {"bde": PEER_RMSE[dataset]} if dataset in PEER_RMSE else {}
        against = ", ".join(f"{name} {value:.3g}" for name, value in rivals.items())
        yield Verdict(dataset, best[1] <= ERROR_SLACK * min(rivals.values()), f"{best[0]} {best[1]:.3g}; {against}")


class Target(NamedTuple):
    """What is asked, and of each cell whether it is so."""

    asked: str
    verdicts: Callable[[Study], Iterator[Verdict]]


TARGETS = {
    "cells": Target(
        "Paper protocol: every cell is there, three seeds on the five small tables, one on the three large ones",
        _of_cells,
    ),
    "auc": Target(
        "Paper protocol: AUC of `hmc`, `ensemble`, `nn-hyvi`, `funn-hyvi` within .01 of the paper's or above", _of_auc
    ),
    "entropy": Target(
        "Paper protocol: predictor-space entropy of `hmc` and `nn-hyvi` within 20 of the paper's on small tables",
        _of_entropy,
    ),
    "rmse": Target(
        "Paper protocol: RMSE of `hmc`, `ensemble`, `nn-hyvi`, `funn-hyvi` within 10% of the paper's or below",
        _of_error,
    ),
    "chains": Target(
        "`hmc`: R-hat of predictions at most 1.01 and bulk ESS at least 1,000 in every cell (others tell no numbers)",
        _of_chains,
    ),
    "default auc": Target(
        "Default protocol: the best AUC of our methods at least the best of the paper's row and `knn-distance`'s, or "
        "else that of disagreement and novelty combined, as alarms on unseen rows",
        _of_default_auc,
    ),
    "default funn-hyvi": Target(
        "Default protocol: `funn-hyvi` at least matches the paper's `funn-hyvi` in AUC and RMSE", _of_default_funn_hyvi
    ),
    "default rmse": Target(
        "Default protocol: RMSE of `hmc`, `funn-hyvi` or `ensemble` within 10% of the best of the paper's row, the "
        "Gaussian process's and bde's on small tables",
        _of_default_error,
    ),
}

# What was found out about cells that miss, by target and cell. Printed only where a cell misses. What was tried with
# other settings is a variant of a protocol, so its numbers are in the tables and not here.
INVESTIGATED: dict[tuple[str, str], str] = {
    ("chains", "default energy seed 0"): (
        "8,000 draws a chain. Rows of nu mix worst: the chains are equally likely, but differ in the few hidden units "
        "that matter most. More than twice the noise does not help (0.1): two chains have a pair of such units one way "
        "round, two have it mirrored, on where it was off, which fits the rows as well and differs off them. Tried, on "
        "shorter chains, with the output weights integrated out: hidden units drawn anew, moved at random, and "
        "mirrored, alone (most are accepted, but not those few) and in pairs; besides, principal components instead of "
        "columns, four times the units with a prior as wide, and the coordinate that helps a little on wine. "
        "Populations annealed from the prior agree better than the chains but not enough: which way round those units "
        "are is settled while the likelihood's exponent is about a hundredth, and few of the ancestors that settled it "
        "are left in the end. Ladders of such exponents would take hours a seed: all weights change from level to "
        "level. Ladders of networks without output layers, to which a linear function is lent (`MarginalHMC`), come "
        "nearest: [`default:sampler=ladders`](tables.md#did-the-draws-of-hmc-mix) has how near. With tanh, whose "
        "units have no side, they come no nearer (`default:activation=tanh,sampler=ladders`). Elliptical slices of one "
        "hidden unit at a time, in a trial that is not kept, renew the fit faster than trajectories, and everything "
        "where the exponent is small; but ladders from there hardly ever make a trip, for near the whole exponent all "
        "that is known is slow."
    ),
    ("chains", "default energy seed 1"): "See seed 0.",
    ("chains", "default energy seed 2"): "See seed 0.",
    ("entropy", "boston hmc"): (
        "The posterior is the paper's: of the same draws the entropy in parameter space, the AUC and the error are. "
        "Chains and populations, two samplers with nothing in common but the density, agree about this number; the "
        "same code is within 3 of the paper on the four other tables, and has the paper's number of the ensemble and "
        "of `nn-hyvi` at the same rows of nu. Tried: the box of all rows instead of the training rows', and other "
        "noises and priors, none of which explains it without moving the other numbers. A digit lost in print would."
    ),
    ("entropy", "energy nn-hyvi"): (
        "The paper's three fits scatter, too: of ten such comparisons one is that far off by chance. AUC and error "
        "agree with the paper's. Tried: the prior that the paper states, and leaving out the last, smaller batch of an "
        "epoch, which is nearer, but takes `funn-hyvi` on yacht far from the paper."
    ),
    ("rmse", "yacht funn-hyvi"): (
        "No more than chance: fits scatter more than the limit allows. One of 31 test rows decides, row 251, the "
        "fastest of its hull. Its U is above that of every training row, so it is a row that the method warns of."
    ),
}
