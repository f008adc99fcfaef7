"""Files that appear complete, or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def complete_file(path: str | Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` by a rename once the block ends well; else nothing of it stays."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix)
    os.close(handle)
    try:
        yield Path(name)
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    """The process's mask of permissions, which a temporary file ignores."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
