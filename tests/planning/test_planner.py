from __future__ import annotations

from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_machine, load_model, plan_model
from hypar.errors import OptionError, TableLimitError, UnknownNameError
from hypar.files.yaml_file import parse_yaml
from hypar.network.build import build_graph
from hypar.network.spec.load import parse_spec
from hypar.registry import plugin_names
from hypar.sharding.placement import WHOLE, Choice, cut
from hypar.sharding.space import parse_space
from hypar.solve.solvers.base import load_solver
from hypar.studies import notes as remarks
from hypar.studies.notes import finer_than_whole, notes
from tests import oracle
from tests.effort import NETWORKS, TWINS, crossed, examples, late

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.planning.request import Request

SEARCHES = plugin_names("searches")

RESIDUAL = """
source: a residual block, a branch that is joined by channels, and a global pool
batch: 8
layers:
  - {op: input, channels: 2, height: 6, width: 6}
  - {name: stem, op: conv, out_channels: 4, kernel: 3, padding: 1}
  - {name: left, op: conv, out_channels: 4, kernel: 3, padding: 1, inputs: stem}
  - {name: sum, op: add, inputs: [stem, left]}
  - {name: right, op: conv, out_channels: 2, kernel: 1, inputs: sum}
  - {name: both, op: concat, inputs: [sum, right]}
  - {name: gap, op: pool, mode: average, window: global}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 3}
"""

SKIP = """
source: a skip around one convolution
batch: 4
layers:
  - {op: input, channels: 2, height: 8, width: 4}
  - {name: stem, op: conv, out_channels: 4, kernel: 3, padding: 1, stride: [2, 1]}
  - {name: side, op: conv, out_channels: 4, kernel: [5, 3], padding: [2, 1]}
  - {name: sum, op: add, inputs: [stem, side]}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 6}
"""


@cache
def graph(name: str) -> LayerGraph:
    return load_model(name)


@cache
def residual() -> LayerGraph:
    return build_graph(parse_spec(parse_yaml(RESIDUAL, Path("residual.yaml")), "residual"))


def chosen(plan: Plan) -> list[list[Choice]]:
    """A plan's choices as the oracle takes them."""
    return [[WHOLE if dim is None else cut(dim, 2) for dim in plan.dims(layer)] for layer in plan.layers]


@pytest.mark.parametrize("name", late(NETWORKS, "inception-v3", "mobilenet-v2", "resnet50", *TWINS))
def test_a_greedy_plan_states_the_volume_at_every_depth(name: str) -> None:
    """The first levels of a deep plan are the plan of fewer levels, so one plan is held against ten volumes."""
    deep, flat = (plan_model(graph(name), levels=levels) for levels in (10, 4))
    assert [split.choices for split in deep.splits[:4]] == [split.choices for split in flat.splits]
    costs = accumulate(sum(split.costs.values()) for split in deep.splits)
    assert [*costs] == [*accumulate(oracle.volumes(graph(name), chosen(deep)))]


@crossed(
    {
        "strategy": ["dp", "mp", "owt", "accpar"],
        "name": late(NETWORKS, *TWINS),
    }
)
def test_every_strategy_states_the_volume_of_its_plan(name: str, strategy: str) -> None:
    plan = plan_model(graph(name), levels=3, strategy=strategy, convention="paper")
    assert plan.cost.value == oracle.volume(graph(name), chosen(plan))


@crossed(
    {
        "strategy,levels": [("hypar", 2), ("hypar", 5), ("accpar", 2), ("optimal", 2)],
        "name": late(NETWORKS, "resnet152", "inception-v3", *TWINS),
    }
)
def test_joint_never_costs_more_than_greedy(name: str, strategy: str, levels: int) -> None:
    greedy, joint = (
        plan_model(graph(name), levels=levels, strategy=strategy, search=search).cost.value
        for search in ("greedy", "joint")
    )
    assert joint <= greedy


@pytest.mark.parametrize("strategy", ["hypar", "accpar", "optimal"])
def test_optimal_plans_of_vgg16_state_their_volume_with_halo(strategy: str) -> None:
    plan = plan_model(graph("vgg16"), levels=3, strategy=strategy, search="joint", convention="paper")
    assert plan.cost.value == pytest.approx(float(oracle.volume(graph("vgg16"), chosen(plan))), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "space", "levels"),
    [(RESIDUAL, "batch,in_channels,out_channels", 1), (SKIP, "batch,in_channels", 2), (SKIP, "all", 1)],
)
def test_joint_search_of_a_branching_network_equals_counting_everything_out(
    text: str, space: str, levels: int
) -> None:
    network = build_graph(parse_spec(parse_yaml(text, Path("a.yaml")), "a"))
    options = [parse_space(space).choices(layer, 2) for layer in network.contracted.layers]
    plan = plan_model(network, levels=levels, space=space, search="joint")
    assert plan.cost.value == oracle.best_volume(network, options, levels)


