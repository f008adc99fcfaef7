"""The study's file: whole, in order, shared, and never trusted further than it can be read."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from offmap.study.record import COSTS, KEYS, Cell, as_line, is_unmixed
from offmap.study.runs import FILE, LEFT_OUT, add_record, read_runs


def record(protocol: str = "paper", dataset: str = "yacht", method: str = "hmc", seed: Any = 0, **more: Any) -> Any:
    return dict.fromkeys(KEYS) | {"protocol": protocol, "dataset": dataset, "method": method, "seed": seed} | more


def add_many(folder: Path, method: str, n: int) -> None:
    for seed in range(n):
        add_record(folder, record(method=method, seed=seed))


def test_records_come_back_in_the_order_of_the_tables_whatever_order_they_came_in(tmp_path: Path) -> None:
    in_order = [
        Cell("paper", "wave", "hmc", 1),
        Cell("paper", "boston", "hmc", 0),
        Cell("paper", "boston", "hmc", 10),
        Cell("paper", "boston", "funn-hyvi", 0),
        Cell("paper", "boston", "knn-distance", 0),
        Cell("paper", "protein", "hmc", 0),
        Cell("default", "boston", "ensemble", 0),
        Cell("default", "somebody's own", "ensemble", 0),
    ]
    for cell in in_order[::2] + in_order[1::2]:
        add_record(tmp_path, record(*cell))
    records, problems = read_runs(tmp_path)
    assert [Cell.of(one) for one in records] == in_order
    assert problems == []
    assert read_runs(tmp_path / FILE) == (records, [])


def test_the_same_cell_is_replaced_and_kept_aside_and_nothing_else_changes(tmp_path: Path) -> None:
    add_record(tmp_path, record(seed=0, auc=0.1))
    add_record(tmp_path, record(seed=1, auc=0.2))
    first, second = (tmp_path / FILE).read_text().splitlines()
    add_record(tmp_path, record(seed=0, auc=0.9))
    assert (tmp_path / LEFT_OUT).read_text() == f"{first}\n"
    assert [one["auc"] for one in read_runs(tmp_path)[0]] == [0.9, 0.2]
    assert (tmp_path / FILE).read_text().splitlines()[1] == second


def test_lines_that_are_not_trusted_are_kept_aside(tmp_path: Path) -> None:
    older = json.dumps({key: value for key, value in record(seed=7).items() if key != "activation"})
    (tmp_path / FILE).write_text(f"{older}\n{as_line(record(seed=0))}\n")
    for seed in (1, 2):
        add_record(tmp_path, record(seed=seed))
    assert [one["seed"] for one in read_runs(tmp_path)[0]] == [0, 1, 2]
    assert (tmp_path / LEFT_OUT).read_text() == f"{older}\n"


def test_bad_lines_are_named_and_the_rest_is_used(tmp_path: Path) -> None:
    good = [as_line(record(seed=seed)) for seed in range(4)]
    short = {key: value for key, value in record(seed=7).items() if key != "rmse"}
    lines = [good[0], good[1][:-5], "[1, 2]", good[2], json.dumps(short), good[0], as_line(record(seed=None)), good[3]]
    (tmp_path / FILE).write_bytes("\n".join(lines).encode() + b"\n\xff\xfe{}\n")
    records, problems = read_runs(tmp_path)
    assert [one["seed"] for one in records] == [0, 2, 3]
    expected = {2: "cut short", 3: "not a record", 5: "lacks rmse", 6: "repeats the", 7: "which cell", 9: "altered"}
    for (number, why), problem in zip(expected.items(), problems, strict=True):
        assert f"line {number} " in problem
        assert why in problem


def test_a_line_cut_anywhere_is_never_trusted(tmp_path: Path) -> None:
    line = as_line(record(auc=0.5, u_test=[1.0, 2.0], settings={"method": {"chains": 4}}))
    for length in range(1, len(line)):
        (tmp_path / FILE).write_text(line[:length])
        assert read_runs(tmp_path)[0] == []
    (tmp_path / FILE).write_text(line)
    assert len(read_runs(tmp_path)[0]) == 1


def test_no_runs_are_no_problem(tmp_path: Path) -> None:
    assert read_runs(tmp_path) == read_runs(tmp_path / "nowhere") == ([], [])


def test_what_json_does_not_know_becomes_null_and_the_keys_keep_their_order() -> None:
    odd = record(lpp=-math.inf, rhat=math.nan, u_ood=[-math.inf, 1.5], settings={"a": (1, math.inf)})
    read = json.loads(as_line(odd))
    assert (read["lpp"], read["rhat"], read["u_ood"], read["settings"]) == (None, None, [None, 1.5], {"a": [1, None]})
    assert list(read) == list(KEYS)
    assert set(COSTS) <= set(KEYS)


def test_writers_share_a_folder_without_losing_a_record(tmp_path: Path) -> None:
    """The lock belongs to an open folder, so that threads stand for processes here."""
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda method: add_many(tmp_path, method, 25), ("hmc", "mfvi")))
    records, problems = read_runs(tmp_path)
    assert [Cell.of(one)[2:] for one in records] == [(method, n) for method in ("hmc", "mfvi") for n in range(25)]
    assert problems == []


def test_what_a_killed_writer_left_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / ".study-abc.jsonl").write_text("half a line")
    add_record(tmp_path, record())
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_record(tmp_path, record(seed=0))
    before = (tmp_path / FILE).read_bytes()

    def full(file: Path, text: str, encoding: str) -> None:
        file.write_bytes(text[:10].encode())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        add_record(tmp_path, record(seed=1))
    assert (tmp_path / FILE).read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_chains_that_are_stuck_have_not_mixed() -> None:
    """All at one value, R-hat is no number, and a record holds none."""
    stuck = json.loads(as_line(record(rhat=math.nan, ess=math.nan)))
    assert stuck["rhat"] is None
    assert is_unmixed(stuck)
    assert not is_unmixed(record(method="ensemble"))
    assert not is_unmixed(record(rhat=1.01, ess=1000.0))
