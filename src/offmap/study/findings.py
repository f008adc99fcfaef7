"""What the numbers say about the paper's claims and ours. A sentence counts; it concludes only where the counts do."""

from collections.abc import Callable

from offmap.study.paper import PUBLISHED_DATASETS, PUBLISHED_METHODS, published
from offmap.study.protocol import SMALL
from offmap.study.summary import Study
from offmap.study.targets import best_ours

SAME_ENTROPY = 3.0  # nats: what estimates from two samples of one posterior differ by


def _largest_entropy(study: Study, quantity: str, method: str) -> tuple[int, int]:
    """On how many tables a method has the largest entropy, of how many where all seven were run."""
    first = total = 0
    for dataset in PUBLISHED_DATASETS:
        row = {name: study.over_seeds(quantity, "paper", dataset, name) for name in PUBLISHED_METHODS}
        if all(any(study.cells("paper", dataset, name)) for name in PUBLISHED_METHODS):
            total += 1
            first += max((number.mean, name) for name, number in row.items() if number)[1] == method
    return first, total


def _most(count: int) -> bool:
    """Whether something holds on most of the paper's tables, not merely on most of those that were run."""
    return 2 * count > len(PUBLISHED_DATASETS)


def _on_predictor_entropy(study: Study) -> str:
    first, total = _largest_entropy(study, "entropy_predictor", "funn-hyvi")
    if not total:
        return ""
    said = (
        f"`funn-hyvi` has the largest entropy in predictor space on {first} of {total} tables (in the paper on 7 of 8)"
    )
    return said + (": inference in predictor space does buy diverse predictors." if _most(first) else ".")


def _on_parameter_entropy(study: Study) -> str:
    first, total = _largest_entropy(study, "entropy_parameter", "nn-hyvi")
    if not total:
        return ""
    return (
        f"`nn-hyvi` has the largest entropy in parameter space on {first} of {total} tables (in the paper on 8 of 8)."
    )


def _on_posterior(study: Study) -> str:
    pairs = [
        (ours.mean, theirs.value)
        for dataset in PUBLISHED_DATASETS
        if (ours := study.over_seeds("entropy_parameter", "paper", dataset, "hmc"))
        and (theirs := published("entropy_parameter", dataset, "hmc"))
    ]
    if not pairs:
        return ""
    same = sum(abs(ours - theirs) <= SAME_ENTROPY for ours, theirs in pairs)
    said = (
        f"`hmc` has the paper's entropy in parameter space, to {SAME_ENTROPY:g} nats, on {same} of {len(pairs)} tables"
    )
    return said + (": it is the same posterior that is sampled." if 2 * same > len(SMALL) else ".")


def _on_units(study: Study) -> str:
    """The same method under both protocols: what the noise in the right unit is worth."""
    pairs = [
        tuple(
            study.over_seeds(key, protocol, dataset, "hmc")
            for key in ("auc", "rmse")
            for protocol in ("paper", "default")
        )
        for dataset in PUBLISHED_DATASETS
    ]
    whole = [(auc, our_auc, error, ours) for auc, our_auc, error, ours in pairs if auc and our_auc and error and ours]
    if not whole:
        return ""
    sharper = sum(round(ours.mean, 4) >= round(papers.mean, 4) for papers, ours, *_ in whole)
    closer = sum(ours.mean < papers.mean for *_, papers, ours in whole)
    said = (
        f"`hmc`, which samples the posterior itself in both protocols, separates at least as well in `default` as "
        f"in `paper` on {sharper} of {len(whole)} tables, and has the smaller error on {closer}."
    )
    if _most(min(sharper, closer)):
        said += (
            " The paper's sigma_l, a value in target units used on the standardised target, is what it suffers from."
        )
    return said


def _on_neighbours(study: Study) -> str:
    rows = []
    for dataset in PUBLISHED_DATASETS:
        best, neighbours = best_ours(study, "auc", dataset), study.over_seeds("auc", "default", dataset, "knn-distance")
        if best and neighbours:
            rows.append((dataset, round(best[1], 4) >= round(neighbours.mean, 4)))
    if not rows:
        return ""
    behind = [dataset for dataset, won in rows if not won]
    said = (
        "The distance to the fifth neighbour, which knows nothing of the target, is matched or beaten by the best of "
        f"our methods on {len(rows) - len(behind)} of {len(rows)} tables"
    )
    return said + (f"; not on {', '.join(behind)}." if behind else ".")


FINDINGS: tuple[Callable[[Study], str], ...] = (
    _on_predictor_entropy,
    _on_parameter_entropy,
    _on_posterior,
    _on_units,
    _on_neighbours,
)
