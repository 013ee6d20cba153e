"""Exports, read again by small parsers of each tool's format: they have the multiply-accumulates of the pieces."""

import csv
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hypar import load_model, plan_model
from hypar.errors import HyparError
from hypar.files.yaml_file import read_yaml
from hypar.network.graph import LayerGraph
from hypar.ops.nest import PHASES
from hypar.studies.pieces import Exported, export_plan
from tests.effort import crossed, late
from tests.kit import run
from tests.studies.test_pieces import randomly_cut
from tests.transformers import gpt

pytestmark = pytest.mark.usefixtures("folder")


MODELS = ("vgg16", "resnet50", "alexnet", "alexnet-2012", "mobilenet-v2")


def times_of(name: str) -> int:
    """How often a row counts, by its name."""
    found = re.search(r"-x(\d+)$", name)
    return int(found[1]) if found else 1


def scale_sim_rows(file: str) -> dict[str, int]:
    """Multiply-accumulates of each row, by the formulas of ``topo_calc_hyperparams``; every row ends in a comma."""
    head, *rows = Path(file).read_text().splitlines()
    assert head.split(", ")[0] == "Layer name"
    found = {}
    for row in rows:
        assert row.endswith(",")
        name, *texts = next(csv.reader([row.removesuffix(",")]))
        assert "DP" not in name
        height, width, filter_height, filter_width, channels, filters, stride = map(int, texts)
        assert filter_height <= height
        assert filter_width <= width
        places = math.ceil((height - filter_height + stride) / stride)
        places *= math.ceil((width - filter_width + stride) / stride)
        assert name not in found
        found[name] = places * filter_height * filter_width * channels * filters
    return found


def gemm_rows(file: str) -> dict[str, int]:
    head, *rows = Path(file).read_text().splitlines()
    assert head == "Layer, M, N, K,"
    return {row.split(",")[0]: math.prod(int(text) for text in row.split(",")[1:-1]) for row in rows}


def timeloop_problems(place: str) -> dict[str, int]:
    found = {}
    for file in sorted(Path(place).glob("*.yaml")):
        problem = read_yaml(file).data["problem"]
        shape, instance = problem["shape"], problem["instance"]
        assert problem["version"] == 0.4
        assert all(len(dim) == 1 for dim in shape["dimensions"])
        assert {*shape["dimensions"]} | {one["name"] for one in shape["coefficients"]} == {*instance}
        spaces = shape["data_spaces"]
        assert sum(space.get("read_write", False) for space in spaces) == 1
        used = {term[0] for space in spaces for dim in space["projection"] for term in dim}
        assert used == {*shape["dimensions"]}
        found[file.name] = math.prod(instance[dim] for dim in shape["dimensions"])
    return found


READERS = {"scale_sim": scale_sim_rows, "scale_sim_gemm": gemm_rows, "timeloop": timeloop_problems}


@crossed({"tool": READERS, "name": late(MODELS, "resnet50", "mobilenet-v2")})
def test_an_export_has_the_multiply_accumulates_of_every_layer(tool: str, name: str) -> None:
    """Rows by the devices that compute them, and by their times, add up to the whole layer in every phase."""
    graph, plan = randomly_cut(name, 1)
    found = export_plan(plan, "out", format=tool, model=graph)
    read = READERS[tool]("out")
    assert [entry.name for _, entry in found.entries] == [*read] or tool == "timeloop"
    assert {*read} == {entry.name for _, entry in found.entries}
    sums: dict[tuple[str, str], int] = {}
    for problem, entry in found.entries:
        assert entry.times == times_of(entry.name)
        assert read[entry.name] * entry.times == problem.macs
        key = problem.layer, problem.phase
        sums[key] = sums.get(key, 0) + problem.devices * times_of(entry.name) * read[entry.name]
    phases = ["forward"] if tool == "scale_sim" else [*PHASES]
    layers = [layer for layer in graph.layers if layer.weighted]
    assert sums == {(layer.name, phase): layer.macs(graph.batch) for layer in layers for phase in phases}


