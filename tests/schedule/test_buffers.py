"""What arrives on devices at once, as an array of them has it, against what it is in a run on the same devices one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from hypar.execution.exchange import add, copy, mask, shares
from hypar.network.graph import LayerGraph
from hypar.program.fragments import following
from hypar.program.holding import Transfer, grid_of
from hypar.program.lowering import Item, Move
from hypar.schedule.memory import arriving
from hypar.sharding.layout import Grid, Places
from tests.effort import examples
from tests.program.test_fragments import cases, one_by_one


def in_a_run(places: Places, own: Transfer) -> np.ndarray:
    """The elements that devices receive of a transfer, ``[levels, devices]``."""
    have, need = mask(own.have), mask(own.need)
    source = np.where(have, 1.0, np.nan)
    if own.kind == "copy":
        arrived = copy(places, source, have, need)[1]
    else:
        arrived = add(places, source, have, need, own.copies.number)[1]
    move = Move("", "", Item("", None, "", ""), own)
    return shares(places, move, arrived, np.zeros(places.devices, np.int64))


@settings(max_examples=examples(600, 60))
@given(cases())
def test_as_much_arrives_as_in_a_run(case: tuple[LayerGraph, list[Grid], str]) -> None:
    """Of sums by ``moved``; of copies as much to all devices together."""
    graph, layouts, _ = case
    nodes, ways = graph.contracted.layers, layouts[0].ways
    ops, names = [*{op.name: op for node in nodes for op in node.ops}.values()], [node.name for node in nodes]
    whole = grid_of(tuple(((own, "copies"),) for own in ways), ())
    found = following(ops, dict(zip(names, layouts, strict=True)), whole, "moved")
    each = dict(zip(names, map(one_by_one, layouts), strict=True))
    expected = following(ops, each, one_by_one(whole), "moved")
    for name, own in found.items():
        for said, ran in zip(own.transfers, expected[name].transfers, strict=True):
            rows = [np.broadcast_to(level, ways).reshape(-1) for level in arriving(said, whole)]
            held = in_a_run(whole.places, ran)
            if said.kind == "copy":
                assert np.allclose(np.sum(rows, axis=1), held.sum(axis=1))
            else:
                assert np.allclose(rows, held)
                # Were these to rest where they are, nothing would go back.
                back = arriving(replace(said, kind="return", need=said.have), whole)
                assert not any(level.any() for level in back)
