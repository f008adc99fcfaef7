"""Variants of a protocol: what their names change, and names that cannot be."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from offmap.cli import app
from offmap.inference import METHODS, BatchedHMC
from offmap.inference.dropout import MCDropout
from offmap.inference.ensemble import Ensemble
from offmap.prior import GaussianPrior
from offmap.schedules import Constant
from offmap.study.run import chosen_cells
from offmap.study.runs import read_runs
from offmap.study.variants import protocol_named

run = CliRunner().invoke


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("", "noise, prior_std, hidden, activation, epochs, sampler"),
        ("width=50", "noise, prior_std, hidden, activation, epochs, sampler"),
        ("activation=sine", "relu, gelu, tanh"),
        ("noise=-1", "above zero"),
        ("noise=", "above zero"),
        ("prior_std=inf", "above zero"),
        ("hidden=50+x", "with + between layers"),
        ("epochs=1.5", "a whole number above zero"),
        ("sampler=gibbs", "chains, populations, batch, ladders"),
    ],
)
def test_a_variant_that_cannot_be_is_answered_with_what_can(changes: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        chosen_cells(f"default:{changes}", ["yacht"], ["hmc"], [0])


def test_a_variant_changes_what_it_names_for_every_method_and_nothing_else() -> None:
    plain, changed = (protocol_named(name) for name in ("paper", "paper:noise=0.3,prior_std=2,hidden=7+5"))
    for key, setup in changed.setups.items():
        regressor = setup.regressor("nn-hyvi", np.array([0.0, 10.0]), seed=0)
        assert (regressor.hidden, regressor.prior) == ((7, 5), GaussianPrior(std=2.0))
        assert regressor.noise_std == pytest.approx(0.3 * 5.0)
        assert setup.noise_of("ensemble") == 0.3
        assert setup.methods is plain.setups[key].methods
        assert (setup.activation, setup.box) == (plain.setups[key].activation, plain.setups[key].box)
    assert protocol_named("default:activation=tanh").setups["yacht"].activation == "tanh"


def test_epochs_change_where_they_are_fixed_and_the_sampler_is_that_of_hmc() -> None:
    plain, changed = (protocol_named(name).setups["boston"].methods for name in ("paper", "paper:epochs=7"))
    for name in ("ensemble", "mc-dropout"):
        before, after = plain[name], changed[name]
        assert isinstance(before, Ensemble | MCDropout)
        assert after == replace(before, training=replace(before.training, schedule=Constant(epochs=7)))
    assert all(changed[name] is plain[name] for name in plain.keys() - {"ensemble", "mc-dropout"})
    sampled = protocol_named("default:sampler=batch").setups["energy"].methods
    assert sampled["hmc"] == BatchedHMC()
    assert sampled["funn-hyvi"] is METHODS["funn-hyvi"]


def test_a_variant_is_run_recorded_and_run_again_by_its_command(tmp_path: Path) -> None:
    arguments = ["--protocol", "quick:activation=tanh,hidden=5", "--datasets", "wave", "--methods", "ensemble"]
    assert run(app, ["study", "run", *arguments, "--out", str(tmp_path)]).exit_code == 0
    (record,), problems = read_runs(tmp_path)
    assert not problems
    assert (record["settings"]["activation"], record["settings"]["hidden"]) == ("tanh", [5])
    assert " ".join(arguments) in record["command"]
