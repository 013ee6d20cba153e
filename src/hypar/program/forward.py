"""The forward pass of a layer as steps of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.program.contracted import contracted
from hypar.program.cuts import uncut
from hypar.program.flow import Made
from hypar.program.holding import everywhere
from hypar.program.unweighted import unweighted

if TYPE_CHECKING:
    from hypar.network.layer import Layer
    from hypar.program.flow import Flow


def forward(flow: Flow, layer: Layer) -> None:
    """Add the steps of a layer's forward pass."""
    if not layer.inputs:
        shape = (flow.graph.batch, *layer.shape.values())
        holding = everywhere(shape, flow.places.devices)
        flow.made[layer.name] = Made(array=f"F {layer.name}", holding=holding, cuts=uncut(flow.places))
        return
    if layer.num_parameters or any(name in flow.trained for name in layer.inputs):
        flow.trained.add(layer.name)
    (contracted if flow.nest(layer).multiplies else unweighted)(flow, layer)
