"""What is strange about a row, in words: one sentence for a person, one phrase for a table."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from offmap.table import Evidence
from offmap.table.columns import title

ENOUGH, MOST_NAMED = 0.6, 3  # the columns that are named: as few as make up 60% of it, and at most three
MOST_EVIDENCE = 3

# How each kind of evidence is called when it spoke: as a state of the row, and as what columns have parts of.
STATES = {"disagreement": "the predictors disagree", "novelty": "far from every training row"}
AMOUNTS = {"disagreement": "the predictors' disagreement", "novelty": "the distance from the training rows"}


class Share(NamedTuple):
    """A column, and its part of what makes a row strange: all parts sum to 1."""

    column: str
    share: float


class Findings(NamedTuple):
    """What there is to say about one row. `shares`: the largest first; `values`: the row's, as a person writes them."""

    shares: tuple[Share, ...]
    spoke: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    values: Mapping[str, str]


def ranked(names: Sequence[str], parts: Float[np.ndarray, " c"]) -> tuple[Share, ...]:
    """Columns with their parts, the largest first."""
    return tuple(Share(names[place], float(parts[place])) for place in np.argsort(-parts, kind="stable"))


def sentence_of(findings: Findings) -> str:
    """One sentence: what is strange, which columns that is, and how much of it they account for.

    >>> beyond = Evidence("age", "range", "age 97 is beyond the training range 18 to 91")
    >>> shares = Share("age", 0.5), Share("bmi", 0.3), Share("sex", 0.2)
    >>> sentence_of(Findings(shares, ("novelty",), (beyond,), {}))
    'age 97 is beyond the training range 18 to 91; with bmi it accounts for 80% of the distance from the training rows'
    """
    shares, spoke, evidence, _ = findings
    if not spoke:
        unusual = "; ".join(item.text for item in evidence)
        return f"not flagged; {unusual or f'least usual is {_with_value(shares[0].column, findings)}'}"
    leading = _leading(shares)
    known = [item for item in evidence if item.column in leading]
    others = [title(name) for name in leading if name not in {item.column for item in known}]
    total = sum(item.share for item in shares[: len(leading)])
    amount = f"for {total:.0%} of {_listed([AMOUNTS[kind] for kind in spoke])}"
    if not known:
        return f"{_together(leading, findings)}; {'it accounts' if len(leading) == 1 else 'they account'} {amount}"
    company = f"with {_listed(others)} " if others else ""
    who = "they account" if len(known) > 1 else "it accounts"
    return f"{'; '.join(item.text for item in known)}; {company}{who} {amount}"


def reason_of(findings: Findings) -> str:
    """A short phrase: what training never showed, or else which columns are unusual; and which evidence spoke.

    >>> reason_of(Findings((Share("height", 0.5), Share("weight", 0.5)), ("novelty",), (), {}))
    'height and weight are each ordinary but unusual together (far from every training row)'
    """
    leading, by_share = _leading(findings.shares), dict(findings.shares)
    found = sorted(findings.evidence, key=lambda item: -by_share[item.column])
    phrases = [item.text for item in found[:MOST_EVIDENCE]]
    if len(found) > MOST_EVIDENCE:
        phrases.append(f"{len(found) - MOST_EVIDENCE} more such")
    if not any(item.column in leading for item in found):
        phrases.insert(0, _together(leading, findings))
    return f"{'; '.join(phrases)} ({', '.join(STATES[kind] for kind in findings.spoke)})"


def _leading(shares: Sequence[Share]) -> list[str]:
    """The few columns that make up most of it."""
    totals = np.cumsum([item.share for item in shares[:MOST_NAMED]])
    return [item.column for item in shares[: 1 + int(np.sum(totals[:-1] < ENOUGH))]]


def _together(names: Sequence[str], findings: Findings) -> str:
    """What to say of columns whose values are all known from training."""
    if len(names) == 1:
        return f"{_with_value(names[0], findings)} is unusual beside the row's other values"
    return f"{_listed([title(name) for name in names])} are each ordinary but unusual together"


def _with_value(name: str, findings: Findings) -> str:
    return f"{title(name)} {findings.values.get(name, '')}".strip()


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