@settings(max_examples=examples(60))
@given(data=st.data(), levels=st.integers(1, 3))
def test_the_cost_of_any_choices_is_their_volume(data: st.DataObject, levels: int) -> None:
    """Every choice pinned at random, halo, joins and a global pool included."""
    pins = []
    for layer in residual().contracted.layers:
        options = parse_space("all").choices(layer, 2)
        for level in range(levels):
            dim = next(iter(data.draw(st.sampled_from(options)).divided), None)
            pins.append(f"{layer.name}@{level}={dim or 'rep'}")
    plan = plan_model(residual(), levels=levels, space="all", pins=pins)
    assert plan.cost.value == pytest.approx(float(oracle.volume(residual(), chosen(plan))), rel=1e-12)
    assert plan.cost.value == pytest.approx(sum(sum(split.costs.values()) for split in plan.splits))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", ["resnet50", "inception-v3", "vgg16"])
def test_the_same_question_has_the_same_bytes_for_an_answer(name: str, search: str) -> None:
    plans = {
        plan_model(load_model(name), levels=2, strategy="accpar", search=search).to_json() for _ in range(2)
    }
    assert len(plans) == 1


@pytest.mark.parametrize("name", ["resnet18", "resnet152", "googlenet", "inception-v3"])
def test_a_branching_network_is_not_flattened(name: str) -> None:
    cut = graph(name).contracted
    assert len(cut.tensors) > len(cut.layers) - 1
    assert any(layer.join for layer in cut.layers)
    assert plan_model(graph(name), levels=1).solver == "elimination"


def test_a_network_of_one_layer_and_a_batch_of_one_are_planned() -> None:
    assert plan_model(graph("sfc"), levels=1, batch=1).dims("fc2") == ("in_channels",)


def test_four_way_levels_receive_three_quarters() -> None:
    """dp over one 4-way level: each device receives 2 * 3/4 of every weight."""
    plan = plan_model(graph("lenet-c"), array=[4], strategy="dp")
    weights = sum(layer.einsum.elements("weight") for layer in graph("lenet-c").contracted.layers)
    assert plan.cost.value == 4 * 2 * 0.75 * weights * 4
    assert plan.splits[0].shares == [0.25] * 4


def test_half_precision_moves_half_the_bytes() -> None:
    text = RESIDUAL.replace("batch: 8", "batch: 8\ndtype: bfloat16")
    half = build_graph(parse_spec(parse_yaml(text, Path("half.yaml")), "half"))
    assert plan_model(half).cost.value * 2 == plan_model(residual()).cost.value


def test_a_space_can_be_named_after_a_strategy_and_a_solver_chosen() -> None:
    named = plan_model(graph("lenet-c"), levels=2, space="accpar", solver="elimination")
    assert (named.space, named.solver) == ("batch,in_channels,out_channels", "elimination")
    assert named.cost.value == plan_model(graph("lenet-c"), levels=2, strategy="accpar").cost.value


def test_uniform_is_the_better_of_all_dp_and_all_mp_and_claims_no_optimum() -> None:
    plan = plan_model(graph("sfc"), levels=1, solver="uniform")
    single = [plan_model(graph("sfc"), levels=1, strategy=name).cost.value for name in ("dp", "mp")]
    assert plan.cost.value == min(single)
    assert plan.claim.startswith("not optimal")


@pytest.mark.parametrize(
    ("asked", "claim"),
    [
        ({"strategy": "dp"}, "fixed: the space (batch) leaves every layer one choice"),
        (
            {"strategy": "hypar", "pins": ["*=mp"]},
            "fixed: the space (batch,in_channels) and 1 pin leave every layer",
        ),
        (
            {"solver": "uniform", "search": "joint"},
            "not optimal: solver 'uniform' is not exact; joint search over (batch,in_channels), one dim a level",
        ),
        (
            {"strategy": "hypar"},
            "greedy: each level is optimal given the levels above it, over (batch,in_channels)",
        ),
        ({"strategy": "optimal", "levels": 1}, "optimal, all levels jointly, over (all), one dim a level"),
        ({"strategy": "hypar", "pins": ["fc1=dp"]}, "over (batch,in_channels) and 1 pin, one dim a level"),
    ],
)
def test_a_plan_says_what_it_is_optimal_over(asked: dict[str, object], claim: str) -> None:
    assert claim in plan_model(graph("lenet-c"), **asked).claim  # type: ignore[arg-type]


