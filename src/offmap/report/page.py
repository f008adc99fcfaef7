"""One self-contained page about a detector, and about a table that it judged: no script, no network, prints well."""

from datetime import date
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from offmap.artifact import LIBRARIES
from offmap.files import complete_file
from offmap.report.accuracy import accuracy_of, accuracy_section
from offmap.report.alarm import alarm_of, alarm_section
from offmap.report.card import Origin, card_section, model_section
from offmap.report.markup import Markup, element, together
from offmap.report.verdicts import verdicts_of, verdicts_section

LINKS = {"model": "Model", "accuracy": "Accuracy", "alarm": "Alarm", "verdicts": "Verdicts", "card": "Card"}
# Should anything on the page ever ask for something, the browser refuses.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_report(
    detector: Any, path: str | Path, X: Any = None, origin: Origin = Origin(), force: bool = False
) -> None:
    """Write a page about a fitted `OODDetector`, and about rows X: a frame, an array, or the path of a table's file.

    A file is read in constant memory. The page appears complete, or not at all; one that exists is replaced only with
    `force`.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory. Choose another path, such as {target / 'report.html'}.")
    if target.exists() and not force:
        raise FileExistsError(f"{target} exists already. Choose another path, or pass --force (in Python force=True).")
    with complete_file(target) as unfinished:
        unfinished.write_text(page(detector, X, origin), encoding="utf-8")


def page(detector: Any, X: Any = None, origin: Origin = Origin()) -> Markup:
    """The page's HTML."""
    if not origin.versions:
        origin = origin._replace(versions={name: version(name) for name in LIBRARIES})
    accuracy, alarm = accuracy_of(detector.held_out_, getattr(detector, "quality_", {})), alarm_of(detector)
    verdicts = None if X is None else verdicts_of(detector, X)
    target_name = getattr(detector, "target_name_", "")
    table_name = Path(X).name if isinstance(X, str | Path) else "the table"
    title = origin.name or (f"Predicting {target_name}" if target_name else "Model report")
    sections = (
        model_section(detector, accuracy, alarm, verdicts, origin),
        accuracy_section(accuracy, target_name or "target"),
        alarm_section(alarm),
        verdicts_section(verdicts, table_name, alarm.rate),
        card_section(detector, alarm, origin),
    )
    return _document(title, target_name, sections)


def _document(title: str, target_name: str, sections: tuple[Markup, ...]) -> Markup:
    style = Markup((files("offmap.report") / "style.css").read_text(encoding="utf-8"))
    made = f"Made by offmap {version('offmap')} on {date.today().isoformat()}"
    predicts = f'Predicts "{target_name}". ' if target_name else ""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title}: offmap report"),
        element("style", style),
    )
    links = (element("a", text, href=f"#{name}") for name, text in LINKS.items())
    header = element(
        "header",
        element("h1", title),
        element("div", f"{predicts}{made}.", class_="soft"),
        element("nav", *links),
    )
    footer = element("footer", f"{made}. This page needs no network and no script.")
    body = element("body", header, element("main", *sections), footer)
    return together(Markup("<!DOCTYPE html>\n"), element("html", head, body, lang="en"), "\n")
