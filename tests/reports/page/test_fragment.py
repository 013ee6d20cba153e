"""A fragment is one valid element, whatever the names in it."""

from __future__ import annotations

from hypar.reports.page.fragment import fragment
from hypar.reports.page.html import Markup, markup, tag
from tests.reports.documents import parse_cell, require_sound, words_of

HOSTILE = "<&\"'> </style><script>"


def test_a_fragment_is_one_valid_element() -> None:
    text = fragment(f"sfc {HOSTILE}", ["strategy", "time", HOSTILE], [["dp", "1.0 s", HOSTILE]], [HOSTILE])
    root = parse_cell(text)
    require_sound(root, text)
    assert root.get("class") == "hy"
    assert words_of(root).count(HOSTILE) == 4
    assert not [each for each in root.iter() if each.get("id")]
    assert len(text.encode()) < 12_000


def test_columns_of_numbers_are_aligned() -> None:
    text = fragment("", ["strategy", "time", "note"], [["dp", "1.0 s", "x"], ["mp", "", "2"]])
    for cell in ('<td class="r n">1.0 s</td>', "<td>x</td>", "<td>2</td>"):
        assert cell in text
    assert fragment("", ["strategy", "time"], []).count("<tr>") == 1


def test_markup_is_kept_and_text_is_escaped() -> None:
    assert markup(Markup("<b>"), ["<", None, 3]) == "<b>&lt;3"
    assert tag("i", "&", class_="a", hidden=True, title=None, lang=False) == '<i class="a" hidden>&amp;</i>'
    assert fragment("", ["a", "b"], [["x", tag("b", "<")]]).count("<b>&lt;</b>") == 1
