"""Protocols by name, and variants of them: "default:activation=tanh" is `default` with another activation."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from offmap.checks import chosen_by_name
from offmap.network import ACTIVATIONS
from offmap.study.protocol import PROTOCOLS, Protocol


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
    changed: dict[str, Any] = {}
    for change in changes.split(","):
        setting, _, value = change.partition("=")
        changed |= chosen_by_name(setting, CHANGES, "the setting to change")(value)
    return replace(protocol, setups={key: replace(setup, **changed) for key, setup in protocol.setups.items()})


def base_of(name: str) -> str:
    """The protocol that a variant is one of; its own name where it is none."""
    return name.partition(":")[0]


def is_variant(name: str) -> bool:
    """Whether settings of the protocol are changed."""
    return name != base_of(name)


def _noise(text: str) -> dict[str, Any]:
    return {"noise": _above_zero("noise", float, text), "noises": {}, "noise_std": None}


def _prior_std(text: str) -> dict[str, Any]:
    return {"prior_std": _above_zero("prior_std", float, text), "prior_stds": {}}


def _hidden(text: str) -> dict[str, Any]:
    return {"hidden": tuple(_above_zero("hidden", int, width) for width in text.split("+"))}


def _activation(text: str) -> dict[str, Any]:
    chosen_by_name(text, ACTIVATIONS, "activation")
    return {"activation": text}


def _above_zero(setting: str, kind: Callable[[str], float], text: str) -> float:
    try:
        number = kind(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        wanted = "a number above zero" if kind is float else "whole numbers above zero, with + between layers"
        raise ValueError(f"{setting} is {text!r}, but it must be {wanted}.")
    return number


# What can be changed: the noise, in units of the standardised target; the prior's std; the widths of the hidden layers;
# the activation.
CHANGES: dict[str, Callable[[str], dict[str, Any]]] = {
    "noise": _noise,
    "prior_std": _prior_std,
    "hidden": _hidden,
    "activation": _activation,
}
