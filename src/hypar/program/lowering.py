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
from hypar.program.steps import Program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.graph import LayerGraph
    from hypar.program.cuts import Cuts
    from hypar.program.places import Places


def lower(graph: LayerGraph, places: Places, cuts: Mapping[str, Cuts], convention: str = "moved") -> Program:
    """Lower a training step to a program.

    Args:
        graph: the network.
        places: the devices.
        cuts: the cuts of each layer that has choices, by name.
        convention: what becomes of partial sums: ``moved`` adds them up for all who have a term, ``fused`` for those who
            need them next, ``direct`` sends the terms of errors straight to those who need their sums.
    """
    flow = Flow(graph=graph, places=places, cuts=cuts, convention=convention)
    for layer in graph.layers:
        forward(flow, layer)
    for layer in reversed(graph.layers):
        backward(flow, layer)
    return Program(graph=graph, places=places, steps=(*flow.steps, *flow.updates))