@pytest.mark.parametrize("tool", READERS)
def test_named_dims_are_those_of_products_of_matrices(tool: str) -> None:
    """A sequence counts among the places; an embedding multiplies nothing, so it is left out."""
    graph = gpt(batch=2)
    found = export_plan(plan_model(graph, levels=2), "out", format=tool, model=graph, phase="forward")
    read, sums = READERS[tool]("out"), dict[str, int]()
    for problem, entry in found.entries:
        count = problem.devices * entry.times * read[entry.name]
        sums[problem.layer] = sums.get(problem.layer, 0) + count
    layers = [layer for layer in graph.layers if layer.weighted and layer.name != "wte"]
    assert sums == {layer.name: layer.macs(graph.batch) for layer in layers}


def one_layer(**fields: Any) -> LayerGraph:
    conv = {"name": "DPconv", "op": "conv", "out_channels": 8, "kernel": 3, **fields}
    layers = [{"op": "input", "channels": 4, "height": 12, "width": 10}, conv]
    return load_model({"source": "made up", "batch": 4, "layers": layers})


def exported(graph: LayerGraph, tool: str, **asked: Any) -> Exported:
    return export_plan(plan_model(graph, levels=1, strategy="dp"), "out", format=tool, model=graph, **asked)


def test_groups_and_samples_are_times_of_a_row() -> None:
    exported(one_layer(groups=4), "scale_sim")
    assert Path("out").read_text().splitlines()[1] == "Dpconv-x8, 12, 10, 3, 3, 1, 2, 1,"
    exported(one_layer(groups=4), "scale_sim_gemm")
    assert Path("out").read_text().splitlines()[1:] == [
        "Dpconv-x4, 160, 2, 9,",
        "Dpconv-backward-x4, 160, 9, 2,",
        "Dpconv-gradient-x4, 9, 2, 160,",
    ]


def test_a_problem_of_timeloop_has_strides_dilations_and_groups() -> None:
    graph = one_layer(kernel=[3, 2], stride=[1, 2], dilation=[2, 1], groups=2)
    exported(graph, "timeloop")
    read = {file.name: read_yaml(file).data["problem"] for file in Path("out").iterdir()}
    sizes = {"C": 2, "M": 4, "R": 2, "S": 3, "N": 2, "P": 5, "Q": 8, "G": 2}
    factors = {"Wstride": 2, "Hstride": 1, "Wdilation": 1, "Hdilation": 2}
    assert all(problem["instance"] == sizes | factors for problem in read.values())
    results = {
        name: next(space["name"] for space in problem["shape"]["data_spaces"] if space.get("read_write"))
        for name, problem in read.items()
    }
    assert results == {
        "DPconv.yaml": "Outputs",
        "DPconv-backward.yaml": "Terms",
        "DPconv-gradient.yaml": "Weights",
    }
    inputs = next(space for space in read["DPconv.yaml"]["shape"]["data_spaces"] if space["name"] == "Inputs")
    assert inputs["projection"] == [
        [["N"]],
        [["C"]],
        [["R", "Wdilation"], ["P", "Wstride"]],
        [["S", "Hdilation"], ["Q", "Hstride"]],
        [["G"]],
    ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"stride": [1, 2]}, "the topology has one stride for height and width, see scale_sim_gemm"),
        ({"dilation": 2}, "the topology has no dilation, see scale_sim_gemm"),
    ],
)
def test_what_a_topology_has_no_words_for_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(HyparError) as refused:
        exported(one_layer(**fields), "scale_sim")
    assert str(refused.value) == f"format: DPconv cannot be expressed: {reason}; allowed: another format"
    assert len(exported(one_layer(**fields), "scale_sim_gemm").entries) == 3


export = partial(run, "export", "plan.json")


def test_one_file_is_printed_on_stdout_and_a_folder_is_not() -> None:
    plan_model("lenet-c", levels=1, strategy="dp").write("plan.json")
    assert export("-o", "out.csv", "--layer", "conv*").exit_code == 0
    printed = export("-o", "-", "--layer", "conv*")
    assert (printed.exit_code, printed.stdout) == (0, Path("out.csv").read_text())
    assert printed.stderr.startswith("left out: conv1-backward, ")
    refused = export("-o", "-", "--format", "timeloop")
    line = "error: output: found -, and timeloop has several files; allowed: a folder\n"
    assert (refused.exit_code, refused.stdout, refused.stderr) == (3, "", line)
    assert export("-o", "-", "--json").exit_code == 3
    assert not Path("-").exists()
