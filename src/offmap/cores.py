"""How many processors this process may use, which is not how many the machine has."""

import os


def n_cores() -> int:
    """The processors that the system lets this process run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
