"""What need not be computed twice: the folder for it, and JAX's compiled programs in it."""

import os
from pathlib import Path

import jax

SWITCH = "OFFMAP_CACHE"  # a folder to use instead, or "off"
PROCESS_MAPS, MOST_MAPS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")


def cache_folder() -> Path | None:
    """The user's cache folder for offmap, or None when it is switched off."""
    wish = os.environ.get(SWITCH, "")
    if wish.lower() == "off":
        return None
    if wish:
        return Path(wish)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offmap"


def keep_compiled_programs() -> None:
    """Keep what JAX compiles from one process to the next, unless the user has chosen a folder for that already."""
    folder = cache_folder()
    if folder is None or jax.config.values.get("jax_compilation_cache_dir") is not None:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder / "programs"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


def make_room_for_programs() -> None:
    """Forget programs of earlier fits where they leave little room for more.

    Linux lets a process have some 65,000 pieces of memory, and ends it when it needs more. The programs of one fit are
    hundreds of pieces, and a table of another shape needs others, so hundreds of fits would reach the limit.
    """
    if PROCESS_MAPS.exists() and MOST_MAPS.exists():
        n_maps = PROCESS_MAPS.read_bytes().count(b"\n")
        if n_maps > int(MOST_MAPS.read_text(encoding="ascii")) // 2:
            jax.clear_caches()
