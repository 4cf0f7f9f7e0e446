"""HTML from Python, safe by default: every string is escaped unless it is `Html` already. Names of entities and
variables come from files of strangers, so nothing else in the report writes an angle bracket."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

VOID = frozenset({"br", "hr", "input", "link", "meta"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *children: str | Iterable[str] | None, **attributes: object) -> Html:
    """`<tag ...>children</tag>`. In attribute names a trailing underscore is dropped and others become hyphens; None
    and False leave the attribute out, True writes it bare."""
    head = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in VOID:
        return Html(f"<{tag}{head}>")
    return Html(f"<{tag}{head}>{join(*children)}</{tag}>")


def join(*children: str | Iterable[str] | None) -> Html:
    """The children one after the other, escaped where they are plain text."""
    out: list[str] = []
    for child in children:
        if isinstance(child, Html):
            out.append(child)
        elif isinstance(child, str):
            out.append(escape(child, quote=False))
        elif child is not None:
            out.append(join(*child))
    return Html("".join(out))


def name(text: str) -> Html:
    """A name given by the user, kept from reordering the text around it by its writing direction."""
    return element("bdi", text)


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    plain = name.rstrip("_").replace("_", "-")
    return f" {plain}" if value is True else f' {plain}="{escape(str(value))}"'
