"""What is kept with a contracted graph."""

from __future__ import annotations

from hypar.network.build import load_model
from hypar.network.contraction import ContractedGraph, kept_with_graph

CALLS: list[str] = []


@kept_with_graph
def names(graph: ContractedGraph, start: str) -> tuple[str, ...]:
    CALLS.append(start)
    return tuple(layer.name for layer in graph.layers if layer.name.startswith(start))


def test_results_are_kept_with_a_graph_and_with_those_that_equal_it() -> None:
    CALLS.clear()
    graph = ContractedGraph(*load_model("vgg16").contracted)
    assert names(graph, "fc") == ("fc1", "fc2", "fc3")
    assert names(graph, "fc") is names(ContractedGraph(*graph), "fc")
    assert CALLS == ["fc"]
    assert len(names(graph, "conv")) == 13
    shorter = graph._replace(layers=graph.layers[:-1])
    assert names(shorter, "fc") == ("fc1", "fc2")
    assert CALLS == ["fc", "conv", "fc"]


def test_a_network_of_another_mini_batch_is_one_object() -> None:
    graph = load_model("vgg16")
    assert graph.with_batch(64) is graph.with_batch(64)
    assert graph.with_batch(64).batch == 64
    assert graph.with_batch(graph.batch) is graph
    assert graph.with_batch(64) != graph.with_batch(32)
