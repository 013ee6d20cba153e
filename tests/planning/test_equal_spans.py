"""What is known of spans of layers without planning them: equal spans, the choices of most spans, the least time of a step."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any

import pytest

from hypar import load_machine, load_model, plan_model
from hypar.plan.splits import BALANCES
from hypar.planning.request import Request
from hypar.planning.stages import spans as of_spans
from hypar.planning.stages.lower_bounds import LowerBounds
from hypar.planning.stages.running import estimated_s
from hypar.planning.stages.spans import CutSpans
from tests.transformers import gpt

if TYPE_CHECKING:
    from hypar import LayerGraph


def all_spans(graph: LayerGraph, array: tuple[int, ...], microbatches: int = 4, **asked: Any) -> CutSpans:
    """The spans of a network on identical devices."""
    overlap = {"overlap": asked.pop("overlap")} if "overlap" in asked else {}
    machine = load_machine("hmc", overlap)
    plan = plan_model(graph, hardware=machine, **asked)
    return CutSpans.of(Request.of(plan, machine).over(array), graph, (2, microbatches))


@pytest.mark.parametrize(
    ("graph", "array"),
    [
        (gpt(8, blocks=2, ff=96), (2, 2, 2)),
        (load_model("alexnet").with_batch(64), (2, 2)),
        pytest.param(load_model("resnet18"), (2, 2, 2), marks=pytest.mark.slow),
    ],
)
def test_steady_choices_are_those_of_the_search(
    graph: LayerGraph, array: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are known of most spans, whose layers do not all choose alike."""
    monkeypatch.setattr(of_spans, "FEW", 0)
    spans = all_spans(graph, array)
    assert spans.steady is not None
    assert len({*spans.steady.choices}) > 1
    every = [*combinations(range(len(spans.whole.layers) + 1), 2)]
    known = [pair for pair in every if spans.steady.spans[pair]]
    assert len(every) // 2 < len(known) < len(every)
    for start, end in known:
        span, priced = spans.span(start, end), spans.priced(start, end)
        assert tuple(span.cuts.lane.choices) == spans.steady.choices[start:end]
        assert priced.cuts.phases == span.cuts.phases
        assert priced.cuts.memory() == span.cuts.memory()


@pytest.mark.parametrize("asked", [{"convention": "moved"}, {"strategy": "optimal"}, {"solver": "bounded"}])
def test_choices_are_steady_in_an_exact_search_of_costs_of_each_layer(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_spans, "FEW", 0)
    assert all_spans(load_model("lenet-c").with_batch(64), (2, 2), **asked).steady is None


@pytest.mark.parametrize("asked", [{}, {"convention": "moved"}, {"convention": "paper"}])
def test_equal_spans_cost_the_same(asked: dict[str, Any]) -> None:
    spans, block = all_spans(gpt(8, blocks=4), (2, 2), **asked), 9
    for start, length in product(range(10, 10 + block, 4), (1, 4, block - 1)):
        equal = spans.equal_to(start, start + length).tolist()
        assert len(equal) > 1
        assert start in equal
        for balance in BALANCES:
            costs = [spans.span(at, at + length).cost(balance, 4, 2) for at in equal]
            assert costs == costs[:1] * len(equal)
    assert spans.equal_to(0, len(spans.whole.layers)).tolist() == [0]


@pytest.mark.parametrize("overlap", ["none", "full"])
@pytest.mark.parametrize("asked", [{}, {"convention": "paper"}])
@pytest.mark.parametrize(
    ("graph", "array", "every"),
    [(load_model("lenet-c").with_batch(16), (), 1), (gpt(8, blocks=2, ff=96), (2, 2), 4)],
)
def test_no_step_is_shorter_than_the_bound_of_a_stage(
    graph: LayerGraph,
    array: tuple[int, ...],
    every: int,
    asked: dict[str, Any],
    overlap: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With transfers inside stages, and by the choices that are known without a search, as well."""
    monkeypatch.setattr(of_spans, "FEW", 0)
    spans = all_spans(graph, array, overlap=overlap, **asked)
    assert (spans.steady is not None) is bool(array)
    least, count, higher = LowerBounds(spans, 4), len(spans.whole.layers), 0
    step = least.step([least])
    for number in (1, 2):
        for ends in combinations(range(1, count, every), number):
            pairs = [*pairwise((0, *ends, count))]
            stages = [spans.span(*pair) for pair in pairs]
            bound = max(step[pair] for pair in pairs)
            for schedule in ("gpipe", "1f1b"):
                request = replace(spans.request, schedule=schedule)
                assert bound <= estimated_s(request, 4, stages)
            higher += bound > max(span.seconds(4) for span in stages)
    assert higher or (array and overlap == "full")