def test_a_plan_is_only_fixed_where_its_joins_are_too() -> None:
    """Cut in one dim everywhere, a residual network still has its joins to search over."""
    greedy, joint = (
        plan_model(graph("resnet18"), levels=3, space="out_channels", search=search)
        for search in ("greedy", "joint")
    )
    assert greedy.cost.value > joint.cost.value
    assert greedy.claim.startswith("greedy: ")


def test_one_solver_serves_all_levels_even_where_one_level_is_pinned() -> None:
    plan = plan_model(graph("resnet18"), levels=4, pins=["*@H1=batch"])
    assert plan.solver == "elimination"
    assert plan.cost.value == oracle.volume(graph("resnet18"), chosen(plan))


def test_a_pool_that_reaches_over_the_image_contracts_it_as_a_global_one() -> None:
    text = RESIDUAL.replace("mode: average, window: global", "mode: average, kernel: 6")
    pooled = build_graph(parse_spec(parse_yaml(text, Path("a.yaml")), "a"))
    asked = {"levels": 1, "space": "all", "pins": ["both=h", "fc=batch"]}
    assert plan_model(pooled, **asked).cost.value == plan_model(residual(), **asked).cost.value  # type: ignore[arg-type]


def test_a_joint_search_by_a_named_solver_that_does_not_fit_says_how_large_it_is() -> None:
    with pytest.raises(TableLimitError) as error:
        plan_model(graph("resnet50"), levels=10, strategy="accpar", search="joint", solver="elimination")
    assert error.value.entries > error.value.limit
    assert f"{error.value.entries:,} entries" in str(error.value)
    assert "solver 'bounded' says how far from the optimum it may be" in str(error.value)


def test_ten_levels_of_three_types_fit_on_a_chain() -> None:
    joint, greedy = (
        plan_model(graph("lenet-c"), levels=10, strategy="accpar", search=search)
        for search in ("joint", "greedy")
    )
    assert joint.cost.value < greedy.cost.value
    assert joint.cost.value == oracle.volume(graph("lenet-c"), chosen(joint))


class TestPins:
    def test_a_pin_holds_and_the_rest_is_planned_around_it(self) -> None:
        free = plan_model(graph("vgg16"), levels=2)
        held = plan_model(graph("vgg16"), levels=2, pins=["fc1@H2=dp"])
        assert free.dims("fc1") == ("in_channels", "in_channels")
        assert held.dims("fc1") == ("in_channels", "batch")
        assert held.pins == ["fc1@H2=batch"]
        assert held.cost.value > free.cost.value

    def test_a_pattern_holds_many_and_the_later_pin_wins(self) -> None:
        plan = plan_model(graph("lenet-c"), levels=1, pins=["conv*=III", "conv2=II"])
        assert [plan.dims(layer)[0] for layer in ("conv1", "conv2")] == ["out_channels", "in_channels"]

    def test_a_join_can_be_held(self) -> None:
        assert plan_model(residual(), levels=1, pins=["sum=mp"]).dims("sum") == ("channels",)
        assert plan_model(residual(), levels=1, pins=["sum=rep"]).dims("sum") == (None,)

    @pytest.mark.parametrize(
        ("pin", "match"),
        [
            ("fc1", "not a pin"),
            ("=dp", "not a pin"),
            ("fc9=dp", "did you mean 'fc2'"),
            ("fc1@H9=dp", "allowed: H1 to H2, or 0 to 1"),
            ("fc1@-1=dp", "found level '-1'"),
            ("fc1=sideways", "found 'sideways'"),
            ("fc1=h", "no such choice; allowed: batch, in_channels, out_channels"),
            ("fc1=rep", "no such choice"),
            ("conv1=kernel_height", "found 'kernel_height'"),
        ],
    )
    def test_a_bad_pin_is_refused(self, pin: str, match: str) -> None:
        with pytest.raises(OptionError, match=match):
            plan_model(graph("lenet-c"), levels=2, pins=[pin])


