"""Pieces of HTML. All text is escaped, except for `Markup`."""

import base64
import math
from collections.abc import Iterable, Sequence
from html import escape


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def element(name: str, *content: object, **attributes: object) -> Markup:
    """``element("p", "a < b", class_="note")`` is ``<p class="note">a &lt; b</p>``."""
    given = "".join(f' {key.rstrip("_")}="{escape(str(value))}"' for key, value in attributes.items())
    inner = "".join(part if isinstance(part, Markup) else escape(str(part)) for part in content)
    return Markup(f"<{name}{given}>{inner}</{name}>")


def section(anchor: str, title: str, how: str, *content: object) -> Markup:
    """A section of the page: its heading, how to read it, and its content."""
    return element("section", element("h2", title), element("p", how, class_="how"), *content, id=anchor)


def table(header: Sequence[object], rows: Iterable[Sequence[object]], **attributes: object) -> Markup:
    """An HTML table; the first cell of each row is its name."""
    head = element("tr", *(element("th", cell, scope="col") for cell in header))
    body = (
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in others))
        for first, *others in rows
    )
    return element("table", element("thead", head), element("tbody", *body), **attributes)


def image(png: bytes, describe: str) -> Markup:
    """A PNG file, embedded in the page."""
    data = base64.b64encode(png).decode()
    return Markup(f'<img alt="{escape(describe)}" src="data:image/png;base64,{data}">')


def number(value: float | None) -> str:
    """A number for a table. A value that only rounds to 100 is shown as >99.9."""
    if value is None or math.isnan(value):
        return "–"
    if isinstance(value, int):
        return str(value)
    return ">99.9" if 99.95 <= value < 100 else f"{value:.1f}"
