from __future__ import annotations

import re

import pytest

from hypar import plan_model
from hypar.reports.formats.tabular.notes import legend, plan_notes
from hypar.reports.formats.tabular.page import plan_page
from hypar.reports.page.cells import legend as cells_legend


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([("dp", "batch")], "dp cuts a layer in the batch"),
        (
            [("mp", "in_channels"), ("mp", "channels"), ("dp", "batch"), ("rep", None)],
            "dp cuts a layer in the batch, mp in its input channels (a join in its channels); rep leaves it whole on every device",
        ),
        (
            [("III", "out_channels"), ("ch", "channels"), ("I", "batch")],
            "I cuts a layer in the batch, III in its output channels, ch a join in its channels",
        ),
        (
            [("n4 c1 h2 w2", "batch*height*width"), ("n8 c2", "batch*out_channels")],
            "n4 c1 h2 w2: the shards of a layer, n of the batch, c of its output channels, h of its height, w of its width",
        ),
        (
            [("n", "batch"), ("c", "out_channels"), ("c", "channels")],
            "n cuts a layer in the batch, c in its output channels (a join in its channels)",
        ),
        (
            [("n2 c2", "batch*out_channels"), ("n2 c2", "batch*channels"), ("n", "batch")],
            "n cuts a layer in the batch; n2 c2: the shards of a layer, n of the batch, c of its output channels (of a join its channels)",
        ),
        ([], ""),
    ],
)  # fmt: skip
def test_the_legend_explains_each_word_once(cells: list[tuple[str, str | None]], text: str) -> None:
    notes = legend([word for word, _ in cells], [dim for _, dim in cells])
    assert [note.text for note in notes] == [text] * bool(text)


def test_bytes_by_level_are_said_once() -> None:
    notes = dict(plan_notes(plan_model("lenet-c", levels=2, hardware="hmc", convention="paper")))
    assert notes["cost"] == "volume 6.23 MB a step, counted by paper"
    assert notes["levels"] == "6.23 MB of communication, counted by paper: H1 2.58 MB, H2 3.65 MB"
    assert dict(plan_notes(plan_model("lenet-c", array=[4], strategy="deepa", hardware="p100-4x4")))[
        "energy"
    ].startswith("not known")


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "unet", "array": [4, 2], "space": "batch*out_channels"},
        {"model": "unet", "levels": 2, "space": "batch,out_channels,channels"},
        {"model": "resnet18", "array": [4, 2], "space": "all"},
    ],
)
def test_a_word_of_a_legend_stands_for_one_thing(asked: dict[str, object]) -> None:
    """One word a dim, and each word said once, joins and grids included."""
    plan = plan_model(strategy="optimal", **asked)  # type: ignore[arg-type]
    notes = [note for note in plan_page(plan).below if not isinstance(note, str)]
    (text,) = [note.text for note in notes if note.label == "choices"]
    said = [
        (word, place)
        for part in re.sub(r" \([^)]*\)", "", text).split("; ")
        for word, place in re.findall(
            r"(\w+) (?:cuts a layer in|cuts a join in|of|in) (?:the|its) ([\w ]+)", part
        )
    ]
    by_place: dict[str, set[str]] = {}
    for word, place in said:
        by_place.setdefault(place, set()).add(word)
    assert all(len(words) == 1 for words in by_place.values())
    assert len({word for word, _ in said}) == len(by_place)


def test_the_legend_of_a_page_has_each_letter_once() -> None:
    text = str(cells_legend(["batch", "out_channels", "channels", None], 2, "a unit"))
    words = re.findall(r"<b[^>]*>(\w+)</b>", text)
    assert words == ["n", "c", "rep"]
    assert "cut in output channels; a join, cut in channels" in text
