"""LayerGraph: a network with every shape known, and its contraction to the layers that are cut.

The contracted graph is HyPar's view: weighted layers, and the joins (add, concat) where branches meet,
connected by the tensor that the consumer reads, after pooling, flattening and the like. Forks and joins
stay: a residual network is not flattened to a chain.
"""

from hypar.graph.build import build_graph, load_model
from hypar.graph.contraction import Content, ContractedGraph, CutLayer, Tensor
from hypar.graph.layer import Layer
from hypar.graph.layers import LayerGraph

__all__ = [
    "Content",
    "ContractedGraph",
    "CutLayer",
    "Layer",
    "LayerGraph",
    "Tensor",
    "build_graph",
    "load_model",
]
