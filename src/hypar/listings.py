"""Everything a command lists besides a single plan: as a table for people, as plain data for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from hypar.errors import HyparError
from hypar.ops.base import describe
from hypar.reports.base import amount, question
from hypar.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hypar.check import Verdict
    from hypar.comparison import Row
    from hypar.diff import Change
    from hypar.graph import LayerGraph
    from hypar.strategies.base import Strategy

Data = list[dict[str, Any]]


def comparison_data(rows: Sequence[Row]) -> Data:
    """One entry a strategy, with its whole plan."""
    return [
        {
            "strategy": row.name,
            "cost": row.plan and row.plan.cost.model_dump(),
            "gain": row.gain,
            "note": row.note,
            "plan": row.plan and row.plan.to_data(),
        }
        for row in rows
    ]


def comparison_table(rows: Sequence[Row]) -> Table:
    """Cost by strategy and level, and how many times less than the baseline's."""
    first = next(row.plan for row in rows if row.plan)
    levels = [f"H{level + 1}" for level in range(len(first.array))]
    heads = ["strategy", *levels, first.cost.name, f"{rows[0].name} over it", "search"]
    table = _table(heads, "l" + "r" * (len(levels) + 2) + "l")
    for row in rows:
        if row.plan is None:
            table.add_row(row.name, *["-"] * (len(levels) + 2), "does not fit")
            continue
        costs = [amount(split.cost, row.plan.cost.unit) for split in row.plan.splits]
        gain = "" if row.gain is None else f"{row.gain:.3f}" if row.gain >= 0.01 else f"{row.gain:.2e}"
        total = amount(row.plan.cost.value, row.plan.cost.unit)
        table.add_row(row.name, *costs, total, gain, row.plan.search)
    return table


def comparison_head(rows: Sequence[Row]) -> str:
    """Which network and array."""
    return question(next(row.plan for row in rows if row.plan))


def comparison_notes(rows: Sequence[Row]) -> list[str]:
    """What is claimed of each plan, or why there is none."""
    return [f"{row.name}: {row.note}" for row in rows]


def changes_data(changes: Iterable[Change]) -> Data:
    """One entry a difference."""
    return [asdict(change) for change in changes]


def changes_table(changes: Iterable[Change]) -> Table:
    """Where, and what stood there before and after."""
    table = _table(["layer", "level", "what", "before", "after"], "lllrr")
    for change in changes:
        level = "all" if change.level is None else f"H{change.level + 1}"
        table.add_row(change.layer or "all", level, change.what, *change.words)
    return table


def verdict_data(file: str, verdict: Verdict | HyparError) -> dict[str, Any]:
    """Whether one plan holds, and every difference, or why it cannot be told."""
    if isinstance(verdict, HyparError):
        return {"plan": file, "ok": False, "error": str(verdict)}
    return {
        "plan": file,
        "ok": verdict.ok,
        "model_changed": verdict.model_changed,
        "changes": changes_data(verdict.changes),
    }


def verdict_lines(file: str, verdict: Verdict) -> list[str]:
    """One line, and one more for every difference."""
    if verdict.ok:
        return [f"{file}: ok"]
    model = f"model {verdict.fresh.model.name!r} is not what was planned: it has changed, or is another"
    why = model if verdict.model_changed else "drifted"
    return [f"{file}: {why}", *(f"  {change}" for change in verdict.changes)]


def models_data(graphs: Iterable[LayerGraph]) -> Data:
    """Size and source of each model."""
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


def models_table(graphs: Iterable[LayerGraph]) -> Table:
    """One row a model."""
    table = _table(["model", "weighted layers", "parameters", "MACs per sample", "batch"], "lr")
    for row in models_data(graphs):
        sizes = (format_count(row["parameters"]), format_count(row["macs_per_sample"]))
        table.add_row(row["model"], str(row["weighted_layers"]), *sizes, str(row["batch"]))
    return table


def layers_data(graph: LayerGraph) -> Data:
    """Shape and work of each layer of a model, for one sample."""
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


def layers_table(graph: LayerGraph) -> Table:
    """One row a layer."""
    table = _table(["layer", "op", "output of a sample", "parameters", "MACs", "FLOP"], "lllrrr")
    for layer in graph.layers:
        numbers = (format_count(number) for number in (layer.num_parameters, layer.macs(), layer.flop()))
        table.add_row(layer.name, layer.op_name, describe(layer.shape).partition(" ")[0], *numbers)
    return table


def strategies_data(named: Mapping[str, Strategy]) -> Data:
    """The parts of each strategy."""
    return [{"strategy": name, **asdict(strategy)} for name, strategy in named.items()]


def strategies_table(named: Mapping[str, Strategy]) -> Table:
    """One row a strategy."""
    table = _table(["strategy", "space", "cost", "search", "summary"], "l")
    for name, strategy in named.items():
        table.add_row(name, strategy.space, strategy.cost, strategy.search, strategy.summary)
    return table


def _table(heads: Sequence[str], align: str) -> Table:
    """A table; ``align`` has a letter, l or r, for each column, its last letter for all the rest."""
    table = Table()
    for number, head in enumerate(heads):
        right = align[min(number, len(align) - 1)] == "r"
        table.add_column(head, justify="right" if right else "left", no_wrap=True)
    return table
