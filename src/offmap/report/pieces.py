"""What every section is made of: headings, figures with a key, tables, tiles, and numbers as people write them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from offmap.report.markup import Markup, element, together

PLUS_MINUS, MINUS = "\N{PLUS-MINUS SIGN}", "\N{MINUS SIGN}"


def number(value: float, digits: int = 3) -> str:
    """A number with at least so many significant digits.

    >>> number(1234567.8), number(53.219), number(0.0012345), number(1e-9)
    ('1,234,568', '53.2', '0.00123', '1e-09')
    """
    if not math.isfinite(value) or value == 0:
        return {math.inf: "infinite", -math.inf: "-infinite"}.get(value, "0" if value == 0 else "none")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}" if 1e-4 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def percent(share: float) -> str:
    """A share in percent, with a decimal.

    >>> percent(0.0512)
    '5.1%'
    """
    return f"{share:.1%}"


def section(name: str, heading: str, *inside: Any) -> Markup:
    """A section that links can lead to."""
    return element("section", element("h2", heading), *inside, id=name)


def figure(
    heading: str, drawing: Markup, caption: str, key: Mapping[str, str] | None = None, wide: bool = False
) -> Markup:
    """A chart with its heading, a key from line style to meaning, and a sentence on how to read it."""
    samples = [
        element(
            "span", element("svg", element("path", class_=f"line {kind}", d="M0 5L26 5"), view_box="0 0 26 10"), text
        )
        for kind, text in (key or {}).items()
    ]
    legend = element("div", *samples, class_="key") if samples else ""
    parts = (element("h3", heading), legend, drawing, element("figcaption", caption))
    return element("figure", *parts, class_="wide" if wide else "half")


def figures(*inside: Markup) -> Markup:
    """Figures side by side."""
    return element("div", *inside, class_="figures")


def tiles(facts: Iterable[tuple[str, str]]) -> Markup:
    """A few numbers that matter, each with what it is."""
    each = (element("div", element("b", value), element("span", what), class_="tile") for value, what in facts)
    return element("div", *each, class_="tiles")


def facts_table(facts: Iterable[tuple[str, Any]], caption: str = "") -> Markup:
    """Names and values, one to a line."""
    lines = (element("tr", element("th", name, scope="row"), element("td", value)) for name, value in facts)
    return element("table", element("caption", caption) if caption else "", element("tbody", *lines))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], numeric: Sequence[str]) -> Markup:
    """A table with a line for each row; the `numeric` columns are aligned to the right."""
    classes = [{"class_": "number"} if name in numeric else {} for name in columns]
    head = (element("th", name, scope="col", **style) for name, style in zip(columns, classes, strict=True))
    body = (
        element("tr", *(element("td", cell, **style) for cell, style in zip(row, classes, strict=True))) for row in rows
    )
    whole = element("table", element("thead", element("tr", *head)), element("tbody", *body))
    return element("div", whole, class_="wrap")


def items(lines: Iterable[str]) -> Markup:
    """A list."""
    return element("ul", *(element("li", line) for line in lines))


def paragraphs(*texts: str) -> Markup:
    """Each text as a paragraph."""
    return together(*(element("p", text) for text in texts if text))