class TestOptions:
    @pytest.mark.parametrize("levels", [0, -1, 21, 40, True, 2.0])
    def test_levels(self, levels: int) -> None:
        with pytest.raises(OptionError, match="levels"):
            plan_model(graph("sfc"), levels=levels)

    @pytest.mark.parametrize("array", [[], [1, 2], [2, -2], [2**21], [2] * 21])
    def test_array(self, array: list[int]) -> None:
        with pytest.raises(OptionError, match="array"):
            plan_model(graph("sfc"), array=array)

    def test_levels_and_array_exclude_each_other(self) -> None:
        with pytest.raises(OptionError, match="one of the two"):
            plan_model(graph("sfc"), levels=2, array=[2, 2])

    @pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), 1e300])
    def test_inter_weight(self, weight: float) -> None:
        with pytest.raises(OptionError, match="inter-weight"):
            plan_model(graph("sfc"), inter_weight=weight)

    @pytest.mark.parametrize("batch", [0, -4, 2**25, True])
    def test_batch(self, batch: int) -> None:
        with pytest.raises(OptionError, match="batch"):
            plan_model(graph("sfc"), batch=batch)

    @pytest.mark.parametrize(
        "space", ["sideways", "", ":batch:", "conv:", "rep", "batch,rep", "conv:dp conv:mp"]
    )
    def test_space(self, space: str) -> None:
        with pytest.raises(OptionError, match=r"space|no dim"):
            plan_model(graph("sfc"), space=space or " ")

    def test_a_space_without_a_dim_of_some_layer(self) -> None:
        with pytest.raises(OptionError, match="no dim of linear 'fc1'; allowed: batch"):
            plan_model(graph("lenet-c"), space="height")

    @pytest.mark.parametrize("part", ["strategy", "search", "solver", "cost"])
    def test_names(self, part: str) -> None:
        with pytest.raises(UnknownNameError, match=f"no {part} 'nothing'"):
            plan_model(graph("sfc"), **{part: "nothing"})  # type: ignore[arg-type]

    def test_an_op_of_a_space(self) -> None:
        with pytest.raises(UnknownNameError, match=r"no op 'convolution'.*did you mean 'conv'"):
            plan_model(graph("sfc"), space="convolution:batch linear:batch")


