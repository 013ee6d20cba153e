"""Published numbers of the layer-block-wise pipeline, with its network and stages.

Published numbers stand here to be printed beside ours; no computation reads them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.network.build import load_model

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph

MODEL, STARTS = "vgg-f", "conv1,conv2,conv3,pool5"
BATCHES = (1, 32)

STARTS_OF = {1: "conv1", 2: "conv1,conv3", 4: STARTS, 8: "conv1,conv2,conv3,conv4,conv5,pool5,fc7,fc8"}
"""First layers of each number of stages. The four are Table II's; Figure 2 draws the others, which the text at hand does not
say: taken are its four in pairs, and a weighted layer each."""

THREADS = {
    "W, a thread": (243.45, 243.45),
    "dW, a thread": (243.45, 243.45),
    "Y, a thread": (7.31, 233.92),
    "dY, a thread": (7.31, 233.92),
    "W, all": (973.80, 973.80),
    "dW, all": (973.80, 973.80),
    "Y, all": (29.24, 935.68),
    "dY, all": (29.24, 935.68),
    "received, all": (973.8, 973.8),
    "sent, all": (973.8, 973.8),
}
"""Table I: MB of four threads at each of ``BATCHES``."""

WEIGHTS = (0.09, 1.64, 7.09, 234.61, 243.45)
"""Table II: MB of each stage's weights, and of all."""

ACTIVATIONS = {1: (24.22, 14.47, 6.92, 0.28, 45.89), 32: (775.04, 463.04, 221.44, 8.96, 1468.48)}
"""Table II: MB of the activations Y that each stage keeps, and all, at each batch."""

ERRORS = {1: (3.02, 2.41, 3.46, 0.28, 9.17), 32: (96.64, 77.12, 110.72, 8.96, 293.44)}
"""Table II: MB of each stage's errors dY, and of all, at each batch."""

TOTALS = {"pipeline": (541.96, 2248.82), "threads": (2006.08, 3818.96)}
"""Tables II and I: MB of four stages and of four threads, at each of ``BATCHES``."""

RECEIVED = {1: (0.60, 0.19, 0.17, 0.17), 32: (19.26, 5.98, 5.53, 5.53)}
"""Table II: MB that each stage receives in the forward phase, at each batch."""

MOVED = {
    "forward, received": (1.13, 36.30),
    "forward, sent": (0.53, 17.04),
    "backward, received": (0.53, 17.04),
    "backward, sent": (0.36, 17.04),
}
"""Table II: MB of all stages, at each of ``BATCHES``."""

UNIFIED, EACH = 974.0, 243.4
"""Section 3.1 and the abstract: MB that unify the weights of four threads; MB of n threads are n times the second."""

LESS, GIGABYTES = 0.41, (2.25, 3.82)
"""Section 3.2: relative memory saving of four stages over four threads; GB of both."""

SPEEDUPS = {2: 2.0, 4: 3.5, 8: 5.1}
"""Section 3.2: speedup of convergence over one worker for each number of stages."""

CONVERGENCE = 1.12
"""The abstract: speedup of convergence of four stages over four threads."""

TWICE = (3, 4)
"""Stages whose errors are printed twice as large as those of one mini-batch."""

EXTRA = 3
"""The stage that is printed with one more tensor than its layers give."""


def network() -> LayerGraph:
    """Load the network; the paper counts no biases."""
    graph = load_model(MODEL)
    layers = (
        replace(layer, op=layer.op.model_copy(update={"bias": False})) if layer.op.weighted else layer
        for layer in graph.layers
    )
    return replace(graph, layers=tuple(layers))
