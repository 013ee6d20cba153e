"""Latent attention and experts that are chosen by groups: one network, however it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

import hypar
from hypar.importers.filled import filled
from hypar.importers.formats import import_network
from hypar.importers.trace import Node
from tests.importers import latent
from tests.importers.plans import assert_one_network, importable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch, and a working folder with the networks."""
    pytest.importorskip("torch", reason="PyTorch is an extra")
    importable(tmp_path, monkeypatch, hypar_latent=latent.TORCH)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("build", ["build", pytest.param("written", marks=pytest.mark.slow)])
def test_a_module_is_the_network_by_hand(build: str) -> None:
    found = import_network("torch", f"hypar_latent:{build}", [(6, 32)])
    assert_one_network(found, hypar.load_model(yaml.safe_load(latent.HAND), name="latent"), space="")
    assert "inputs: [attention_q, attention_kv_b, " in found.text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_features_that_anything_else_joins_stay_opaque() -> None:
    found = import_network("torch", "hypar_latent:joined", [(6, 32)], partial=True)
    assert [entry["op"] for entry in found.content["layers"]] == [
        "input",
        "linear",
        "linear",
        "opaque",
        "linear",
    ]


def parts(*starts: int, kind: str = "new_empty", read: str = "") -> list[Node]:
    """A tensor of 6 columns that is filled from some columns on, two at a time."""
    nodes = [Node(kind=kind, operands={"self": ("x",)}, attributes={}, result="made")]
    for start in starts:
        of_part = {"dim": 1, "start": start, "end": start + 2}
        nodes += [
            Node(kind="slice", operands={"self": ("made",)}, attributes=of_part, result=f"part{start}"),
            Node(
                kind="copy",
                operands={"self": (f"part{start}",), "src": (f"value{start}",)},
                attributes={},
                result=f"copy{start}",
            ),
        ]
    more = [Node(kind="relu", operands={"self": (read,)}, attributes={}, result="more")] if read else []
    return [*nodes, *more, Node(kind="relu", operands={"self": ("made",)}, attributes={}, result="last")]


SHAPES = {"made": (4, 6), **{f"part{start}": (4, 2) for start in range(6)}}


def test_a_tensor_that_is_filled_by_parts_is_a_concatenation() -> None:
    (joined, last) = filled(parts(2, 4, 0), SHAPES)
    assert (joined.kind, joined.operands, joined.attributes, joined.result) == (
        "cat",
        {"tensors": ("value0", "value2", "value4")},
        {"dim": 1},
        "made",
    )
    assert last.result == "last"


@pytest.mark.parametrize(
    "nodes",
    [parts(0, 2), parts(0, 3), parts(0, 2, 4, kind="relu"), parts(0, 2, 4, read="part2"), parts()],
    ids=["not all", "a gap", "not empty", "a part is read", "nothing"],
)
def test_any_other_tensor_stays_as_it_is(nodes: list[Node]) -> None:
    assert filled(nodes, SHAPES) == nodes
