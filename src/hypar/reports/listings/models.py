"""Listings of models, layers and strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.network.ops.base import describe
from hypar.reports.listings.base import Data, make_table
from hypar.sharding.conventions import DIRECT
from hypar.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hypar.network.graph import LayerGraph
    from hypar.planning.strategies.base import Strategy
    from hypar.reports.columns import Sheet


def models_data(graphs: Iterable[LayerGraph]) -> Data:
    """Return the size and the source of each model."""
    return [
        {
            "model": graph.name,
            "weighted_layers": graph.num_weighted,
            "parameters": graph.num_parameters,
            "macs_per_sample": graph.macs(),
            "flop_per_sample": graph.flop(),
            "batch": graph.batch,
            "dtype": graph.dtype,
            "source": graph.source,
        }
        for graph in graphs
    ]


def models_table(graphs: Iterable[LayerGraph]) -> Sheet:
    """Return one row for each model."""
    table = make_table(["model", "weighted layers", "parameters", "MACs per sample", "batch"], "lr")
    for graph in graphs:
        sizes = (format_count(graph.num_parameters), format_count(graph.macs()))
        table.add_row(graph.name, str(graph.num_weighted), *sizes, str(graph.batch))
    return table


def layers_data(graph: LayerGraph) -> Data:
    """Return the shape and the work of each layer of a model, for one sample."""
    return [
        {
            "layer": layer.name,
            "op": layer.op_name,
            "inputs": list(layer.inputs),
            "shape": dict(layer.shape),
            "parameters": layer.num_parameters,
            "macs": layer.macs(),
            "flop": layer.flop(),
        }
        for layer in graph.layers
    ]


def layers_table(graph: LayerGraph) -> Sheet:
    """Return one row for each layer."""
    table = make_table(["layer", "op", "output of a sample", "parameters", "MACs", "FLOP"], "lllrrr")
    for layer in graph.layers:
        numbers = (format_count(number) for number in (layer.num_parameters, layer.macs(), layer.flop()))
        table.add_row(layer.name, layer.op_name, describe(layer.shape).partition(" ")[0], *numbers)
    return table


def strategies_data(named: Mapping[str, Strategy]) -> Data:
    """Return the components of each strategy."""
    # Programs read the cost on a heterogeneous machine under its former name.
    keys = {"heterogeneous_cost": "fork_cost"}
    return [
        {"strategy": name, **{keys.get(key, key): value for key, value in strategy._asdict().items()}}
        for name, strategy in named.items()
    ]


def strategies_table(named: Mapping[str, Strategy]) -> Sheet:
    """Return one row for each strategy."""
    from hypar.planning.counting import follows  # noqa: PLC0415 (models are listed without the planner)

    table = make_table(
        ["strategy", "space", "cost", "counts by", "search", "summary"], "l", prose={"summary", "space"}
    )
    for name, strategy in named.items():
        counts = strategy.convention if follows(strategy.cost) else DIRECT
        table.add_row(name, strategy.space, strategy.cost, counts, strategy.search, strategy.summary)
    return table
