"""HTML and SVG that cannot be broken by what a table holds: text is escaped unless it is markup already."""

from html import escape
from typing import Any

VOID = ("meta", "path", "line", "rect", "circle")  # written without an end when there is nothing inside


class Markup(str):
    """Text that is HTML already, so that nothing in it is escaped again."""

    __slots__ = ()


def element(tag: str, /, *inside: Any, **attributes: Any) -> Markup:
    """An HTML element; what is inside is escaped unless it is `Markup`. `class_` is class, `view_box` is viewBox.

    >>> element("p", "a < b", element("b", "!"), class_="note")
    '<p class="note">a &lt; b<b>!</b></p>'
    >>> element("rect", aria_label='5"')
    '<rect aria-label="5&quot;"/>'
    """
    named = "".join(f' {_attribute(key)}="{escape(str(value))}"' for key, value in attributes.items())
    if tag in VOID and not inside:
        return Markup(f"<{tag}{named}/>")
    return Markup(f"<{tag}{named}>{together(*inside)}</{tag}>")


def together(*parts: Any) -> Markup:
    """The parts one after the other, each escaped unless it is `Markup`.

    >>> together("1 < 2", Markup("<hr>"))
    '1 &lt; 2<hr>'
    """
    return Markup("".join(part if isinstance(part, Markup) else escape(str(part)) for part in parts))


def _attribute(key: str) -> str:
    return "viewBox" if key == "view_box" else key.rstrip("_").replace("_", "-")
