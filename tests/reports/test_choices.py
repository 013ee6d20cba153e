"""A choice prints as what a pin reads: in tables, pages, notebooks, Markdown and pictures."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

import hypar
from hypar.planning.replay import run_plan
from hypar.reports.formats.base import grid
from hypar.reports.formats.tabular.page import plan_page
from hypar.reports.picture import picture
from hypar.reports.views.plan import plugin as view
from hypar.sharding.pins import apply_pins, parse_pin
from tests.effort import TWINS, crossed, late

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGE = ("gpt3-175b", "llama2-7b", "llama3-70b", "llama3-405b", "mixtral-8x7b", *TWINS)
"""Networks whose plans take long to print, or are like those of another."""


def read(plan: hypar.Plan, words: Mapping[tuple[str, int], str]) -> dict[tuple[str, int], dict[str, int]]:
    """The choices that pins with some words hold, by layer and level."""
    nodes = hypar.load_model(plan.model.name).with_batch(plan.model.batch).nodes(plan.graph)
    levels, free = len(plan.array), [((),) * len(plan.array)] * len(nodes.layers)
    pins = [parse_pin(f"{layer}@{level}={word}", nodes, levels) for (layer, level), word in words.items()]
    held = apply_pins(pins, nodes, free, plan.array)
    return {
        (layer.name, level): options[0].as_degrees()
        for layer, own in zip(nodes.layers, held, strict=True)
        for level, options in enumerate(own)
        if options
    }


def planned(plan: hypar.Plan) -> dict[tuple[str, int], dict[str, int]]:
    """The choices in the plan's file, by layer and level."""
    return {
        (layer, split.level): split.choice(layer).as_degrees()
        for layer in plan.layers
        for split in plan.splits
    }


@crossed(
    {
        "asked": [{"levels": 2}, {"array": [8]}, {"array": [16]}],
        "model": late(hypar.models(), *LARGE),
        "strategy": hypar.strategies(),
    }
)
def test_every_printed_choice_reads_back_as_a_pin(asked: dict[str, Any], model: str, strategy: str) -> None:
    machine: dict[str, Any] = {"hardware": "p100-4x4"} if strategy == "deepa" else {}
    plan = hypar.plan_model(model, strategy=strategy, time_limit=5, **asked, **machine)
    table = {
        (layer, split.level): word
        for layer, words, *_ in grid(plan)
        for split, word in zip(plan.splits, words, strict=True)
    }
    frame = {(row["layer"], int(row["level"][1:]) - 1): row["choice"] for row in view.rows(plan)}
    assert frame == table
    assert read(plan, table) == planned(plan)


PLANS: dict[str, dict[str, Any]] = {
    "named dims": {"model": "llama3-8b", "array": [8], "batch": 8, "hardware": "h100-8x", "strategy": "optimal"},
    "copies": {"model": "resnet18", "array": [16], "hardware": "hmc", "strategy": "optimal"},
    "digits": {"model": "alexnet-2012", "array": [16], "hardware": "hmc", "strategy": "optimal"},
    "idle devices": {"model": "alexnet", "array": [16], "hardware": "p100-4x4", "strategy": "deepa"},
    "levels": {"model": "resnet18", "levels": 3, "hardware": "hmc", "strategy": "accpar"},
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_all_that_shows_a_plan_has_the_words_of_its_table(name: str) -> None:
    plan = hypar.plan_model(**PLANS[name])
    table = {layer: words for layer, words, *_ in grid(plan)}
    choices = planned(plan)
    assert (
        read(plan, {(layer, at): word for layer, words in table.items() for at, word in enumerate(words)})
        == choices
    )
    titles = {unescape(title) for title in re.findall(r'class="cell" title="([^"]*)"', plan.render("html"))}
    parts = {
        text
        for _, text in re.findall(r'<text class="c ([a-z_]+)-t"[^>]*>([^<]*)</text>', picture(run_plan(plan)))
    }
    (sheet, *_) = plan_page(plan, full=True).tables
    shown = {
        row[0].text: {cell.text for cell in row} for row in sheet.rows if isinstance(row[0], type(row[1]))
    }
    markdown = [line.strip("| ").split(" | ") for line in plan.render("markdown").splitlines()]
    for layer, words in table.items():
        assert [*words] == next(line[1 : 1 + len(words)] for line in markdown if line[0] == layer)
        assert {*words} <= shown[layer]
        for level, word in enumerate(words):
            dims = [
                f"{dim.replace('_', ' ')} {degree}"
                for dim, degree in choices[layer, level].items()
                if degree > 1
            ]
            said = {f"H{level + 1}: {word}: ", f"H{level + 1}: "}
            assert titles & {own + (", ".join(dims) or "whole") for own in said}
            assert {word, *word.split()} & parts
