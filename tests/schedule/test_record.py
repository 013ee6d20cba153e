"""The record of a step: its buffers and its order of issue."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_model
from hypar.schedule.record import EACH, ERROR, INPUT, WEIGHT, backward_of, record_of
from tests.effort import examples

MODELS = ("lenet-c", "resnet18", "googlenet", "gpt2")
graph_of = cache(load_model)
SWITCHES = [*product([False, True], repeat=3)]


@pytest.mark.parametrize("model", MODELS)
@given(data=st.data())
@settings(max_examples=examples(40))
def test_each_buffer_is_written_once_before_it_is_read(model: str, data: st.DataObject) -> None:
    """In every order of issue, also with the gradients of some nodes in buckets."""
    graph = graph_of(model).contracted
    record, nodes = record_of(graph), len(graph.layers)
    ends = sorted(data.draw(st.sets(st.integers(1, nodes), max_size=5)) | {nodes})
    kept = data.draw(st.sets(st.integers(0, nodes - 1), min_size=1))
    buckets = [
        tuple(node for node in range(start, end) if node in kept)[::-1]
        for start, end in zip([0, *ends], ends, strict=False)
    ]
    for eager, deferred, final in SWITCHES:
        for together in (None, tuple(filter(None, reversed(buckets)))):
            backward = backward_of(record, together, eager=eager, deferred=deferred, final=final)
            order = [*record.forward, *backward]
            there = {INPUT, ERROR}
            for op in order:
                assert there.issuperset(op.reads)
                assert there.isdisjoint(op.writes)
                there.update(op.writes)
            assert there.issuperset((*record.made, *record.sent))
            if final:
                assert there.issuperset(EACH * node + WEIGHT for node in range(nodes))
