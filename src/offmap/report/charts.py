"""Charts as inline SVG: no script, no fonts, no network. Colours and line styles come from style.css, by class."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from offmap.report.markup import Markup, element

LEFT, RIGHT, TOP, BOTTOM = 58, 14, 10, 46  # around the axes, in SVG units
TICKS = 5
DIAGONAL = np.array([0.0, 1.0])

Values = Float[np.ndarray, " n"]


class Axis(NamedTuple):
    """From which number to which one a chart shows, and what the numbers are."""

    label: str
    low: float
    high: float
    percent: bool = False

    @classmethod
    def over(cls, label: str, *samples: Values) -> "Axis":
        """An axis that holds every finite value of the samples, with a little room around them.

        >>> Axis.over("age", np.array([0.0, 100.0, np.inf]))
        Axis(label='age', low=-4.0, high=104.0, percent=False)
        """
        values = np.concatenate(samples)
        values = values[np.isfinite(values)]
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        room = 0.04 * (high - low) or max(abs(low), 1.0) / 2
        return cls(label, low - room, high + room)

    @property
    def ends(self) -> Values:
        """Where it starts and where it ends."""
        return np.array([self.low, self.high])

    @property
    def ticks(self) -> list[float]:
        """About five round numbers on the axis.

        >>> Axis("age", 0.0, 104.0).ticks
        [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
        """
        step = self._step
        return [step * place for place in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]

    @property
    def _step(self) -> float:
        rough = (self.high - self.low) / TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        return power * min((1, 2, 5, 10), key=lambda factor: abs(math.log(factor * power / rough)))

    def text(self, tick: float) -> str:
        """A tick's number, with as many decimals as the ticks need."""
        if self.percent:
            return f"{tick:.{max(0, -2 - math.floor(math.log10(self._step)))}%}"
        largest = max(abs(self.low), abs(self.high))
        first, last = (math.floor(math.log10(size)) for size in (largest, self._step))  # the places of the digits
        return f"{tick:.{first - last + 1}g}" if largest >= 1e6 or last < -4 else f"{tick:,.{max(0, -last)}f}"


class Chart(NamedTuple):
    """Two axes, and the size of what they are drawn on."""

    x: Axis
    y: Axis
    width: int = 440
    height: int = 300

    def across(self, values: Values) -> Values:
        """Where values of x lie, from the left."""
        share = (np.asarray(values) - self.x.low) / (self.x.high - self.x.low)
        return LEFT + share * (self.width - LEFT - RIGHT)

    def down(self, values: Values) -> Values:
        """Where values of y lie, from the top."""
        share = (np.asarray(values) - self.y.low) / (self.y.high - self.y.low)
        return self.height - BOTTOM - share * (self.height - BOTTOM - TOP)


def drawing(chart: Chart, what: str, *marks: Markup) -> Markup:
    """The axes with marks on them. `what` says what is seen, to those who cannot see it."""
    right, floor = chart.width - RIGHT, chart.height - BOTTOM
    parts: list[Markup] = []
    for tick, x in zip(chart.x.ticks, chart.across(np.array(chart.x.ticks)), strict=True):
        parts.append(element("line", class_="grid", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=TOP, y2=floor))
        parts.append(element("text", chart.x.text(tick), x=f"{x:.1f}", y=floor + 18, text_anchor="middle"))
    for tick, y in zip(chart.y.ticks, chart.down(np.array(chart.y.ticks)), strict=True):
        parts.append(element("line", class_="grid", x1=LEFT, x2=right, y1=f"{y:.1f}", y2=f"{y:.1f}"))
        parts.append(element("text", chart.y.text(tick), x=LEFT - 8, y=f"{y + 4:.1f}", text_anchor="end"))
    middle = (TOP + floor) / 2
    parts.append(element("line", class_="axis", x1=LEFT, x2=right, y1=floor, y2=floor))
    parts.append(
        element("text", chart.x.label, class_="label", x=(LEFT + right) / 2, y=floor + 38, text_anchor="middle")
    )
    turned = f"translate(13 {middle}) rotate(-90)"
    parts.append(element("text", chart.y.label, class_="label", transform=turned, text_anchor="middle"))
    return element("svg", *parts, *marks, view_box=f"0 0 {chart.width} {chart.height}", role="img", aria_label=what)


def points(chart: Chart, x: Values, y: Values, titles: Sequence[str], kind: str) -> Markup:
    """A dot for each row, which says its title when pointed at."""
    places = zip(chart.across(x), chart.down(y), titles, strict=True)
    dots = [element("circle", element("title", title), cx=f"{a:.1f}", cy=f"{b:.1f}", r=2.5) for a, b, title in places]
    return element("g", *dots, class_=f"points {kind}")


def line(chart: Chart, x: Values, y: Values, kind: str, title: str = "") -> Markup:
    """A line from point to point."""
    return element("path", element("title", title), class_=f"line {kind}", d=_path(chart, x, y))


def band(chart: Chart, x: Values, low: Values, high: Values, kind: str, title: str = "") -> Markup:
    """The area between two lines."""
    around = _path(chart, np.concatenate([x, x[::-1]]), np.concatenate([low, high[::-1]]))
    return element("path", element("title", title), class_=f"area {kind}", d=f"{around}Z")


def outline(chart: Chart, edges: Values, heights: Values, kind: str, title: str) -> Markup:
    """A histogram as one shape."""
    x, y = np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(heights, 2), [0.0]])
    shape = band(chart, x, np.zeros(len(x)), y, kind, title)
    return element("g", shape, line(chart, x, y, kind, title))


def bars(chart: Chart, edges: Values, heights: Values, titles: Sequence[str], kind: str) -> Markup:
    """A bar between every two edges, which says its title when pointed at."""
    x, top, floor = chart.across(edges), chart.down(heights), float(chart.down(np.zeros(1))[0])
    shapes = [
        element(
            "rect",
            element("title", title),
            x=f"{left:.2f}",
            y=f"{y:.1f}",
            width=f"{width:.2f}",
            height=f"{floor - y:.1f}",
        )
        for left, width, y, title in zip(x[:-1], np.diff(x), top, titles, strict=True)
    ]
    return element("g", *shapes, class_=f"bars {kind}")


def _path(chart: Chart, x: Values, y: Values) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(chart.across(x), chart.down(y), strict=True))
