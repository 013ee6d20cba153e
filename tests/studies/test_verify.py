"""Stored plans are run on simulated devices: their numbers are those of one device, their bytes those of the count."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from hypar import LayerGraph, load_model, plan_model, verify_plan
from hypar.errors import PlanError
from hypar.execution.verify import TOLERANCE, verify_program
from hypar.program.lowering import layouts_of, lower
from hypar.studies import pieces
from tests.goldens import NAMES, golden
from tests.kit import agrees, known
from tests.studies.nets import chain, layer, mlp, network, planned, residual
from tests.transformers import gpt

QUICK = ("sfc-hypar", "vgg16-accpar-joint", "resnet18-accpar-pinned")
LONG = [pytest.mark.slow, pytest.mark.long]
SLICES = [pytest.param(name, marks=[] if name in QUICK else LONG) for name in NAMES]

TWO = {"l1": ("in_channels", "in_channels"), "l2": ("in_channels", "in_channels")}


@pytest.mark.parametrize("name", SLICES)
def test_every_golden_plan_shrunk_gives_the_numbers_and_bytes_of_one_device_and_of_the_count(
    name: str,
) -> None:
    found = verify_plan(golden(name), shrink=True)
    assert found.ok
    assert found.numbers is not None
    assert found.numbers.worst <= TOLERANCE
    assert not found.numbers.zero
    assert [each.counted for each in found.levels] == [each.moved for each in found.levels]


def test_a_transfer_that_moves_other_bytes_than_counted_speaks_against_a_plan() -> None:
    found = verify_plan(golden("sfc-hypar"), shrink=True)
    first, *others = found.transfers
    wrong = first._replace(moved=first.counted + 1)
    other = replace(found, transfers=(wrong, *others))
    assert (found.ok, other.ok, other.mismatches) == (True, False, (wrong,))


@pytest.mark.parametrize("name", SLICES)
def test_tensors_and_transfers_add_up_to_their_level(name: str) -> None:
    found = verify_plan(golden(name), count=True, shrink=True)
    for level in found.levels:
        tensors = [each for each in found.tensors if each.level == level.level]
        assert sum(each.planned for each in tensors) == pytest.approx(level.planned)
        assert sum(each.counted for each in tensors) == level.counted
        assert sum(each.counted for each in found.transfers if each.level == level.level) == level.counted


@pytest.mark.parametrize(
    ("convention", "run_by", "counted"),
    [(None, "moved", 7680), ("moved", "moved", 7680), ("paper", "moved", 7680), ("fused", "fused", 6144)],
)
def test_two_layers_cut_in_their_inputs_count_as_published(
    convention: str | None, run_by: str, counted: int
) -> None:
    """The smallest plan whose bytes HyPar's tables undercount: 7,168 planned."""
    graph = mlp()
    found = verify_plan(planned(graph, (2, 2), TWO), model=graph, convention=convention)
    assert found.ok
    assert found.convention == run_by
    assert sum(level.planned for level in found.levels) == 7168
    assert sum(level.counted for level in found.levels) == counted
    assert [level.moved for level in found.levels] == [level.counted for level in found.levels]


def test_a_plan_whose_cost_counts_directly_is_run_directly() -> None:
    plan = plan_model("lenet-c", array=[4], strategy="deepa", hardware="p100-4x4", batch=8)
    found = verify_plan(plan)
    assert found.ok
    assert (found.convention, found.planned_by) == ("direct", "direct")


def test_uneven_shares_are_rounded_and_a_note_says_so() -> None:
    plan = plan_model("sfc", batch=32, hardware="tpu-v2-v3", levels=5)
    found = verify_plan(plan, count=True)
    assert found.ok
    assert found.notes == ("shares that are not of whole elements are rounded by the largest remainder",)
    assert len(found.levels) == max(len(group.above) + len(group.splits) for group in plan.groups)


B, IN, OUT, H = "batch", "in_channels", "out_channels", "height"
RIGID = network(
    layer("c1", "conv", "in", out_channels=8, kernel=3, padding=1, bias=False),
    layer("c2", "conv", "c1", out_channels=6, kernel=3, stride=2, padding=1, bias=False),
    image=12,
    channels=4,
)

