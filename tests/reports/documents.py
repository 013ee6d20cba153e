"""Checks of HTML that every page and every notebook's cell must pass."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any
from xml.etree.ElementTree import Element

from html5lib import HTMLParser

SVG = "{http://www.w3.org/2000/svg}"


@lru_cache(maxsize=4)
def parse_page(text: str) -> Element:
    found: Element = HTMLParser(strict=True).parse(text)
    for element in found.iter():
        if isinstance(element.tag, str):
            element.tag = element.tag.removeprefix("{http://www.w3.org/1999/xhtml}")
    return found


def parse_cell(text: str) -> Element:
    fragment: Any = HTMLParser(strict=True, namespaceHTMLElements=False).parseFragment(text)
    elements = [*fragment]
    assert len(elements) == 1
    assert elements[0].tag == "div"
    root: Element = elements[0]
    return root


def words_of(root: Element) -> str:
    return " ".join(_texts(root))


def _texts(element: Element) -> Iterator[str]:
    if element.tag == "style":
        return
    yield element.text or ""
    for child in element:
        yield from _texts(child)
        yield child.tail or ""


def require_sound(root: Element, text: str) -> None:
    """Nothing to load or to run, unique ids, headings in order, and pictures with a title."""
    tags = [element.tag for element in root.iter() if isinstance(element.tag, str)]
    assert not {"script", "link", "img", "iframe", "object"} & {*tags}
    assert "http" not in text
    assert "url(" not in text
    assert not re.search(r"\son\w+=", text)
    assert "javascript:" not in text
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len({*ids})
    for link in (element.get("href") for element in root.iter() if element.get("href")):
        assert link is not None
        assert link.startswith("#")
        assert link[1:] in ids
    for picture in root.iter(f"{SVG}svg"):
        assert picture[0].tag == f"{SVG}title"
        assert "".join(picture[0].itertext()).strip()
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for head in root.iter("th"):
        assert head.get("scope") in {"row", "col", "colgroup"}
    for region in root.iter("div"):
        if region.get("role") == "region":
            assert region.get("tabindex") == "0"
            assert region.get("aria-label")