class TestRemarks:
    def test_the_joint_optimum_beside_a_greedy_plan(self) -> None:
        plan = plan_model(graph("lenet-c"), levels=4, strategy="accpar")
        assert "the joint optimum is 5.30% lower: 14.6 MB" in list(notes(plan, graph("lenet-c")))

    def test_no_lower_optimum(self) -> None:
        assert "the joint optimum is no lower" in list(notes(plan_model(graph("sfc")), graph("sfc")))

    def test_an_optimum_that_is_not_cheap_to_know(self) -> None:
        plan = plan_model(graph("resnet152"), levels=8, strategy="accpar")
        assert any("expensive to compute" in line for line in notes(plan, graph("resnet152")))

    def test_what_pins_cost(self) -> None:
        plan = plan_model(graph("sfc"), levels=1, pins=["fc2=dp"])
        free = plan_model(graph("sfc"), levels=1)
        (line,) = [line for line in notes(plan, graph("sfc")) if "pins" in line]
        assert f"{plan.cost.value / free.cost.value - 1:+.2%}" in line

    def test_pins_that_let_a_search_be_exact_are_not_measured_by_one_that_is_not(self) -> None:
        pins = [f"*@H{level}=batch" for level in range(2, 11)]
        plan = plan_model(
            graph("unet"), levels=10, search="joint", strategy="optimal", convention="fused", pins=pins
        )
        assert load_solver(plan.solver).exact
        (line,) = [line for line in notes(plan, graph("unet")) if "pins" in line]
        assert line == "the cost of the pins is unknown: without them no plan is proven optimal"

    def test_a_search_without_pins_takes_two_seconds_at_most(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plan = plan_model(graph("sfc"), levels=2, strategy="optimal", pins=["fc2=dp"])
        seen = []

        def followed(request: Request, network: LayerGraph) -> Plan:
            seen.append(request.limits.seconds)
            return plan

        monkeypatch.setattr(remarks, "follow", followed)
        assert any("pins" in line for line in notes(plan, graph("sfc")))
        assert seen == [2.0]

    def test_what_a_pin_costs_is_told_by_the_same_inexact_solver(self) -> None:
        plan = plan_model(graph("vgg16"), solver="uniform", pins=["fc1=mp"])
        free = plan_model(graph("vgg16"), solver="uniform")
        (line,) = [line for line in notes(plan, graph("vgg16")) if "pins" in line]
        assert f"({plan.cost.value / free.cost.value - 1:+.2%})" in line

    def test_layers_cut_finer_than_they_have_elements(self) -> None:
        plan = plan_model(graph("lenet-c"), levels=9, strategy="dp")
        assert finer_than_whole(plan, graph("lenet-c")) == tuple(f"{name} batch" for name in plan.layers)


@pytest.mark.parametrize(("levels", "search", "count"), [(3, "greedy", 3), (2, "joint", 1)])
def test_a_bounded_plan_states_its_bounds_and_its_gap(levels: int, search: str, count: int) -> None:
    asked = {"levels": levels, "search": search, "strategy": "accpar"}
    plan = plan_model(graph("resnet18"), solver="bounded", **asked)  # type: ignore[arg-type]
    exact = plan_model(graph("resnet18"), **asked)  # type: ignore[arg-type]
    assert plan.bounds is not None
    assert exact.bounds is None
    assert len(plan.bounds) == count
    costs = [split.cost for split in plan.splits] if count > 1 else [plan.cost.value]
    assert all(bound <= cost for bound, cost in zip(plan.bounds, costs, strict=True))
    # Elimination fits here, so the bound is the optimum, and the claim is that of an exact solver.
    assert sum(plan.bounds) == exact.cost.value
    assert plan.claim == exact.claim


@pytest.mark.parametrize(("search", "count"), [("greedy", None), ("joint", 1)])
def test_a_refined_plan_states_no_bound_that_its_own_choices_can_go_below(
    search: str, count: int | None
) -> None:
    """A level's bound is given the choices above it; those of alexnet's outer levels are exchanged here."""
    machine = load_machine("h100-8x", {"overlap": "full"})
    asked = {"levels": 3, "strategy": "hypar", "cost": "time", "hardware": machine}
    asked |= {"solver": "bounded", "search": search}
    plan = plan_model(graph("alexnet"), refine=True, **asked)  # type: ignore[arg-type]
    assert plan.refined is not None
    assert (plan.bounds and len(plan.bounds)) == count
    if plan.bounds is None:
        assert plan.refined.changed
        assert plan.claim.startswith("greedy: each level is optimal given the levels above it, over ")
    else:
        assert plan.bounds[0] <= plan.cost.value
        assert plan.claim.startswith("optimal, all levels jointly, over ")
    assert plan.claim.endswith("then refined")
    assert plan_model(graph("alexnet"), **asked).bounds is not None  # type: ignore[arg-type]


def test_what_does_not_fit_names_the_solver_that_states_its_gap() -> None:
    """Five branches of each node to each later one: every table of elimination is over all of them."""
    lines = ["  - {name: c0, op: conv, out_channels: 8, kernel: 1}"]
    for node in range(1, 9):
        inputs = [f"c{before}" for before in range(node)]
        join = f"  - {{name: a{node}, op: add, inputs: [{', '.join(inputs)}]}}" if node > 1 else ""
        source = f", inputs: a{node}" if node > 1 else ""
        conv = f"  - {{name: c{node}, op: conv, out_channels: 8, kernel: 1{source}}}"
        lines += [line for line in (join, conv) if line]
    text = "source: made up\nbatch: 64\nlayers:\n  - {op: input, channels: 8, height: 32, width: 32}\n"
    dense = build_graph(parse_spec(parse_yaml(text + "\n".join(lines) + "\n", Path("dense.yaml")), "dense"))
    asked = {"array": [64], "space": "all"}
    with pytest.raises(TableLimitError, match=r"width \d+; allowed: .*solver 'bounded' says how far"):
        plan_model(dense, solver="elimination", **asked)  # type: ignore[arg-type]
    plan = plan_model(dense, array=[16], space="all", solver="bounded")
    assert plan.bounds is not None
    assert plan.bounds[0] <= plan.cost.value


def test_level_by_level_devices_are_left_idle_at_the_innermost_level_alone() -> None:
    """Computation is weighed there; a level above it would see transfers alone, and leave all but one idle."""
    asked = {"array": [4, 4], "strategy": "deepa", "hardware": "p100-4x4"}
    greedy = plan_model(graph("alexnet"), **asked)  # type: ignore[arg-type]
    joint = plan_model(graph("alexnet"), search="joint", **asked)  # type: ignore[arg-type]
    assert all(greedy.choices(layer)[0].devices(4) == 4 for layer in greedy.layers)
    assert joint.cost.value <= greedy.cost.value <= 1.2 * joint.cost.value
    alone = plan_model(graph("alexnet"), pins="*=n1", search="joint", **asked)  # type: ignore[arg-type]
    assert greedy.cost.value < alone.cost.value / 2
