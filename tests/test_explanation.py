"""Why a row is strange: the guilty columns are found where they are known, and the words say what was found."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from offmap import DiverseRegressor, OODDetector
from offmap.inference.ensemble import Ensemble
from offmap.optimize import Training
from offmap.phrases import Findings, Share, ranked, reason_of, sentence_of
from offmap.schedules import Cosine
from offmap.table import Evidence

QUICK = Ensemble(members=8, training=Training(learning_rate=0.02, batch_size=100, schedule=Cosine(steps=200)))
NUMBERS = [f"c{place}" for place in range(8)]
Slip = Callable[[np.random.Generator, pd.DataFrame, int], set[str]]


def table(random: np.random.Generator, n_rows: int) -> pd.DataFrame:
    """Eight columns of numbers, of which c0 and c1 go together and c5, c6, c7 do not matter for y; a category; and two
    columns that never vary."""
    values = random.normal(size=(n_rows, 8))
    values[:, 1] = 0.95 * values[:, 0] + np.sqrt(1 - 0.95**2) * values[:, 1]
    return pd.DataFrame(values, columns=NUMBERS).assign(
        kind=random.choice(["a", "b", "c", "d"], n_rows), site="north", pressure=1e-6
    )


def target(random: np.random.Generator, X: pd.DataFrame) -> np.ndarray:
    clean = X.c0 + np.sin(2 * X.c1) + X.c2 * X.c3 + 0.5 * X.c4 + (X.kind == "a")
    return np.asarray(clean + 0.3 * random.normal(size=len(X)))


def far_out(random: np.random.Generator) -> float:
    return float(random.choice([-1, 1]) * random.uniform(6, 8))


def one_column(random: np.random.Generator, X: pd.DataFrame, row: int) -> set[str]:
    name = str(random.choice(NUMBERS))
    X.loc[row, name] = far_out(random)
    return {name}


def one_column_that_does_not_matter(random: np.random.Generator, X: pd.DataFrame, row: int) -> set[str]:
    name = str(random.choice(["c5", "c6", "c7"]))
    X.loc[row, name] = far_out(random)
    return {name}


def two_columns(random: np.random.Generator, X: pd.DataFrame, row: int) -> set[str]:
    # Not c0 or c1: where one of them is far out the other no longer fits it, and is guilty too.
    names = [str(name) for name in random.choice(NUMBERS[2:], 2, replace=False)]
    for name in names:
        X.loc[row, name] = far_out(random)
    return set(names)


def strange_together(random: np.random.Generator, X: pd.DataFrame, row: int) -> set[str]:
    side = float(random.choice([-1, 1]))
    X.loc[row, "c0"], X.loc[row, "c1"] = 2 * side, -2 * side  # each inside the range of every table
    return {"c0", "c1"}


def unseen_category(random: np.random.Generator, X: pd.DataFrame, row: int) -> set[str]:
    X.loc[row, "kind"] = "zebra"
    return {"kind"}


def missing_as_never_before(random: np.random.Generator, X: pd.DataFrame, row: int) -> set[str]:
    name = str(random.choice(NUMBERS))
    X.loc[row, name] = np.nan
    return {name}


def another_constant(random: np.random.Generator, X: pd.DataFrame, row: int) -> set[str]:
    name, value = [("site", "south"), ("pressure", 1.1e-6)][random.integers(2)]
    X.loc[row, name] = value
    return {str(name)}


SLIPS = [
    one_column,
    one_column_that_does_not_matter,
    two_columns,
    strange_together,
    unseen_category,
    missing_as_never_before,
    another_constant,
]


def fitted(method: Any, calibration: Any) -> OODDetector:
    random = np.random.default_rng(0)
    X = table(random, 500)
    model = DiverseRegressor(method, noise_std=0.3, random_state=0)
    return OODDetector(model, calibration=calibration, random_state=0).fit(X, target(random, X))


@pytest.fixture(scope="module", params=["held-out", "cross-fit"])
def detector(request: pytest.FixtureRequest) -> OODDetector:
    return fitted(QUICK, request.param)


def share_found(detector: OODDetector, slip: Slip, n_rows: int = 100) -> tuple[float, float]:
    """Of rows with a slip, the share that is flagged, and the share of those whose guilty columns are the top ones."""
    random = np.random.default_rng(1)
    X = table(random, n_rows)
    guilty = [slip(random, X, row) for row in range(n_rows)]
    explained = list(zip(detector.explain(X), guilty, strict=True))
    flagged = [(each, names) for each, names in explained if each.spoke]
    right = [{item.column for item in each.shares[: len(names)]} == names for each, names in flagged]
    return len(flagged) / n_rows, sum(right) / max(1, len(right))


@pytest.mark.parametrize("slip", SLIPS)
def test_the_guilty_columns_are_found(detector: OODDetector, slip: Slip) -> None:
    flagged, right = share_found(detector, slip)
    assert flagged >= 0.9
    assert right >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("calibration", ["held-out", "cross-fit"])
def test_the_guilty_columns_are_found_with_the_default_method(calibration: Any) -> None:
    detector = fitted("funn-hyvi", calibration)
    for slip in SLIPS:
        flagged, right = share_found(detector, slip)
        print(f"{calibration} {slip.__name__}: {flagged:.0%} flagged, guilty columns found in {right:.0%} of them")
        assert flagged >= 0.9
        assert right >= 0.95


@pytest.mark.parametrize("evidence", ["disagreement", "novelty"])
@pytest.mark.parametrize("slip", [one_column, strange_together])
def test_each_kind_of_evidence_finds_them_alone(detector: OODDetector, slip: Slip, evidence: Any) -> None:
    alone = OODDetector().set_params(**detector.get_params())
    alone.__dict__.update(detector.__dict__, evidence=evidence)
    assert share_found(alone, slip)[1] >= 0.95
    random = np.random.default_rng(2)
    X = table(random, 40)
    for row in range(40):
        slip(random, X, row)
    assert {kind for each in alone.explain(X) for kind in each.spoke} == {evidence}


def test_an_explanation_is_whole(detector: OODDetector) -> None:
    random = np.random.default_rng(3)
    X = table(random, 30)
    X.loc[0, "c3"] = 50.0
    X.loc[1, "kind"] = "zebra"
    X.loc[2, "pressure"] = 2e-6
    explanations = detector.explain(X)
    verdicts = detector.verdicts(X)
    for row, each in enumerate(explanations):
        parts = [item.share for item in each.shares]
        assert sum(parts) == pytest.approx(1)
        assert parts == sorted(parts, reverse=True)
        assert {item.column for item in each.shares} == {*NUMBERS, "kind", "site", "pressure"}
        assert bool(each.spoke) == verdicts["is_ood"][row] == bool(verdicts["reason"][row])
        assert [item.text in verdicts["reason"][row] for item in each.evidence] == [bool(each.spoke)] * len(
            each.evidence
        )
    assert explanations[0].sentence.startswith("c3 50 is beyond the training range")
    assert [item.kind for item in explanations[1].evidence] == ["unseen"]
    assert explanations[1].sentence.startswith("kind 'zebra' was never seen in training")
    assert explanations[2].sentence.startswith("pressure is 2e-06, and was always 1e-06 in training")


def test_neighbours_are_the_nearest_rows_of_the_training_table(detector: OODDetector) -> None:
    random = np.random.default_rng(0)
    X = table(random, 500)  # the rows that the detector was fitted to
    for row in detector.training_.row[:5]:
        assert detector.explain(X.iloc[[row]])[0].neighbours[0] == row


# --- words ---

BEYOND = Evidence("age", "range", "age 97 is beyond the training range 18 to 91")
UNSEEN = Evidence("colour", "unseen", "colour 'teal' was never seen in training")


def found(shares: dict[str, float], spoke: str, evidence: tuple[Evidence, ...] = ()) -> Findings:
    parts = tuple(Share(*item) for item in shares.items())
    return Findings(parts, tuple(spoke.split()), evidence, {"age": "97", "bmi": "31.5"})


@pytest.mark.parametrize(
    ("findings", "sentence"),
    [
        (
            found({"age": 0.5, "bmi": 0.3, "sex": 0.2}, "disagreement", (BEYOND,)),
            f"{BEYOND.text}; with bmi it accounts for 80% of the predictors' disagreement",
        ),
        (
            found({"age": 0.7, "bmi": 0.3}, "disagreement novelty", (BEYOND,)),
            "age 97 is beyond the training range 18 to 91; it accounts for 70% of the predictors' disagreement and the "
            "distance from the training rows",
        ),
        (
            found({"height": 0.5, "weight": 0.41, "age": 0.09}, "novelty", (BEYOND,)),
            "height and weight are each ordinary but unusual together; they account for 91% of the distance from "
            "the training rows",
        ),
        (
            found({"height": 0.5, "weight": 0.41, "age": 0.09}, "disagreement"),
            "height and weight are each ordinary but unusual together; they account for 91% of the predictors' "
            "disagreement",
        ),
        (
            found({"bmi": 0.9, "age": 0.1}, "novelty"),
            "bmi 31.5 is unusual beside the row's other values; it accounts for 90% of the distance from the training "
            "rows",
        ),
        (
            found({"age": 0.5, "colour": 0.45, "bmi": 0.05}, "novelty", (BEYOND, UNSEEN)),
            "age 97 is beyond the training range 18 to 91; colour 'teal' was never seen in training; they account for "
            "95% of the distance from the training rows",
        ),
        (found({"bmi": 0.9, "age": 0.1}, ""), "not flagged; least usual is bmi 31.5"),
        (found({"bmi": 0.9, "age": 0.1}, "", (BEYOND,)), "not flagged; age 97 is beyond the training range 18 to 91"),
        (
            found({"a": 0.25, "b": 0.25, "c": 0.05, "d": 0.45}, "novelty"),
            "a, b and c are each ordinary but unusual together; they account for 55% of the distance from the "
            "training rows",
        ),
    ],
)
def test_sentences(findings: Findings, sentence: str) -> None:
    assert sentence_of(findings) == sentence


@pytest.mark.parametrize(
    ("findings", "reason"),
    [
        (
            found({"age": 0.5, "bmi": 0.5}, "disagreement", (BEYOND,)),
            "age 97 is beyond the training range 18 to 91 (the predictors disagree)",
        ),
        (
            found({"bmi": 0.9, "age": 0.1}, "disagreement novelty", (BEYOND,)),
            "bmi 31.5 is unusual beside the row's other values; age 97 is beyond the training range 18 to 91 (the "
            "predictors disagree, far from every training row)",
        ),
        (
            found({"colour": 0.8, "age": 0.2}, "novelty", (BEYOND, UNSEEN)),
            "colour 'teal' was never seen in training; age 97 is beyond the training range 18 to 91 (far from every "
            "training row)",
        ),
        (
            found({"age": 1.0}, "novelty", (BEYOND,) * 5),
            "; ".join([BEYOND.text] * 3) + "; 2 more such (far from every training row)",
        ),
    ],
)
def test_reasons(findings: Findings, reason: str) -> None:
    assert reason_of(findings) == reason


def test_ranked_puts_the_largest_first() -> None:
    assert ranked(["a", "b", "c"], np.array([0.2, 0.7, 0.1])) == (Share("b", 0.7), Share("a", 0.2), Share("c", 0.1))
