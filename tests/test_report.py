"""The page: what it says is what other code computes, nothing in a table can break it, and a browser agrees."""

import heapq
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score, roc_curve
from typer.testing import CliRunner

from offmap.cli import app
from offmap.detector import OODDetector
from offmap.fitting import fit_file
from offmap.report import Origin, write_report
from offmap.report.accuracy import NOMINAL, accuracy_of, accuracy_section
from offmap.report.alarm import alarm_of
from offmap.report.charts import Axis, Chart, outline
from offmap.report.page import page
from offmap.report.pieces import number, percent
from offmap.report.verdicts import verdicts_of
from tests.small_models import patients, tiny_detector

SECTIONS = ["model", "accuracy", "alarm", "verdicts", "card"]
SCRIPT = "<script>alert(1)</script>"
VOID = {"meta"}


class Page(HTMLParser):
    """What a browser would find: elements, text by section, table cells, and whether every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: dict[str, str] = {}
        self.cells: list[list[str]] = []
        self.section = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.section = dict(attrs)["id"] or ""
        elif tag == "tr":
            self.cells.append([])
        elif tag == "td":
            self.cells[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text[self.section] = self.text.get(self.section, "") + data
        if "td" in self.open:
            self.cells[-1][-1] += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(150, 3)) * [1.0, 5.0, 0.1]


@pytest.fixture(scope="module")
def detector(rows: np.ndarray) -> OODDetector:
    """A detector of plain numbers, whose public methods take rows of nu as they are."""
    return tiny_detector().fit(rows, rows[:, 0] + rows[:, 1])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model directory and a table in which every name and value tries to be HTML."""
    folder = tmp_path_factory.mktemp("hostile")
    table = patients().rename_columns(["patient", SCRIPT, "bmi", "a & b", "smoker", "visit", "</title><b>cost</b>"])
    table = table.set_column(3, "a & b", pa.array([f"<i>{city}" for city in table["a & b"].to_pylist()]))
    new = table.slice(0, 30).set_column(3, "a & b", pa.array(["<img src=x onerror=alert(2)>"] * 30))
    for name, rows in (("train", table), ("new<b>", new)):
        pyarrow.csv.write_csv(rows, folder / f"{name}.csv")
    fit_file(folder / "train.csv", "</title><b>cost</b>", tiny_detector(), folder / "model<u>", say=lambda _: None)
    return folder / "model<u>", folder / "new<b>.csv"


# --- what the page says ---


def test_sections_are_there_and_every_element_is_closed(detector: OODDetector, rows: np.ndarray) -> None:
    found = Page(page(detector, rows))
    assert [section["id"] for section in found.named("section")] == SECTIONS
    assert [link["href"] for link in found.named("a")] == [f"#{name}" for name in SECTIONS]


def test_without_a_table_the_page_says_so(detector: OODDetector) -> None:
    found = Page(page(detector))
    assert found.text["verdicts"] == "The table's verdictsNo table was given: this page is about the model alone."


def test_errors_are_those_of_the_held_out_rows(detector: OODDetector) -> None:
    kept = detector.held_out_
    error = np.sqrt(np.mean((kept["y"] - kept["prediction"]) ** 2))
    text = Page(page(detector)).text["accuracy"]
    assert f"The error (RMSE) is {number(error)}." in text
    assert f"Always answering the mean, it would be {number(np.std(kept['y']))}." in text


def test_alarm_is_what_the_detector_says_of_rows_in_the_box(detector: OODDetector, rows: np.ndarray) -> None:
    box = np.random.default_rng(0).uniform(rows.min(axis=0), rows.max(axis=0), (2000, 3))
    off = [regressor.uncertainty(box) for regressor in detector.estimators_]
    truth = np.repeat([0, 1], [len(rows), len(off) * len(box)])
    scores = np.concatenate([detector.held_out_["ood_score"], *off])
    found = Page(page(detector))
    assert f"ROC of disagreement: AUC {roc_auc_score(truth, scores):.3f}" in found.text["alarm"]
    flagged = np.mean(detector.predict(box) == -1)
    assert f"the alarm flags {percent(flagged)}, at a false-alarm rate of 5.0%" in found.text["alarm"]
    at_rate = np.interp(0.05, *roc_curve(truth, scores, drop_intermediate=False)[:2])
    assert f"The dot: at 5.0% false alarms, {percent(at_rate)} of the box is flagged." in found.text["alarm"]
    disagreement = alarm_of(detector).separations[0]
    assert disagreement.threshold == -detector.offset_
    assert len(disagreement.scores["training"]) == (len(detector.folds_) - 1) * len(rows)


