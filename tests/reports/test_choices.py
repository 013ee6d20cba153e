"""A choice prints as what a pin reads: in tables, data frames, notebooks, Markdown and pictures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import hypar
from hypar.planning.pins import apply_pins, parse_pin
from hypar.reports.of.plan import plan_document
from hypar.reports.renderers import fragment, to_markdown
from hypar.reports.words import cells_of
from tests.effort import TWINS, crossed, late

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGE = ("gpt3-175b", "llama2-7b", "llama3-70b", "llama3-405b", "mixtral-8x7b", *TWINS)
"""Networks whose plans take long to print, or are like those of another."""


def read(plan: hypar.Plan, words: Mapping[tuple[str, int], str]) -> dict[tuple[str, int], dict[str, int]]:
    """The choices that pins with some words hold, by layer and level."""
    network = hypar.load_model(plan.model.name).with_batch(plan.model.batch).at_rest
    nodes = network.nodes(plan.graph)
    levels, free = len(plan.array), [((),) * len(plan.array)] * len(nodes.layers)
    pins = [parse_pin(f"{layer}@{level}={word}", nodes, levels) for (layer, level), word in words.items()]
    held = apply_pins(pins, nodes, free, plan.array)
    return {
        (layer.name, level): dict(options[0].degrees)
        for layer, own in zip(nodes.layers, held, strict=True)
        for level, options in enumerate(own)
        if options
    }


def planned(plan: hypar.Plan) -> dict[tuple[str, int], dict[str, int]]:
    """The choices in the plan's file, by layer and level."""
    return {
        (layer, split.level): dict(split.choice(layer).degrees)
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
    table: dict[tuple[str, int], str] = {}
    cell = cells_of(plan)
    for layer in plan.layers:
        table |= {(layer, split.level): cell(split, layer).text for split in plan.splits}
    frame = {(row["layer"], int(row["level"][1:]) - 1): row["choice"] for row in plan.document().records()}
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
    _, table, *_ = plan_document(plan, full=True).tables
    levels = [column.key for column in table.columns if column.key.startswith("H")]
    words = {row["layer"]: [row[level].text for level in levels] for row in table.rows}
    if len(levels) == len(plan.array):
        pins = {(layer, at): word for layer, own in words.items() for at, word in enumerate(own)}
        assert read(plan, pins) == planned(plan)
    full = plan_document(plan, full=True)
    markdown = [line.strip("| ").split(" | ") for line in to_markdown(full).splitlines()]
    page = re.findall(r"<tr><th[^>]*>([^<]*)</th>(.*?)</tr>", fragment(full))
    cells = {layer: re.findall(r'<span class="choice">(.*?)</span>', row) for layer, row in page}
    for layer, own in words.items():
        assert [line[1 : 1 + len(own)] for line in markdown if line[0] == layer] == [own]
        for cell, word in zip(cells[layer], own, strict=True):
            said = re.findall(r">([^<]+)</i>", cell)
            assert {piece for piece in word.split() if not re.fullmatch(r"[a-z_]+1", piece)} <= {*said}
            assert {*said} - {"rep", "off"} <= {*word.split()}
