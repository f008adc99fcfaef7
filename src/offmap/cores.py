"""How many processors this process may use, which is not how many the machine has, and of which kind they are."""

import os
import platform
from pathlib import Path


def n_cores() -> int:
    """The processors that the system lets this process run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def first_processor() -> dict[str, str]:
    """What the system says of the first processor, by name; nothing where it does not."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().partition("\n\n")[0].splitlines() if file.exists() else []
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def kind_of_processor() -> str:
    """The name of the processor, and its family and model, where names do not tell kinds apart."""
    said = first_processor()
    numbers = [f"{name} {said[name]}" for name in ("cpu family", "model") if name in said]
    return ", ".join([said.get("model name", platform.processor() or platform.machine()), *numbers])