@pytest.mark.parametrize(
    ("evidence", "shown"),
    [("both", ["disagreement", "novelty"]), ("disagreement", ["disagreement"]), ("novelty", ["novelty"])],
)
def test_only_evidence_that_counts_is_shown(rows: np.ndarray, evidence: str, shown: list[str]) -> None:
    fitted = tiny_detector(evidence=evidence).fit(rows, rows[:, 0])
    assert re.findall(r"ROC of (\w+):", Page(page(fitted)).text["alarm"]) == shown


def test_regressor_without_predictors_has_novelty_alone_and_no_intervals(rows: np.ndarray) -> None:
    fitted = OODDetector(LinearRegression(), evidence="novelty", random_state=0).fit(rows, rows[:, 0])
    found = Page(page(fitted, rows))
    assert "LinearRegression, learned from 3 columns" in found.text["model"]
    assert "novelty alone" in found.text["model"]
    assert "Calibration of the intervals" not in found.text["accuracy"]
    assert "nan" not in found.text["verdicts"]


def test_coverage_counts_rows_inside_the_interval() -> None:
    # 50% is 0.67 stds to each side, 80% 1.28, 90% 1.64 and 95% 1.96.
    missed = np.array([0.5, -0.7, 1.3, -1.7, 2.5])
    held_out = {"row": np.arange(5), "y": 2 * missed, "prediction": np.zeros(5), "std_total": np.full(5, 2.0)}
    accuracy = accuracy_of(held_out, {})
    listed = dict(zip(NOMINAL.round(2).tolist(), accuracy.coverage.tolist(), strict=True))
    assert [listed[level] for level in (0.5, 0.8, 0.9, 0.95)] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    cells = Page(accuracy_section(accuracy, "y")).cells
    assert cells[1:] == [
        ["50%", "20.0%", "1.35"],
        ["80%", "40.0%", "2.56"],
        ["90%", "60.0%", "3.29"],
        ["95%", "80.0%", "3.92"],
    ]


def test_dots_lie_where_their_numbers_say(detector: OODDetector) -> None:
    dots = re.findall(
        r'<circle cx="([\d.]+)" cy="([\d.]+)" r="2.5"><title>training row (\d+): predicted', page(detector)
    )
    kept = detector.held_out_
    place = {int(row): index for index, row in enumerate(kept["row"])}
    order = [place[int(row) - 1] for _, _, row in dots[: len(place)]]
    assert sorted(order) == list(range(len(place)))
    for axis, values, sign in ((0, kept["prediction"], 1), (1, kept["y"], -1)):
        drawn = np.array([float(dot[axis]) for dot in dots[: len(place)]])
        slope, start = np.polyfit(values[order], drawn, 1)
        assert np.sign(slope) == sign
        assert np.abs(slope * values[order] + start - drawn).max() < 0.1  # SVG units, as rounded


def test_histogram_stands_on_the_axis() -> None:
    chart = Chart(Axis("x", 0.0, 2.0), Axis("y", 0.0, 1.0), width=272, height=156)  # 200 by 100 between the axes
    drawn = outline(chart, np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.5]), "nu", "both bins")
    top = "M58.0 110.0L58.0 10.0L158.0 10.0L158.0 60.0L258.0 60.0L258.0 110.0"
    assert f'<path class="line nu" d="{top}"><title>both bins</title></path>' in drawn


