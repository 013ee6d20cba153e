"""Random networks on random trees of devices: what is planned is run, replayed, and brings what it says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import plan_model, score_plan, verify_plan
from hypar.errors import InputError
from hypar.machine.load_heterogeneous import load_hardware
from tests.effort import examples
from tests.heterogeneous import kind, machines, networks, write_machine
from tests.transformers import encoder, gated, gpt, llama, mixtral, one_matrix, vit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from hypar import LayerGraph, Plan
    from tests.heterogeneous import Drawn


@st.composite
def identical(draw: st.DrawFn) -> Drawn:
    """Identical devices, as the one kind of a machine without groups."""
    topology = draw(st.sampled_from(["fully_connected", "ring", "torus", "switch"]))
    overlap = draw(st.sampled_from(["none", "full"]))
    devices = draw(st.sampled_from([2, 4, 6, 8, 12, 24]))
    return {"a": kind(devices=devices, topology=topology, overlap=overlap, latency="1 us")}, []


SCHEDULES: list[dict[str, Any]] = [
    {"schedule": "1f1b"},
    {"schedule": "gpipe"},
    {"schedule": "interleaved", "parts": 2},
]


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    """What is asked of a tree: stages, levels, shares, chunks, refinement, a strategy, a cost, a convention, an optimizer."""
    asked: dict[str, Any] = {"strategy": draw(st.sampled_from(["dp", "mp", "hypar", "accpar", "optimal"]))}
    stages = draw(st.sampled_from([None, None, 2, 3]))
    if stages is not None:
        asked |= {"stages": stages, "levels": draw(st.integers(0, 2))}
        asked["microbatches"] = draw(st.sampled_from([None, 1, 2]))
        asked |= draw(st.sampled_from(SCHEDULES))
        asked["balance"] = draw(st.sampled_from([None, None, "memory", "traffic"]))
    elif draw(st.booleans()):
        asked["levels"] = draw(st.integers(1, 3))
        asked["stages"] = draw(st.sampled_from([None, None, None, "best"]))
    elif draw(st.booleans()):
        # Stages inside levels or uneven splits, with levels inside them or without.
        nodes: list[int | str] = draw(st.lists(st.sampled_from([2, 2, 3, 4]), min_size=1, max_size=3))
        nodes.insert(draw(st.integers(0, len(nodes))), f"s{draw(st.sampled_from([2, 2, 3, 4]))}")
        asked |= {"array": tuple(nodes), "microbatches": draw(st.sampled_from([None, 1, 2]))}
        asked |= draw(st.sampled_from(SCHEDULES))
    if draw(st.booleans()):
        asked["convention"] = draw(st.sampled_from(["paper", "moved", "fused"]))
    asked["chunks"] = draw(st.sampled_from([None, "best", "one"]))
    asked["refine"] = draw(st.sampled_from([False, False, True]))
    asked["cost"] = draw(st.sampled_from([None, None, "time", "accpar", "deepa"]))
    slowest = "accpar" in {asked["cost"], asked["strategy"]} and asked["cost"] != "time"
    if slowest and "stages" not in asked:
        asked["shares"] = draw(st.sampled_from([None, None, "equal", "linear", "layers"]))
        asked["integral"] = draw(st.sampled_from([None, None, True]))
    asked["optimizer"] = draw(st.sampled_from(["sgd", "adam"]))
    return {name: value for name, value in asked.items() if value is not None}


def written(folder: Path, drawn: Drawn) -> Path:
    """Write a machine's files, and return the first."""
    kinds, groups = drawn
    file = write_machine(folder, kinds, groups)
    return file if groups else folder / "a.yaml"


def planned(graph: LayerGraph, file: Path, asked: dict[str, Any]) -> Plan | None:
    """Return the plan; None where the machine, the batch or a refused pair of options does not allow one."""
    try:
        return plan_model(graph, hardware=load_hardware(file), **asked)
    except InputError:
        return None


@settings(max_examples=examples(400, 12))
@given(
    networks,
    st.one_of(identical(), st.sampled_from([4, 8]).flatmap(lambda most: machines(most=most))),
    trees(),
)
def test_a_random_tree_runs_as_planned(
    tmp_path_factory: pytest.TempPathFactory, graph: LayerGraph, drawn: Drawn, asked: dict[str, Any]
) -> None:
    run_as_planned(tmp_path_factory.mktemp("tree"), graph, drawn, asked)


@settings(max_examples=examples(200, 5))
@given(
    st.sampled_from([gpt, one_matrix, llama, encoder, vit, mixtral, gated]),
    st.sampled_from([4, 6]),
    st.one_of(identical(), machines(most=4)),
    trees(),
    st.sampled_from([{}, {"space": "all"}]),
)
def test_a_random_tree_of_a_transformer_runs_as_planned(
    tmp_path_factory: pytest.TempPathFactory,
    build: Callable[[int], LayerGraph],
    batch: int,
    drawn: Drawn,
    asked: dict[str, Any],
    space: dict[str, Any],
) -> None:
    run_as_planned(tmp_path_factory.mktemp("tree"), build(batch), drawn, asked | space)


def run_as_planned(folder: Path, graph: LayerGraph, drawn: Drawn, asked: dict[str, Any]) -> None:
    """Plan, score and verify a network on a machine, if these allow what is asked."""
    file = written(folder, drawn)
    shared = {"shares", "integral"} if not drawn[1] else set()
    plan = planned(graph, file, {name: value for name, value in asked.items() if name not in shared})
    if plan is None:
        return
    score = plan.score
    assert score is not None
    # The same score again, whose parts sum to it.
    assert score_plan(plan, model=graph, hardware=file) == score
    assert math.isclose(math.fsum(score.communication.values()), score.communication_bytes)
    assert math.isclose(math.fsum(score.critical.values()), score.time_s, abs_tol=1e-15)
    assert math.isclose(math.fsum(score.time.values()) - score.overlapped_s, score.time_s, rel_tol=1e-8)
    for group in score.groups or ():
        covered = score.time_s - group.idle_s
        assert max(group.computing_s, 0.0) <= covered * (1 + 1e-9)
    # The numbers of one device, and the bytes that were counted.
    found = verify_plan(plan, model=graph, hardware=file, count=plan.num_devices > 12 or graph.batch > 16)
    assert found.ok
    assert not found.mismatches
