"""HTML elements as text, in which everything that is not markup already is escaped."""

from __future__ import annotations

from html import escape
from typing import TypeAlias

Content: TypeAlias = "str | int | float | list[Content] | tuple[Content, ...] | None"
"""The content of an element: markup, plain text, nothing, or several of them."""

Value: TypeAlias = "str | int | float | bool | None"
"""The value of an attribute: True for an attribute without a value, False or None for none."""

EMPTY = frozenset({"meta", "rect", "line", "path"})
"""Elements without content and end tag: HTML's own, and shapes of SVG, which end in a slash."""


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def markup(*content: Content) -> Markup:
    """Return content as markup, with plain text escaped."""
    return Markup("".join(map(_text, content)))


def tag(element: str, *content: Content, **attributes: Value) -> Markup:
    """Return an element.

    Args:
        element: its name.
        content: its content, escaped unless it is markup.
        attributes: its attributes; ``class_`` stands for ``class`` and any other ``_`` for ``-``.

    Example:
        >>> tag("td", "a < b", class_="n", title='"x"')
        '<td class="n" title="&quot;x&quot;">a &lt; b</td>'
    """
    start = f"<{element}{''.join(_attribute(*each) for each in attributes.items())}"
    if element in EMPTY:
        return Markup(f"{start}>" if element == "meta" else f"{start}/>")
    return Markup(f"{start}>{markup(*content)}</{element}>")


def spaced(parts: list[Markup] | tuple[Markup, ...]) -> Markup:
    """Join elements by spaces, so that their words stay apart where styles are not shown."""
    return Markup(" ".join(parts))


def _text(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return content
    if isinstance(content, list | tuple):
        return markup(*content)
    return escape(str(content), quote=False)


def _attribute(name: str, value: Value) -> str:
    """Return an attribute with a space before it; empty for None and False."""
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-") if name != "viewBox" else name
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