@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6))
def test_ticks_are_few_and_even_and_on_the_axis(low: float, width: float) -> None:
    axis = Axis("x", low, low + width)
    ticks = np.array(axis.ticks)
    assert 2 <= len(ticks) <= 9
    assert ticks.min() >= low - 1e-9 * width
    assert ticks.max() <= low + width * (1 + 1e-9)
    np.testing.assert_allclose(np.diff(ticks), np.diff(ticks)[0], rtol=1e-6)
    assert len({axis.text(tick) for tick in axis.ticks}) == len(ticks)
    assert np.all(np.diff(Chart(axis, axis).across(ticks)) > 0)


def test_few_dots_however_many_rows() -> None:
    n = 100_000
    y = np.random.default_rng(0).normal(size=n)
    accuracy = accuracy_of({"row": np.arange(n), "y": y, "prediction": 0 * y, "std_total": 1 + 0 * y}, {})
    found = Page(accuracy_section(accuracy, "y"))
    assert len(found.named("circle")) == 2 * 1000 + len(NOMINAL)
    assert "1,000 of 100,000 rows are drawn" in found.text["accuracy"]
    z = (accuracy.coverage - NOMINAL) / np.sqrt(NOMINAL * (1 - NOMINAL) / n)
    assert np.abs(z).max() < 4


# --- verdicts ---


