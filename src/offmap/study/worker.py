"""The process that runs one cell. Nothing heavy is imported before it has chosen its processors."""

import json
import multiprocessing
import multiprocessing.connection
import os
import threading
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from offmap.study.record import Cell, as_line


def work(answer: Connection, cell: Cell, data_dir: Path | None, processors: set[int] | None) -> None:
    """Run a cell and send its record back, as text: {"record": ...} or {"error": ..., "traceback": ...}."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if processors is not None:
        os.sched_setaffinity(0, processors)
    try:
        from offmap.study.cell import run_cell

        text = f'{{"record": {as_line(run_cell(cell, data_dir))}}}'
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
        text = json.dumps({"error": error, "traceback": traceback.format_exc()})
    answer.send_bytes(text.encode())


def _end_with_parent() -> None:
    """A parent that was killed cannot end its children, and nobody would keep what they find."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
