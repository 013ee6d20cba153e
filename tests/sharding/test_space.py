import math
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import LayerGraph, load_model, plan_model
from hypar.errors import OptionError
from hypar.files.yaml_file import parse_yaml
from hypar.network.graph import build_graph
from hypar.network.nodes import PlanGraph, PlanNode
from hypar.ops.dims import CUTTABLE
from hypar.sharding.dims import dim_of
from hypar.sharding.placement import ALONE, WHOLE, Choice, cut, digits_of, grid, numbered
from hypar.sharding.space import parse_space
from tests.amounts import amounts
from tests.effort import examples

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
def graph() -> PlanGraph:
    return build_graph(parse_yaml(TEXT, Path("net.yaml")), "net").contracted


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
def test_choices_of_each_kind_of_layer(graph: PlanGraph, space: str, dims: list[str]) -> None:
    for layer, expected in zip(graph.layers, dims, strict=True):
        wanted = [cut(dim, 2) for dim in expected.removesuffix("+whole").split()]
        assert list(parse_space(space).choices(layer, 2)) == wanted + [WHOLE] * expected.endswith("+whole")


def test_every_word_names_one_dim() -> None:
    assert [dim_of(word, "here") for word in ("dp", "I", "n", "mp", "II", "III", "c", "h", "w", "g")] == [
        "batch", "batch", "batch", "in_channels", "in_channels", "out_channels", "out_channels", "height", "width",
        "groups",
    ]  # fmt: skip
    assert [dim_of(dim, "here") for dim in CUTTABLE] == list(CUTTABLE)


SINGLE = ("batch", "in_channels", "out_channels", "height", "width")
DEEPA = "batch*out_channels*height*width"


@cache
def node(name: str, network: str = "vgg16") -> PlanNode:
    """A layer, join or pool of a network."""
    graph: LayerGraph = load_model(network)
    return next(layer for layer in graph.operators.layers if layer.name == name)


def degrees(space: str, layer: PlanNode, ways: int, *, idle: bool = False) -> list[dict[str, int]]:
    return [dict(choice.degrees) for choice in parse_space(space).choices(layer, ways, idle=idle)]


class TestGrids:
    def test_a_degree_above_the_size_is_left_out_and_why_is_said(self) -> None:
        pool5, space = node("pool5"), parse_space("batch*height*width")
        assert max(one.get("height", 1) for one in degrees("batch*height*width", pool5, 16, idle=True)) == 4
        assert space.left_out(pool5, 16) == tuple(
            f"{dim}: 7 elements, so no degree of 8, 16" for dim in ("height", "width")
        )
        assert space.left_out(node("conv1_1"), 16) == ()
        assert parse_space("batch,height").left_out(pool5, 16) == ()
        assert parse_space("batch*height").left_out(node("fc1"), 16) == ()

    def test_papers_words_and_names_of_strategies_are_read(self) -> None:
        assert parse_space("n*c*h*w").by_op[""] == (tuple(DEEPA.split("*")),)
        assert parse_space("dp*mp,III").by_op[""] == (("batch", "in_channels"), ("out_channels",))
        plan = plan_model("lenet-c", array=[4], space="deepa")
        assert plan.space == DEEPA
        assert plan_model("lenet-c", array=[4], space="deepa divisors").space == f"{DEEPA} divisors"

    def test_grouped_convolutions_are_cut_between_groups_where_channels_are(self, graph: PlanGraph) -> None:
        grouped, depthwise = graph.layers[:2]
        assert degrees("batch*in_channels", grouped, 2) == [{"batch": 2}, {"in_channels": 2}, {"groups": 2}]
        assert degrees("batch*out_channels", depthwise, 8)[-1] == {"groups": 8}
        assert degrees("batch*height", grouped, 2) == [{"batch": 2}, {"height": 2}]
        assert {"batch": 2, "groups": 2} in degrees("batch*groups", grouped, 4)

    @given(
        dims=st.lists(st.sampled_from(SINGLE), min_size=2, max_size=5, unique=True),
        ways=st.sampled_from([2, 3, 4, 6, 8, 9, 12, 16, 18, 32]),
        idle=st.booleans(),
        divisors=st.booleans(),
        name=st.sampled_from(["conv1", "layer2.0.conv1", "layer4.1.add", "fc", "maxpool"]),
    )
    @settings(max_examples=examples(80), deadline=None)
    def test_choices_are_every_grid_that_fits(
        self, dims: list[str], ways: int, idle: bool, divisors: bool, name: str
    ) -> None:
        layer = node(name, "resnet18")
        try:
            choices = parse_space("*".join(dims) + " divisors" * divisors).choices(layer, ways, idle=idle)
        except OptionError:
            assert not {*dims} & {*layer.nest.sizes}
            return
        sizes = {**layer.nest.sizes}
        open_dims = [dim for dim in dims if dim in sizes]
        if not layer.weighted and {"in_channels", "out_channels"} & {*dims}:
            open_dims.append("channels")
        grids: set[Choice] = {ALONE}
        for dim in open_dims:
            own = [degree for degree in range(1, min(ways, sizes[dim]) + 1) if ways % degree == 0]
            own = [degree for degree in own if divisors or degree in {1, 2, 4, 8, 16, 32, ways}]
            grids |= {
                grid({**dict(one.degrees), dim: degree})
                for one in grids
                for degree in own
                if ways % (one.devices(ways) * degree) == 0
            }
        most = max(one.devices(ways) for one in grids)
        expected = {one for one in grids if idle or one.devices(ways) == most}
        assert len({*choices}) == len(choices)
        assert {*choices} - {WHOLE} == expected
        assert (WHOLE in choices) == (not layer.weighted and "in_channels" in dims)


# Numberings of flat levels


DIMS = ("batch", "in_channels", "out_channels")


def test_numberings_without_common_digits_are_refused() -> None:
    with pytest.raises(ValueError, match="end at 2 and at 3"):
        digits_of([numbered([("batch", 2), ("height", 3)]), numbered([("batch", 3), ("height", 2)])], 6)


@given(st.lists(st.lists(st.sampled_from(DIMS), min_size=3, max_size=3), min_size=4, max_size=4))
def test_a_flat_level_moves_what_the_levels_of_its_digits_move(orders: list[list[str]]) -> None:
    graph = load_model("sfc").contracted
    for convention in ("moved", "fused"):
        flat = [(numbered((dim, 2) for dim in own),) for own in orders]
        levels = [tuple(cut(dim, 2) for dim in own) for own in orders]
        one = math.fsum(own.elements for own in amounts(graph, (8,), flat, convention))
        several = math.fsum(own.elements for own in amounts(graph, (2, 2, 2), levels, convention))
        assert one == pytest.approx(several)
