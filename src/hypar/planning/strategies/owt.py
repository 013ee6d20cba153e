"""One weird trick: convolutions by batch, fully connected layers by input channels."""

from __future__ import annotations

from hypar.planning.strategies.base import Strategy

plugin: Strategy = Strategy(
    summary="convolutions cut in the batch, linear layers in their input channels",
    source="Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014",
    space="conv:batch linear:in_channels",
)
