from __future__ import annotations

from pathlib import Path

import pytest

from hypar.documents import parse_yaml
from hypar.graph import ContractedGraph, build_graph
from hypar.placement import WHOLE, cut, partial_results, placement
from hypar.space import parse_space
from hypar.spec import parse_spec
from hypar.words import CUTTABLE, dim_of, vocabulary

TEXT = """
source: a grouped and a depthwise convolution, a join, a linear layer
batch: 4
layers:
  - {op: input, channels: 4, height: 4, width: 4}
  - {name: grouped, op: conv, out_channels: 8, kernel: 1, groups: 2}
  - {name: depthwise, op: conv, out_channels: 8, kernel: 3, padding: 1, groups: 8}
  - {name: sum, op: add, inputs: [grouped, depthwise]}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 10}
"""


@pytest.fixture
def graph() -> ContractedGraph:
    return build_graph(parse_spec(parse_yaml(TEXT, Path("net.yaml")), "net")).contracted


@pytest.mark.parametrize(
    ("space", "dims"),
    [
        ("batch", ["batch", "batch", "batch+whole", "batch"]),
        ("mp", ["in_channels groups", "groups", "channels+whole", "in_channels"]),
        ("batch,in_channels", ["batch in_channels groups", "batch groups", "batch channels+whole", "batch in_channels"]),
        ("conv:batch linear:in_channels", ["batch", "batch", "batch channels+whole", "in_channels"]),
        ("conv:in_channels batch", ["in_channels groups", "groups", "batch channels+whole", "batch"]),
        ("all", ["batch in_channels out_channels height width groups", "batch height width groups",
                 "batch height width channels+whole", "batch in_channels out_channels"]),
    ],
)  # fmt: skip
def test_choices_of_each_kind_of_layer(graph: ContractedGraph, space: str, dims: list[str]) -> None:
    for layer, expected in zip(graph.layers, dims, strict=True):
        wanted = [cut(dim, 2) for dim in expected.removesuffix("+whole").split()]
        assert list(parse_space(space).choices(layer, 2)) == wanted + [WHOLE] * expected.endswith("+whole")


def test_groups_leave_nothing_partial_and_line_up_with_channels(graph: ContractedGraph) -> None:
    einsum = graph.layers[0].einsum
    assert partial_results(einsum, "groups") == ()
    assert {str(placement(einsum, "groups", tensor)) for tensor in ("input", "output")} == {"S(channels)"}
    assert str(placement(einsum, "in_channels", "input")) == "S(channels_in_group)"


def test_every_word_names_one_dim() -> None:
    assert [dim_of(word, "here") for word in ("dp", "I", "n", "mp", "II", "III", "c", "h", "w", "g")] == [
        "batch", "batch", "batch", "in_channels", "in_channels", "out_channels", "out_channels", "height", "width",
        "groups",
    ]  # fmt: skip
    assert [dim_of(dim, "here") for dim in CUTTABLE] == list(CUTTABLE)


def test_each_space_is_shown_in_its_papers_words() -> None:
    assert vocabulary({"batch", "in_channels"}) == 0
    assert vocabulary({"batch", "in_channels", "out_channels", "channels"}) == 1
    assert vocabulary({"batch", "height"}) == 2
