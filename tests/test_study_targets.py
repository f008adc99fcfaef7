"""The study's targets: met up to their limits, missed beyond them, and never met by cells that are not there."""

from collections.abc import Iterable
from typing import Any

import pytest

from offmap.study.readme import readme_page
from offmap.study.summary import Study
from offmap.study.tables import beside_paper, hmc_diagnostics, of_protocol
from offmap.study.targets import TARGETS
from tests.study_records import alarm_records, as_published, changed, default_records, record


def verdicts(target: str, records: Iterable[Any]) -> dict[str, bool | None]:
    return {verdict.cell: verdict.met for verdict in TARGETS[target].verdicts(Study.of(records))}


def test_the_papers_own_numbers_meet_every_target_of_its_protocol() -> None:
    study = Study.of(as_published())
    for name in ("cells", "auc", "entropy", "rmse", "chains"):
        found = [verdict.met for verdict in TARGETS[name].verdicts(study)]
        assert found == [True] * {"cells": 126, "auc": 29, "entropy": 10, "rmse": 29, "chains": 18}[name]
    assert "## Misses" not in readme_page(study, [])
    assert all("<sup>" not in beside_paper(study, quantity) for quantity in ("auc", "rmse", "lpp", "entropy_predictor"))


@pytest.mark.parametrize(
    ("target", "method", "key", "met", "missed"),
    [
        ("auc", "hmc", "auc", 0.9790, 0.9788),
        ("auc", "funn-hyvi", "auc", 1.0, 0.97),
        ("entropy", "hmc", "entropy_predictor", -224.1, -223.9),
        ("entropy", "nn-hyvi", "entropy_predictor", -686.9, -687.1),
        ("rmse", "ensemble", "rmse", 0.945, 0.947),
        ("rmse", "ensemble", "rmse", 0.1, 9.0),
    ],
)
def test_a_target_is_met_up_to_its_limit(target: str, method: str, key: str, met: float, missed: float) -> None:
    records = as_published()
    assert verdicts(target, changed(records, "yacht", method, **{key: met}))[f"yacht {method}"] is True
    off = changed(records, "yacht", method, **{key: missed})
    assert [cell for cell, good in verdicts(target, off).items() if not good] == [f"yacht {method}"]
    assert f"* yacht {method}: " in readme_page(Study.of(off), []).split("## Misses")[1]
    without = [one for one in records if (one["dataset"], one["method"]) != ("yacht", method)]
    assert verdicts(target, without)[f"yacht {method}"] is None


def test_chains_that_did_not_mix_are_missed_and_their_numbers_left_out() -> None:
    records = [
        record("paper", "yacht", "hmc", 0, auc=0.9, rhat=1.01, ess=1000.0),
        record("paper", "yacht", "hmc", 1, auc=0.9, rhat=1.0101, ess=2000.0),
        record("default", "yacht", "hmc", 0, auc=0.9, rhat=1.0, ess=999.0),
        record("default:noise=0.1", "yacht", "hmc", 0, auc=0.9, rhat=2.0, ess=9.0),  # not judged
    ]
    assert list(verdicts("chains", records).values()) == [True, False, False]
    table = hmc_diagnostics(Study.of(records))
    assert "| paper | yacht | 1.0100 / **1.0101** ✗ | 1000 / 2000 |" in table
    assert "| default | yacht | 1.0000 | **999** ✗ |" in table
    for page in (beside_paper(Study.of(records), "auc"), of_protocol(Study.of(records), "default", "auc")):
        row = next(line for line in page.splitlines() if line.startswith("| yacht |"))
        assert row.startswith("| yacht | not mixed ")  # and not 0.9
    assert "0.9000" in beside_paper(Study.of(records[:1]), "auc")


def test_the_default_protocol_must_beat_the_paper_and_the_neighbours() -> None:
    assert verdicts("default auc", default_records(0.99996, 1.0, 1.0))["yacht"] is True
    assert verdicts("default auc", default_records(0.9957, 0.98, 1.0))["yacht"] is False
    assert verdicts("default auc", default_records(0.9970, 0.998, 1.0))["yacht"] is False
    assert verdicts("default auc", default_records(0.9970, 0.998, 1.0))["boston"] is None
    assert (
        verdicts("default funn-hyvi", default_records(1.0, 1.0, 1.074))["yacht"] is True
    )  # prints as the paper's 1.07
    assert verdicts("default funn-hyvi", default_records(1.0, 1.0, 1.076))["yacht"] is False
    assert verdicts("default rmse", default_records(1.0, 1.0, 1.0))["yacht"] is True  # 0.62 against bde's 0.569
    slower = changed(default_records(1.0, 1.0, 1.0), "yacht", "hmc", rmse=0.63)
    assert verdicts("default rmse", slower)["yacht"] is False


def test_both_kinds_of_evidence_together_may_do_what_disagreement_alone_does_not() -> None:
    alone = default_records(0.95, 0.98, 1.0)
    assert verdicts("default auc", alone)["yacht"] is False
    far = [
        one | {"alarms": {kind: both | {"auc": 0.999} for kind, both in one["alarms"].items()}}
        for one in alarm_records(0.05)
    ]
    assert verdicts("default auc", [*alone, *far])["yacht"] is True
    assert verdicts("default auc", [*alone, *alarm_records(0.05)])["yacht"] is False  # the paper's row has .9958
