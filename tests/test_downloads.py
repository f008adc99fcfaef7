"""Downloads, from a server on the loopback: whole and checked, or nothing is left and the message says what to do."""

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import offmap.datasets.download as downloading
from offmap.datasets import DatasetError
from offmap.datasets.download import Patience
from offmap.datasets.places import table_values
from offmap.datasets.registry import Home, Table
from offmap.progress import shown_by
from tests.tiny_table import CSV, LINES, OTHER, SPACED, TINY, VALUES, data_folder_with, zipped

HASTY = Patience(tries=3, first_pause_seconds=0.0, timeout_seconds=5.0, most_bytes=1000)

pytestmark = pytest.mark.usefixtures("cache")


@dataclass(frozen=True)
class Answer:
    """What a server says; `promised` bytes are announced, as many as there are unless it lies, or none at all."""

    body: bytes = CSV.encode()
    status: int = 200
    promised: int | None = -1


class Server(ThreadingHTTPServer):
    """Gives its answers in turn, the last one for ever, and notes who asked for what."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked = list(answers), list[str]()
        self.agents: list[str] = []

    def home(self, path: str = "tiny.csv", **settings: Any) -> Home:
        return Home(f"http://127.0.0.1:{self.server_port}/{path}", **settings)

    def table(self) -> Table:
        return replace(TINY, homes=(self.home(),))


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.agents.append(self.headers["User-Agent"])
        answer = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        self.send_response(answer.status)
        if answer.promised is not None:
            self.send_header("Content-Length", str(len(answer.body) if answer.promised < 0 else answer.promised))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    running: list[Server] = []

    def start(*answers: Answer) -> Server:
        server = Server(*answers)
        running.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def kept(cache: Path) -> list[str]:
    """All files in the cache."""
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())


@pytest.mark.parametrize("promised", [-1, None], ids=["length announced", "length not announced"])
def test_download_is_kept_and_not_repeated(serve: Serve, cache: Path, promised: int | None) -> None:
    server = serve(Answer(promised=promised))
    for _ in range(2):
        np.testing.assert_array_equal(table_values(server.table(), patience=HASTY), VALUES)
    assert server.asked == ["/tiny.csv"]
    assert server.agents[0].startswith("offmap/")
    assert kept(cache) == ["data/tiny.csv"]
    assert (cache / "data/tiny.csv").read_bytes() == CSV.encode()


def test_progress_counts_the_bytes(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "CHUNK_BYTES", 30)
    heard: list[tuple[str, int, int]] = []
    with shown_by(lambda *said: heard.append(said)):
        table_values(serve(Answer()).table(), patience=HASTY)
    assert {(what, total) for what, _, total in heard} == {("downloading tiny", len(CSV))}
    assert [done for _, done, _ in heard] == [*range(30, len(CSV), 30), len(CSV)]


@pytest.mark.parametrize(
    "trouble",
    [Answer(b"busy", 500), Answer(b"", 503), Answer(b"", 429), Answer(CSV.encode()[:50], promised=len(CSV))],
    ids=["500", "503", "429", "cut short"],
)
def test_passing_trouble_passes(serve: Serve, cache: Path, trouble: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(downloading, "time", SimpleNamespace(sleep=pauses.append))
    server = serve(trouble, trouble, Answer())
    np.testing.assert_array_equal(
        table_values(server.table(), patience=replace(HASTY, first_pause_seconds=3.0)), VALUES
    )
    assert len(server.asked) == 3
    assert pauses == [3.0, 6.0]
    assert kept(cache) == ["data/tiny.csv"]


FAILURES = {
    "cut short": (
        Answer(CSV.encode()[:50], promised=len(CSV)),
        3,
        rf"cut short \(50 of {len(CSV)} bytes\), in 3 tries",
    ),
    "cut short, unannounced": (Answer(CSV.encode()[:50], promised=None), 1, "has 1 numbers|3 rows"),
    "altered": (Answer(CSV.replace("24.0", "25.0").encode()), 1, "not those of tiny"),
    "server trouble": (Answer(b"", 500), 3, "answered 500 Internal Server Error, in 3 tries"),
    "gone": (Answer(b"", 404), 1, "answered 404 Not Found"),
    "too large": (Answer(b"1,2,3\n" * 200), 1, "larger than 1000 bytes"),
    "too large, unannounced": (Answer(b"1,2,3\n" * 200, promised=None), 1, "larger than 1000 bytes"),
    "announced too large": (Answer(CSV.encode(), promised=1001), 1, "larger than 1000 bytes"),
}


@pytest.mark.parametrize(("answer", "tries", "complaint"), FAILURES.values(), ids=FAILURES.keys())
def test_failed_download_says_what_to_do_and_leaves_nothing(
    serve: Serve, cache: Path, answer: Answer, tries: int, complaint: str
) -> None:
    server = serve(answer)
    with pytest.raises(DatasetError, match=complaint) as problem:
        table_values(server.table(), patience=HASTY)
    assert len(server.asked) == tries
    assert kept(cache) == []
    for advice in (server.home().address, str(cache / "data" / "tiny.csv"), "OFFMAP_DATA", "--data-dir"):
        assert advice in str(problem.value)


def test_offline_is_one_clear_message(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but nobody listens
        table = replace(TINY, homes=(Home(f"http://127.0.0.1:{unused.getsockname()[1]}/tiny.csv"),))
        with pytest.raises(DatasetError, match=r"no connection \(.*refused.*\), in 3 tries") as problem:
            table_values(table, patience=HASTY)
        assert "\n" not in str(problem.value)
        monkeypatch.setenv("OFFMAP_CACHE", "off")
        with pytest.raises(DatasetError, match=r"Try again later, or name a folder that holds tiny.csv"):
            table_values(table, patience=HASTY)
    assert kept(cache) == []


def test_silent_server_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        table = replace(TINY, homes=(Home(f"http://127.0.0.1:{silent.getsockname()[1]}/tiny.csv"),))
        with pytest.raises(DatasetError, match="timed out"):
            table_values(table, patience=replace(HASTY, tries=1, timeout_seconds=0.05))


def test_interrupted_download_leaves_nothing(serve: Serve, cache: Path) -> None:
    def ctrl_c(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with shown_by(ctrl_c), pytest.raises(KeyboardInterrupt):
        table_values(serve(Answer()).table(), patience=HASTY)
    assert kept(cache) == []


def test_next_home_is_asked_where_the_first_has_another_order(serve: Serve, cache: Path) -> None:
    shuffled = "\n".join([LINES[0], *reversed(LINES[1:])]).encode()
    server = serve(Answer(shuffled), Answer(zipped(CSV, "tiny.data")))
    table = replace(TINY, homes=(server.home("first.csv"), server.home("second.zip", member="tiny.data")))
    np.testing.assert_array_equal(table_values(table, patience=HASTY), VALUES)
    assert server.asked == ["/first.csv", "/second.zip"]
    assert kept(cache) == ["data/tiny.zip"]
    table_values(table, patience=HASTY)
    assert len(server.asked) == 2


def test_all_homes_are_named_where_all_fail(serve: Serve, cache: Path) -> None:
    server = serve(Answer(b"", 404))
    table = replace(TINY, homes=(server.home("first.csv"), server.home("second.txt")))
    with pytest.raises(DatasetError, match=r"first.csv: .*404.*; .*second.txt: .*404") as problem:
        table_values(table, patience=HASTY)
    assert f"save {server.home('second.txt').address} as {cache / 'data' / 'tiny.txt'}, or" in str(problem.value)


def test_file_put_into_the_cache_by_hand_is_used(cache: Path) -> None:
    (cache / "data").mkdir(parents=True)
    (cache / "data" / "tiny.csv").write_text(SPACED)
    np.testing.assert_array_equal(table_values(TINY, patience=HASTY), VALUES)


def test_damaged_cache_is_mended_or_named(serve: Serve, cache: Path) -> None:
    server = serve(Answer(), Answer(b"", 404))
    (cache / "data").mkdir(parents=True)
    (cache / "data" / "tiny.csv").write_bytes(OTHER)
    np.testing.assert_array_equal(table_values(server.table(), patience=HASTY), VALUES)
    assert (cache / "data" / "tiny.csv").read_text() == CSV
    (cache / "data" / "tiny.csv").write_bytes(OTHER)
    with pytest.raises(DatasetError, match=r"cache/data/tiny.csv: its numbers .*; http.*404"):
        table_values(server.table(), patience=HASTY)


def test_without_a_cache_nothing_is_kept(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(Answer())
    (tmp_path / "a file").write_text("where no folder can be")
    for wish in ("off", str(tmp_path / "a file")):
        monkeypatch.setenv("OFFMAP_CACHE", wish)
        np.testing.assert_array_equal(table_values(server.table(), patience=HASTY), VALUES)
    assert len(server.asked) == 2
    assert kept(tmp_path) == ["a file"]


def test_named_folder_comes_first_then_the_environments_then_the_cache(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(Answer())
    good = data_folder_with(tmp_path / "good", {"tiny.csv": CSV.encode()})
    bad = data_folder_with(tmp_path / "bad", {"tiny.csv": OTHER})
    table_values(server.table(), patience=HASTY)  # now the cache has it
    monkeypatch.setenv("OFFMAP_DATA", str(bad))
    np.testing.assert_array_equal(table_values(server.table(), good), VALUES)
    with pytest.raises(DatasetError, match=r"bad/tiny.csv holds other rows"):
        table_values(server.table())
    monkeypatch.setenv("OFFMAP_DATA", str(good))
    np.testing.assert_array_equal(table_values(server.table()), VALUES)
    with pytest.raises(DatasetError, match=r"bad/tiny.csv holds other rows"):
        table_values(server.table(), bad)
    with pytest.raises(DatasetError, match="nowhere does not exist"):
        table_values(server.table(), tmp_path / "nowhere")
    assert len(server.asked) == 1