def test_a_file_for_a_model_of_unnamed_columns(detector: OODDetector, rows: np.ndarray, tmp_path: Path) -> None:
    pyarrow.csv.write_csv(pa.table({"a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2]}), tmp_path / "rows.csv")
    from_file, from_array = (verdicts_of(detector, X) for X in (tmp_path / "rows.csv", rows))
    assert [worst.row for worst in from_file.worst] == [worst.row for worst in from_array.worst]
    pyarrow.csv.write_csv(pa.table({"a": rows[:, 0]}), tmp_path / "short.csv")
    with pytest.raises(ValueError, match=r"short.csv has 1 columns, but the model learned from 3 without names"):
        verdicts_of(detector, tmp_path / "short.csv")


def test_table_on_the_page_is_that_of_verdicts(detector: OODDetector, rows: np.ndarray) -> None:
    X = np.concatenate([rows, 40 * rows[:10]])
    truth = detector.verdicts(X)
    found = Page(page(detector, X))
    flagged = truth["is_ood"].sum()
    assert f"{flagged} of the 160 rows of the table are flagged: {flagged / 160:.1%}." in found.text["verdicts"]
    worst = [cells for cells in found.cells if len(cells) == 8]
    order = heapq.nsmallest(20, range(160), key=lambda row: (truth["p_value"][row], -truth["ood_score"][row], row))
    assert [int(cells[0]) - 1 for cells in worst] == order
    for cells, row in zip(worst, order, strict=True):
        assert cells[1] == number(truth["prediction"][row])
        assert cells[-1] == (truth["reason"][row] or "not flagged")
    bars = re.findall(r"rows ([\d,]+) to ([\d,]+): ([\d,]+) flagged", page(detector, X))
    for first, last, count in bars:
        assert truth["is_ood"][int(first) - 1 : int(last)].sum() == int(count)
    assert sum(int(count) for *_, count in bars) == flagged
    heights = [float(height) for height in re.findall(r'height="([\d.]+)"><title>rows', page(detector, X))]
    shares = [int(count) / (int(last) - int(first) + 1) for first, last, count in bars]
    np.testing.assert_allclose(heights, np.array(shares) * max(heights) / max(shares), atol=0.1)


# --- nothing gets in, nothing goes out ---


def test_names_and_values_are_text_whatever_they_hold(hostile: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", *map(str, hostile), "--out", str(out)])
    assert result.exit_code == 0, result.output
    found = Page(out.read_text(encoding="utf-8"))
    assert not {"script", "img", "i", "u"} & {tag for tag, _ in found.elements}
    assert not any(name.startswith("on") for _, attributes in found.elements for name in attributes)
    assert SCRIPT in found.text["card"]
    assert "a & b" in found.text["card"]
    assert "predicted </title><b>cost</b>" in found.text["accuracy"]
    assert "30 rows of new<b>.csv" in found.text["verdicts"]
    assert "<img src=x onerror=alert(2)>" in found.text["verdicts"]
    assert "model<u>" in found.text[""]


def test_page_asks_for_nothing_and_is_small(detector: OODDetector, rows: np.ndarray) -> None:
    html = page(detector, rows)
    found = Page(html)
    assert not re.search(r"https?:|//|url\(|@import", html.replace("\n", " "))
    assert not any({"src", "srcset", "action", "data"} & set(attributes) for _, attributes in found.elements)
    assert {"script", "link", "iframe", "object"}.isdisjoint(tag for tag, _ in found.elements)
    assert len(html.encode()) < 1_000_000


# --- the file ---


def test_page_that_exists_stays_unless_forced(detector: OODDetector, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")
    with pytest.raises(FileExistsError, match=r"report\.html exists already\. Choose another path, or pass --force"):
        write_report(detector, out)
    assert out.read_text() == "old"
    write_report(detector, out, force=True, origin=Origin(name="new"))
    assert "<h1>new</h1>" in out.read_text(encoding="utf-8")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        write_report(detector, tmp_path, force=True)


def test_failure_leaves_nothing_behind(detector: OODDetector, rows: np.ndarray, tmp_path: Path) -> None:
    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            return getattr(detector, name)

        def verdicts(self, X: Any) -> dict[str, np.ndarray]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_report(Interrupted(), tmp_path / "report.html", rows)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--out", "page.html"], "nowhere is not a model directory"),
        (["MODEL", "nowhere.csv", "--out", "page.html"], "nowhere.csv does not exist. Check the path."),
        (["MODEL", "--out", "."], "is a directory. Choose another path"),
    ],
)
def test_wrong_input_is_one_line(
    hostile: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["report", *(str(hostile[0]) if a == "MODEL" else a for a in arguments)])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


# --- in a browser ---

BROWSER = shutil.which("chromium")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars")
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND"


class Visit:
    """What Chromium makes of a page: its document, what it logs, which addresses it asks for, and how it looks."""

    def __init__(self, html: Path, folder: Path) -> None:
        folder.mkdir()
        log = ("--enable-logging=stderr", "--v=0", f"--log-net-log={folder / 'net.json'}")
        self.dom, console = self._run(html, folder, "--dump-dom", *log)
        self.complaints = [line for line in console.splitlines() if "CONSOLE" in line]
        events = [event.get("params", {}) for event in json.loads((folder / "net.json").read_text())["events"]]
        # What the browser asks for itself has no origin.
        self.asked = {event["url"] for event in events if event.get("initiator", "not an origin") != "not an origin"}
        self._run(html, folder, f"--screenshot={folder / 'page.png'}", "--window-size=1200,2400")
        self.picture = imread(folder / "page.png")

    @staticmethod
    def _run(html: Path, folder: Path, *flags: str) -> tuple[str, str]:
        command = [str(BROWSER), *FLAGS, OFFLINE, f"--user-data-dir={folder / 'profile'}", *flags, html.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        return done.stdout, done.stderr


@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: the page is not tried in a browser")
def test_browser_shows_the_page_without_complaint_or_request(hostile: tuple[Path, Path], tmp_path: Path) -> None:
    loud = tmp_path / "loud.html"
    loud.write_text('<script>console.error("heard")</script><img src="http://127.0.0.1:9/asked.png">')
    control = Visit(loud, tmp_path / "control")  # what the test listens for can be heard
    assert any("heard" in line for line in control.complaints)
    assert control.asked == {"http://127.0.0.1:9/asked.png"}

    out = tmp_path / "report.html"
    assert CliRunner().invoke(app, ["report", *map(str, hostile), "--out", str(out)]).exit_code == 0
    visit = Visit(out, tmp_path / "visit")
    assert visit.complaints == []
    assert visit.asked == set()
    assert [section["id"] for section in Page(visit.dom).named("section")] == SECTIONS
    assert visit.picture.shape[:2] == (2400, 1200)
    ink = np.mean(visit.picture[..., :3].min(axis=2) < 0.6)
    assert 0.01 < ink < 0.5
