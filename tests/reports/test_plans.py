"""The documents of plans and scores: the answer first, equal layers folded, each word said once."""

import math
import re
from itertools import chain
from typing import Any

import pytest

import hypar
from hypar.document import Document, Table
from hypar.machine.load import load_machine
from hypar.reports.of.plan import plan_document
from hypar.reports.words import MOST_ROWS, cells_of, fold
from tests.kit import known
from tests.transformers import gpt, mixtral


def words_by_label(document: Document) -> dict[str, str]:
    return {note.label: note.text for note in document.notes}


def layers_table(document: Document) -> Table:
    return document.tables[1]


@pytest.mark.parametrize("model", ["resnet50", "inception-v3", "gpt2", "unet", "llama3-8b"])
def test_a_folded_table_has_every_layer_once_and_the_same_sums(model: str) -> None:
    plan = hypar.plan_model(model, levels=3, strategy="accpar", convention="paper")
    cell = cells_of(plan)
    keys = {layer: tuple(cell(split, layer) for split in plan.splits) for layer in plan.layers}
    parts = fold(plan.layers, keys.__getitem__)
    assert len(parts) <= MOST_ROWS
    assert sorted(chain(*(part.layers for part in parts))) == sorted(plan.layers)
    assert all(len({keys[layer] for layer in part.layers}) == 1 for part in parts)
    few, all_ = (layers_table(plan_document(plan, full=full)) for full in (False, True))
    assert len(few.rows) < len(all_.rows) == len(plan.layers)
    for table in (few, all_):
        assert math.isclose(math.fsum(row["cost"] for row in table.rows), plan.cost.value)


@pytest.mark.parametrize(("network", "strategy", "array", "said"), [
    (gpt, "dp", (2, 4), "dp 8"),
    (gpt, "megatron", (4,), "tp 4"),
    (gpt, "megatron", (2, 8), "dp 2, tp 8"),
    (gpt, "ring", (4,), "cp 4"),
    (gpt, "3d", ("s2", 4), "pp 2, tp 4"),
    (mixtral, "expert", (4,), "ep 4"),
    (gpt, "dp", ("s2",), "pp 2"),
])  # fmt: skip
def test_a_plan_of_a_network_over_tokens_says_the_degrees_of_parallelism(
    network: Any, strategy: str, array: tuple[int | str, ...], said: str
) -> None:
    graph = network(batch=16, blocks=2)
    plan = hypar.plan_model(graph, strategy=strategy, array=array, hardware="h100-8x")
    found = words_by_label(plan_document(plan))["parallel"]
    assert re.fullmatch(rf"{said}( in \d\d% of the multiplications)?", found)


def test_uneven_splits_have_no_degrees_of_parallelism() -> None:
    plan = hypar.plan_model(gpt(batch=16), hardware="tpu-v2-v3")
    assert "parallel" not in words_by_label(plan_document(plan))


UNFIT = r"does not fit \(.*\)"
DP = r"\S+x faster than dp"
VGG: dict[str, Any] = {"model": "vgg16", "levels": 4, "hardware": "hmc"}
LENET: dict[str, Any] = {"model": "lenet-c", "levels": 2, "hardware": "hmc"}


@pytest.mark.parametrize(("asked", "tone", "said"), [
    (VGG, "good", rf"vgg16 on hmc: .*fits, {DP}"),
    (VGG | {"batch": 1664}, "warn", rf".*barely fits \(7\.91 GB of 8\.00 GB\), {DP}, which does not fit"),
    (VGG | {"batch": 1664, "strategy": "dp"}, "bad", r".*does not fit \(9\.18 GB of 8\.00 GB\)"),
    (VGG | {"batch": 4096}, "bad", rf".*{UNFIT}, {DP}, which does not fit either"),
    # A plan with pins is not compared with dp.
    (LENET | {"pins": ["fc1=dp"]}, "good", ".*a step, fits"),
])  # fmt: skip
def test_the_title_says_what_fits(asked: dict[str, Any], tone: str, said: str) -> None:
    document = hypar.plan_model(**asked).document()
    assert document.tone == tone
    assert re.fullmatch(said, document.title)
    assert re.search(r": \S+ [mu]?s a step, ", document.title)


