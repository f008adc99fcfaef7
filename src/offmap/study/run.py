"""Runs the cells of a study that are not in its file yet, each in a process of its own."""

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple, cast

from offmap.checks import chosen_by_name
from offmap.console import progress_bar
from offmap.datasets import load_dataset
from offmap.progress import report
from offmap.study.baselines import BASELINES
from offmap.study.record import Cell, Record
from offmap.study.runs import add_record, read_runs
from offmap.study.settings import outdated
from offmap.study.variants import protocol_named
from offmap.study.worker import work

SECONDS_BETWEEN_REPORTS = 1.0

Say = Callable[[str], None]


class Outcome(NamedTuple):
    """What became of the cells: how many are finished and kept, and why the others failed."""

    finished: int
    failed: dict[Cell, str]


class Running(NamedTuple):
    """A cell that is being run: in which process, and in which of the slots side by side."""

    cell: Cell
    process: BaseProcess
    slot: int


def chosen_cells(protocol: str, datasets: Sequence[str], methods: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    """Every combination, in the order given; no datasets or no methods means all. Unknown names are errors."""
    setups = protocol_named(protocol).setups
    cells = []
    for dataset in datasets or setups:
        known = {**chosen_by_name(dataset, setups, "dataset").methods, **dict.fromkeys(BASELINES)}
        for method in methods or known:
            chosen_by_name(method, known, "method")
            cells += [Cell(protocol, dataset, method, seed) for seed in seeds]
    return list(dict.fromkeys(cells))


class Machine(NamedTuple):
    """How many cells run side by side, and on how many processors each: an even share of them without `cores`.

    The number of processors decides in which order sums are taken, so it decides the last digits of a cell's numbers.
    """

    jobs: int = 1
    cores: int | None = None

    def processors(self, slot: int) -> set[int] | None:
        """Those for the cell in one of the slots; None where the system cannot assign them."""
        if not hasattr(os, "sched_getaffinity"):
            return None
        every = sorted(os.sched_getaffinity(0))
        count = self.cores or max(1, len(every) // self.jobs)
        if count > len(every):
            raise ValueError(f"cores is {count}, but this process may use {len(every)}. Ask for fewer.")
        return {every[(slot * count + number) % len(every)] for number in range(count)}


def run_study(
    cells: Sequence[Cell], out: Path, machine: Machine = Machine(), data_dir: Path | None = None, say: Say = print
) -> Outcome:
    """Run the cells that `out` does not hold, and keep each as soon as it is finished.

    A cell that fails is told of and does not stop the others.
    """
    if machine.jobs < 1:
        raise ValueError(f"jobs is {machine.jobs}, but at least one cell must run at a time.")
    machine.processors(slot=0)  # an impossible number of cores is an error now
    waiting, failed, started = _not_run_yet(cells, out, say), {}, time.monotonic()
    for dataset in dict.fromkeys(cell.dataset for cell in waiting):
        load_dataset(dataset, data_dir)  # a table that is not to be had is an error now, not in every cell
    answers = _answers(waiting, out, machine, data_dir)
    try:
        with contextlib.closing(answers), progress_bar(sys.stderr.isatty()):
            for done, (cell, answer) in enumerate(answers, start=1):
                if "record" in answer:
                    add_record(out, answer["record"])
                elif "error" in answer:
                    failed[cell] = answer["error"]
                    print(answer.get("traceback", ""), file=sys.stderr, end="")
                left = _time_left(started, done, len(waiting))
                say(f"{done} of {len(waiting)}, {cell}: {_in_short(answer)}{left}")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted. Finished cells are kept in {out}; the same command goes on from there."
        ) from None
    return Outcome(finished=len(cells) - len(failed), failed=failed)


def _not_run_yet(cells: Sequence[Cell], out: Path, say: Say) -> list[Cell]:
    records, problems = read_runs(out)
    held = {Cell.of(record): record for record in records}
    finished = set()
    for cell in cells:
        changes = outdated(held[cell]) if cell in held else []
        if changes:
            problems.append(f"{out} holds {cell} under other settings: {', '.join(changes)}.")
        elif cell in held:
            finished.add(cell)
    for problem in problems:
        print(f"offmap: {problem} Its cell counts as not run.", file=sys.stderr)
    waiting = [cell for cell in cells if cell not in finished]
    if len(waiting) < len(cells):
        say(f"{len(cells) - len(waiting)} of {len(cells)} cells are in {out} already.")
    return waiting


def _answers(
    cells: Sequence[Cell], out: Path, machine: Machine, data_dir: Path | None
) -> Generator[tuple[Cell, Record]]:
    """Every cell as it ends, with {"record": ...}, {"error": ...}, or {} when another run has finished it meanwhile."""
    started, queue, free = time.monotonic(), deque(cells), list(range(machine.jobs))
    running: dict[Connection, Running] = {}
    try:
        while queue or running:
            while queue and free:
                cell = queue.popleft()
                if any(Cell.of(record) == cell and not outdated(record) for record in read_runs(out)[0]):
                    yield cell, {}
                else:
                    answer, process = _start(cell, data_dir, machine.processors(free[0]))
                    running[answer] = Running(cell=cell, process=process, slot=free.pop(0))
            for ready in wait(list(running), SECONDS_BETWEEN_REPORTS):
                answer = cast(Connection, ready)
                ended = running.pop(answer)
                yield ended.cell, _received(answer, ended.process)
                free.append(ended.slot)
            done = len(cells) - len(queue) - len(running)
            report(f"{done} of {len(cells)} cells{_time_left(started, done, len(cells))}", done, len(cells))
    finally:
        for one in running.values():
            one.process.terminate()
            one.process.join()


def _start(cell: Cell, data_dir: Path | None, processors: set[int] | None) -> tuple[Connection, BaseProcess]:
    """A fresh process at work on the cell, spawned since JAX does not survive a fork, and where its answer comes."""
    spawn = multiprocessing.get_context("spawn")
    answer, send = spawn.Pipe(duplex=False)
    process = spawn.Process(target=work, args=(send, cell, data_dir, processors), daemon=True)
    # Ctrl-C in a terminal reaches the children, too. They inherit what is blocked: the parent alone answers, and ends
    # them. The tracker must run before, since starting it unblocks.
    resource_tracker.ensure_running()
    with ctrl_c_waits():
        blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
    send.close()  # the process has its own end: when it dies, reading ends
    return answer, process


@contextlib.contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """A process that is half started complains. Blocking is not enough: another thread may take the signal."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(signal.SIGINT, None)


def _received(answer: Connection, process: BaseProcess) -> Record:
    """What a process sent, or that it died."""
    try:
        text = answer.recv_bytes()
    except EOFError:
        text = b""
    process.join()
    answer.close()
    if text:
        return dict(json.loads(text))
    return {"error": f"its process died (exit code {process.exitcode}); if that is -9, memory may have run out."}


def _in_short(answer: Record) -> str:
    if not answer:
        return "another run has finished it"
    if "error" in answer:
        return f"FAILED: {answer['error']}"
    record = answer["record"]
    numbers = [f"{key} {record[key]:.4g}" for key in ("auc", "rmse") if record[key] is not None]
    return ", ".join([*numbers, f"{record['seconds']:.0f} s"])


def _time_left(started: float, done: int, total: int) -> str:
    """Said behind a line: how long the rest takes when its cells take as long as those that are done."""
    if not 0 < done < total:
        return ""
    minutes = (time.monotonic() - started) / done * (total - done) / 60
    return f" (about {minutes / 60:.1f} h left)" if minutes >= 90 else f" (about {minutes:.0f} min left)"
