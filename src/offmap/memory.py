"""How much memory there is: Linux promises more than it has, and then ends the process without a word."""

import os
from pathlib import Path

FLOAT_BYTES = 4


def free_bytes() -> int | None:
    """What this process may still allocate, or None where the system does not say."""
    known = [size for size in (_available(), _allowed()) if size is not None]
    return min(known, default=None)


def _available() -> int | None:
    """Of the machine: free, or freed as soon as somebody asks."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        sizes = dict(line.split(":") for line in meminfo.read_text(encoding="ascii").splitlines())
        if "MemAvailable" in sizes:
            return 1024 * int(sizes["MemAvailable"].split()[0])
    if "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _allowed() -> int | None:
    """Of a container, where there is one with a limit."""
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if not (limit.exists() and used.exists()) or limit.read_text(encoding="ascii").strip() == "max":
        return None
    return int(limit.read_text(encoding="ascii")) - int(used.read_text(encoding="ascii"))
