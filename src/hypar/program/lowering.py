"""Lowering of a plan to a program: the forward pass, the loss, the backward pass and the updates.

A layer with choices (a weighted layer or a join; a pool where pools are planned) computes its own piece. Every other op
runs where the tensor that it reads lies. A piece of height and width has consecutive indices; samples and channels
are those that the device has already, as far as shares allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.program.backward import backward
from hypar.program.flow import Flow
from hypar.program.forward import forward
from hypar.program.layout import layouts_of
from hypar.program.steps import Program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.program.layout import Layout, Places


def lower(
    graph: LayerGraph, places: Places, layouts: Mapping[str, Layout], convention: str = "moved"
) -> Program:
    """Lower a training step to a program.

    Args:
        graph: the network.
        places: the devices.
        layouts: the layout of each layer that has choices, by name.
        convention: what becomes of partial sums: ``moved`` adds them up for all who have a term, ``fused`` for those who
            need them next, ``direct`` sends the terms of errors straight to those who need their sums.
    """
    flow = Flow(graph=graph, places=places, layouts=layouts, convention=convention)
    for layer in graph.layers:
        forward(flow, layer)
    for layer in reversed(graph.layers):
        backward(flow, layer)
    return Program(graph=graph, places=places, steps=(*flow.steps, *flow.updates))


def program_of(plan: Plan, graph: LayerGraph, convention: str = "moved") -> Program:
    """Lower a plan.

    Args:
        plan: the plan.
        graph: its network, with the samples of one microbatch.
        convention: what becomes of partial sums; see ``lower``.
    """
    places, layouts = layouts_of(plan)
    return lower(graph, places, layouts, convention)
