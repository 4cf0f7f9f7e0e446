"""Build HTML safely: every string is escaped unless it is `Html`.

Names of entities and variables come from untrusted files, so only this module writes angle brackets."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

VOID = frozenset({"br", "hr", "input", "link", "meta"})


class Html(str):
    """Text that is already markup."""

    __slots__ = ()


def element(tag: str, *children: str | Iterable[str] | None, **attributes: object) -> Html:
    """Return `<tag ...>children</tag>`. In attribute names a trailing underscore is dropped and others become hyphens.
    The values None and False omit the attribute, True writes it without a value."""
    head = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in VOID:
        return Html(f"<{tag}{head}>")
    return Html(f"<{tag}{head}>{join(*children)}</{tag}>")


def join(*children: str | Iterable[str] | None) -> Html:
    """Concatenate the children, escaping plain text."""
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
    """Isolate a name given by the user, so that its writing direction cannot reorder the surrounding text."""
    return element("bdi", text)


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    plain = name.rstrip("_").replace("_", "-")
    return f" {plain}" if value is True else f' {plain}="{escape(str(value))}"'
