"""Protocols by name, and variants of them: "default:activation=tanh" is `default` with another activation."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from offmap.checks import chosen_by_name
from offmap.inference import METHODS, PAPER_METHODS, BatchedHMC, MarginalHMC, Method
from offmap.inference.dropout import MCDropout
from offmap.inference.ensemble import Ensemble
from offmap.network import ACTIVATIONS
from offmap.schedules import Constant
from offmap.study.protocol import PROTOCOLS, Protocol, Setup

SAMPLERS: dict[str, Method] = {
    "chains": METHODS["hmc"],
    "populations": PAPER_METHODS["hmc"],
    "batch": BatchedHMC(),
    "ladders": MarginalHMC(),
}

Change = Callable[[Setup], Setup]
Number = TypeVar("Number", int, float)


def protocol_named(name: str) -> Protocol:
    """One of PROTOCOLS, or one with some settings changed, for every table and every method alike.

    >>> wine = protocol_named("paper:noise=0.7,hidden=50+50").setups["wine"]
    >>> wine.noise_of("hmc"), wine.hidden
    (0.7, (50, 50))
    """
    base, colon, changes = name.partition(":")
    protocol = chosen_by_name(base, PROTOCOLS, "protocol")
    if not colon:
        return protocol
    setups = dict(protocol.setups)
    for change in changes.split(","):
        setting, _, value = change.partition("=")
        changed = chosen_by_name(setting, CHANGES, "the setting to change")(value)
        setups = {key: changed(setup) for key, setup in setups.items()}
    return replace(protocol, setups=setups)


def base_of(name: str) -> str:
    """The protocol that a variant is one of; its own name where it is none."""
    return name.partition(":")[0]


def is_variant(name: str) -> bool:
    """Whether settings of the protocol are changed."""
    return name != base_of(name)


def _noise(text: str) -> Change:
    noise = _above_zero("noise", float, text)
    return lambda setup: replace(setup, noise=noise, noises={}, noise_std=None)


def _prior_std(text: str) -> Change:
    prior_std = _above_zero("prior_std", float, text)
    return lambda setup: replace(setup, prior_std=prior_std, prior_stds={})


def _hidden(text: str) -> Change:
    hidden = tuple(_above_zero("hidden", int, width) for width in text.split("+"))
    return lambda setup: replace(setup, hidden=hidden)


def _activation(text: str) -> Change:
    chosen_by_name(text, ACTIVATIONS, "activation")
    return lambda setup: replace(setup, activation=text)  # type: ignore[arg-type]  # it is one of them


def _epochs(text: str) -> Change:
    schedule = Constant(epochs=_above_zero("epochs", int, text))

    def trained(method: Method) -> Method:
        if not isinstance(method, Ensemble | MCDropout):
            return method
        return replace(method, training=replace(method.training, schedule=schedule))

    return lambda setup: replace(setup, methods={name: trained(method) for name, method in setup.methods.items()})


def _sampler(text: str) -> Change:
    sampler = chosen_by_name(text, SAMPLERS, "sampler")
    return lambda setup: replace(setup, methods={**setup.methods, "hmc": sampler})


def _above_zero(setting: str, kind: Callable[[str], Number], text: str) -> Number:
    try:
        number = kind(text)
        if 0 < number < math.inf:
            return number
    except ValueError:
        pass
    wanted = "a number above zero" if kind is float else "a whole number above zero"
    between = ", with + between layers" if setting == "hidden" else ""
    raise ValueError(f"{setting} is {text!r}, but it must be {wanted}{between}.")


# What can be changed: the noise, in units of the standardised target; the prior's std; the widths of the hidden layers;
# the activation; the number of epochs, at one rate, of ensemble and mc-dropout; how hmc samples.
CHANGES: dict[str, Callable[[str], Change]] = {
    "noise": _noise,
    "prior_std": _prior_std,
    "hidden": _hidden,
    "activation": _activation,
    "epochs": _epochs,
    "sampler": _sampler,
}