MOVED: dict[str, tuple[LayerGraph, Sequence[int], Mapping[str, Sequence[str]], tuple[str, str, str], int]] = {
    "parts that an outer level brings go to every device of a group": (mlp(), (2, 2), {"l1": (IN, IN), "l2": (IN, IN)}, ("l2", "backward", "H2"), 1024),
    "sums are added up before the pool": (chain(), (2,), {"c1": (IN,), "c2": (H,)}, ("c1", "forward", "H1"), 32768),
    "two levels exchange parts of one tensor": (mlp(), (2, 2), {"l1": (B, B), "l2": (IN, IN)}, ("l2", "forward", "H2"), 128),
    "an error is sliced before it is sent": (mlp(), (2, 2), {"l1": (B, B), "l2": (OUT, IN)}, ("l2", "backward", "H2"), 256),
    "pieces are uneven": (RIGID, (4,), {"c1": (H,), "c2": (H,)}, ("c2", "forward", "H1"), 15360),
    "windows leave gaps": (residual(), (2,), {"c1": (B,), "c2": (IN,)}, ("c2", "forward", "H1"), 2048),
    "a flattened image is read by input channels": (chain(), (2, 2), {"c2": (H, H), "l": (IN, IN)}, ("l", "forward", "H1"), 0),
    "borders with sums": (chain(), (2, 2), {"c1": (B, B), "c2": (H, H)}, ("c2", "forward", "H2"), 4608),
    "the inputs of a join lie in two orders": (
        residual(),
        (2, 2),
        {"c1": (IN, IN), "c2": (OUT, OUT), "a": (B, OUT), "add": ("channels", "channels")},
        ("add", "forward", "H2"),
        1024,
    ),
    "statistics and biases": (chain(), (2,), {"c1": (B,)}, ("c1", "gradient", "H1"), 64),
    "no error goes to the input": (mlp(), (2,), {"l1": (OUT,)}, ("l1", "backward", "H1"), 0),
    "a tied weight": (gpt(), (2, 2), {"wte": ("out_hidden", "out_hidden"), "head": (B, "in_hidden")}, ("wte", "gradient", "H2"), 24 * 16 * 4),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_a_transfer_moves_what_its_reader_lacks(name: str) -> None:
    graph, array, choices, (reader, phase, level), moved = MOVED[name]
    found = verify_plan(planned(graph, array, choices), model=graph)
    assert found.ok
    own = [
        each
        for each in found.transfers
        if (each.item.layer, each.item.phase, each.level) == (reader, phase, level)
    ]
    if moved:
        assert moved in {each.moved for each in own}
    else:
        assert not [each for each in own if each.item.maker or each.item.tensor == "input"]


def test_sums_before_a_pool_cost_what_they_move_where_errors_go_straight() -> None:
    graph = chain()
    pins = ["c1=in_channels", "c2=batch", "l=batch"]
    plan = plan_model(
        graph, array=[4], strategy="deepa", graph="contracted", space="all", pins=pins, hardware="hmc"
    )
    found = verify_plan(plan, model=graph)
    assert found.ok
    assert plan.cost.value == pytest.approx(known(plan.score).time_s)


MUTATED: dict[str, tuple[LayerGraph, dict[str, tuple[str, ...]]]] = {
    "linear": (mlp(), {"l1": ("in_channels", "batch"), "l2": ("out_channels", "in_channels")}),
    "chain": (chain(), {"c1": ("batch", "height"), "c2": ("in_channels", "out_channels"), "l": ("in_channels",)}),
    "residual": (residual(), {"c2": ("height", "in_channels"), "a": ("batch", "out_channels"), "add": ("channels",)}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "convention"),
    [
        pytest.param(name, convention, marks=[pytest.mark.slow] if also and name == "residual" else [])
        for name in MUTATED
        for convention, also in (("moved", False), ("fused", True), ("direct", True))
    ],
)
def test_leaving_out_any_transfer_shows_in_the_numbers(name: str, convention: str) -> None:
    graph, choices = MUTATED[name]
    program = lower(graph, *layouts_of(planned(graph, (2, 2), choices)), convention)
    assert agrees(verify_program(program))
    assert len(program.transfers) >= 3
    for number, step in program.transfers.items():
        assert verify_program(program, without=number).worst > TOLERANCE, step.item


def test_a_run_that_would_be_too_large_is_refused_before_it_allocates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = golden("vgg16-hypar")
    with pytest.raises(
        PlanError, match=r"at most 268,435,456; try --shrink or a smaller --batch, or --count"
    ):
        verify_plan(plan)
    monkeypatch.setattr(pieces, "MOST_ENTRIES", 10)
    with pytest.raises(
        PlanError, match=r"to count a step of 'vgg16' on 16 devices takes .* entries; allowed: at most 10"
    ):
        verify_plan(plan, count=True)


def test_a_tied_weight_between_stages_is_in_the_count_of_moved_and_in_no_papers() -> None:
    graph = gpt()
    plan = plan_model(graph, levels=1, hardware="tpu-v3", stages=2, strategy="dp")
    own = {
        by: next(
            each
            for each in verify_plan(plan, model=graph, count=True, convention=by).tensors
            if (each.level, each.tensor) == ("stages", "gradients")
        )
        for by in ("moved", "paper")
    }
    assert own["moved"].planned == own["moved"].counted == own["paper"].counted == 2 * 24 * 16 * 4
    assert own["paper"].planned == 0


def test_a_cost_that_the_search_rounded_is_as_stated() -> None:
    pins = [
        "conv1@H1=batch",
        "conv1@H2=in_channels",
        "conv2@H1=in_channels",
        "conv2@H2=height",
        "conv3@H2=in_channels",
    ]
    pins += ["fc1@H1=out_channels", "fc2@H1=batch"]
    plan = plan_model("cifar-c", array=[3, 2], space="all", convention="moved", pins=pins)
    found = verify_plan(plan, model="cifar-c", count=True)
    assert found.changes == ()
    cost = plan.cost.model_copy(update={"value": plan.cost.value * (1 + 1e-6)})
    changed = verify_plan(plan.model_copy(update={"cost": cost}), model="cifar-c", count=True)
    assert [change.what for change in changed.changes] == ["cost"]


def test_a_table_of_fewer_rows_than_devices_runs() -> None:
    """A device without a row has zeros for every token."""
    layers = [
        {"op": "input", "shape": ["sequence"]},
        {"name": "table", "op": "embedding", "over": "vocab", "out": "hidden"},
        {"name": "out", "op": "linear", "in": "hidden", "out": "vocab"},
    ]
    sizes = {"sequence": 3, "hidden": 8, "vocab": 3}
    graph = load_model({"source": "made up", "batch": 2, "dims": sizes, "layers": layers}, name="table")
    plan = plan_model(graph, array=(4,), strategy="mp", pins="table=vocab")
    assert plan.splits[0].choices["table"] == {"in_vocab": 4}
    assert verify_plan(plan, model=graph).ok