@pytest.mark.parametrize(("machine", "asked", "said"), [
    ("hmc", {"levels": 4}, False), ("tpu-v2", {"levels": 4}, True), ("tpu-v2", {"array": [16]}, False),
    ("h100-8x", {"array": [8, 8]}, False), ("h100-8x", {"levels": 6}, True),
])  # fmt: skip
def test_an_array_of_another_form_is_named_where_it_matters(
    machine: str, asked: dict[str, Any], said: bool
) -> None:
    """Where the note stands, the one level takes another time; on an H tree both take the same."""
    one = {"array": [math.prod(asked.get("array", [2 ** asked.get("levels", 0)]))]}
    plans = [hypar.plan_model("lenet-c", strategy="dp", hardware=machine, **own) for own in (asked, one)]
    times = {f"{plan.score.time_s:.9g}" for plan in plans if plan.score}
    assert ("array" in words_by_label(plans[0].document())) == said
    assert len(times) == 2 or not said


STAGED: dict[str, Any] = {"model": "sfc", "levels": 1, "hardware": "hmc", "stages": 2}
MIXED: dict[str, Any] = {"model": "lenet-c", "hardware": "tpu-v2-v3"}


@pytest.mark.parametrize(("asked", "key", "groups", "alone"), [
    (STAGED, "stage", [1, 2], set()), (MIXED, "group", ["tpu-v2", "tpu-v3"], {"all"}),
])  # fmt: skip
def test_rows_and_data_frames_say_the_group_or_the_stage(
    asked: dict[str, Any], key: str, groups: list[Any], alone: set[str]
) -> None:
    document = hypar.plan_model(**asked).document()
    assert [row[key] for row in document.tables[2].rows] == groups
    assert not any(row["said"] for row in document.tables[2].rows)
    assert {row[key] for row in document.records()} == {*groups} | alone


def test_data_frames_have_a_row_for_each_layer_and_level() -> None:
    plan = hypar.plan_model("lenet-c", levels=2)
    rows = plan.document().records()
    assert [(row["layer"], row["level"], row["dim"]) for row in rows] == [
        (layer, f"H{level + 1}", dim) for layer in plan.layers for level, dim in enumerate(plan.dims(layer))
    ]
    assert sum(row["cost"] for row in rows) == plan.cost.value


@pytest.mark.parametrize("asked", [
    {"model": "unet", "array": [4, 2], "space": "batch*out_channels"},
    {"model": "unet", "levels": 2, "space": "batch,out_channels,channels"},
    {"model": "resnet18", "array": [4, 2], "space": "all"},
    {"model": "llama3-8b", "array": [8], "batch": 8},
])  # fmt: skip
def test_the_legend_explains_each_word_once(asked: dict[str, Any]) -> None:
    plan = hypar.plan_model(strategy="optimal", **asked)
    said = re.findall(r"(\w+) cuts ([\w' ]+)", words_by_label(plan_document(plan))["choices"])
    assert len({word for word, _ in said}) == len(said) == len({place for _, place in said})


def test_a_plan_that_is_read_has_the_document_of_its_file_alone(tmp_path: Any) -> None:
    plan = hypar.plan_model(**LENET)
    plan.write(tmp_path / "plan.json")
    read = hypar.read_plan(tmp_path / "plan.json").document()
    assert read.records() == plan.document().records()
    assert {*read.notes} - {*plan.document().notes} <= {note for note in read.notes if note.label == "time"}


@pytest.mark.parametrize("stages", [None, 2])
def test_chunks_have_rows_with_and_without_stages(stages: int | None) -> None:
    asked: dict[str, Any] = {"levels": 1, "stages": stages, "strategy": "dp", "chunks": "layers"}
    plan = hypar.plan_model("lenet-c", hardware=load_machine("hmc", {"overlap": "full"}), **asked)
    (table,) = [own for own in plan.document().tables if own.shown and own.shown[0].key == "chunk"]
    assert len(table.rows) == len(known(plan.chunks).layers) > 1
    assert all(row["ready_s"] <= row["start_s"] < row["end_s"] for row in table.rows)
