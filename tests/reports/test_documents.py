"""Documents of networks and machines: the same words at the terminal, in notebooks and in Markdown, and data as ``--json``."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import hypar
from hypar.machine.load import load_machine
from hypar.planning.pins import apply_pins, parse_pin
from hypar.reports.renderers import csv_text, fragment, rendered, to_markdown
from hypar.reports.text import plain, render
from hypar.reports.words import cells_of
from tests.effort import TWINS, crossed, late
from tests.kit import output
from tests.reports.documents import parse_cell

SHOWN: dict[str, Callable[[], Any]] = {
    "models resnet18": lambda: hypar.load_model("resnet18"),
    "models llama3-8b": lambda: hypar.load_model("llama3-8b"),
    "hardware hmc": lambda: load_machine("hmc"),
    "hardware tpu-v2-v3": lambda: load_machine("tpu-v2-v3"),
}
RUNS: dict[str, Callable[[], Any]] = {
    "compare lenet-c --levels 2 --hardware hmc --strategy hypar": lambda: hypar.compare_strategies(
        "lenet-c", levels=2, hardware="hmc", strategies=["hypar"]
    ),
    "sweep lenet-c --hardware hmc,tpu-v2 --array 4,2x2 --batch 64,256 --strategy hypar": lambda: (
        hypar.sweep_model("lenet-c", hardware=["hmc", "tpu-v2"], array=[(4,), (2, 2)], batch=[64, 256])
    ),
    "explore lenet-c --hardware hmc --levels 2 --vary conv2 --vary fc1": lambda: hypar.explore_model(
        "lenet-c", hardware="hmc", levels=2, vary=["conv2", "fc1"]
    ),
}


@pytest.mark.parametrize("command", RUNS)
def test_what_a_command_prints_of_runs_is_their_document(command: str) -> None:
    document = RUNS[command]().document()
    assert output(*command.split(), columns=300) == plain(render(document, 300))
    if not command.startswith("compare"):
        rows = json.loads(json.dumps(document.records()))
        assert json.loads(output(*command.split(), "--json")) == rows
        assert output(*command.split(), "--csv") == csv_text(rows)


@pytest.mark.parametrize("command", SHOWN)
def test_what_a_command_prints_is_what_a_notebook_shows(command: str) -> None:
    result = SHOWN[command]()
    document = result.document()
    printed = plain(render(document, 10_000))
    assert output(*command.split(), columns=10_000) == printed
    cell = "".join(parse_cell(result._repr_html_()).itertext())
    page = to_markdown(document)
    for word in printed.split():
        assert word in cell.replace("\u202f", " ")
        assert word in page.replace("\\", "").replace("&lt;", "<").replace("&amp;", "&")
    assert fragment(document) == result._repr_html_()


@pytest.mark.parametrize("command", SHOWN)
def test_data_are_those_of_json(command: str) -> None:
    result = SHOWN[command]()
    data = json.loads(output(*command.split(), "--json"))
    rows = json.loads(json.dumps(result.document().records()))
    assert sorted(map(str, rows)) == sorted(map(str, data))
    assert result.to_frame().columns.tolist() == [*data[0]]
    assert len(rendered(result.document(), "csv").splitlines()) >= 1 + len(data)


# A choice prints as what a pin reads


LARGE = ("gpt3-175b", "llama2-7b", "llama3-70b", "llama3-405b", "mixtral-8x7b", *TWINS)
"""Networks whose plans take long to print, or are like those of another."""


def read(plan: hypar.Plan, words: Mapping[tuple[str, int], str]) -> dict[tuple[str, int], dict[str, int]]:
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
