"""Plans: a row for each layer and level, and the grid of layers and levels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypar.files.grids import Cell, Grid, Row
from hypar.network.dims import like
from hypar.planning.sources import network_of, scored_on, times_of
from hypar.reports.formats.base import columns, grid, namer, on_machine, question, stage_numbers, words_of
from hypar.reports.page import numbers as page
from hypar.reports.page.cells import DIM_TEXTS, colour, halvings, parts_of
from hypar.reports.palette import DIMS, colours_of
from hypar.sharding.dims import WORDS
from hypar.sharding.space import parse_space
from hypar.studies.explanation import explain_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hypar.plan.plan import Plan
    from hypar.reports.views.base import View
    from hypar.sharding.tree import Split
    from hypar.studies.explanation import Explanation


class PlanView:
    """The view of a plan."""

    def rows(self, plan: Plan) -> list[dict[str, Any]]:
        """Return one row for each layer and level; one for each layer if no level cuts it."""
        stages, word = stage_numbers(plan), namer(plan)
        found = []
        for layer in plan.layers:
            first = {"layer": layer, **({"stage": stages[layer]} if stages else {})}
            own = [split for split in plan.splits if layer in split.choices]
            found += [{**first, **_split_row(plan, split, layer, word)} for split in own] or [first]
        return found

    def html(self, plan: Plan) -> str:
        """Return the coloured grid."""
        return plan.render("html")

    def drawing(self, plan: Plan) -> Grid:
        """Return the grid of layers and levels, where a halving is as wide everywhere."""
        words, shown = words_of(plan), columns(plan)
        stages = stage_numbers(plan)
        cuts = [
            Row(
                f"{layer}, stage {stages[layer]}" if stages else layer,
                tuple(tuple(_cells(plan, column.splits, layer, words)) for column in shown),
                cost,
            )
            for layer, _, _, cost in grid(plan)
        ]
        return Grid(
            title=_title(plan),
            heads=[column.name for column in shown],
            widths=[math.fsum(halvings(split.ways) for split in column.splits) for column in shown],
            cost=plan.cost.name,
            shown=lambda cost: page.amount(cost, plan.cost.unit),
            rows=cuts,
            legend=_legend(plan, words),
        )

    def explain(self, plan: Plan, layer: str, model: Any) -> Explanation:
        """Explain a plan with the network, the machine and the times that it was made from."""
        network, machine = network_of(plan, model), scored_on(plan)
        return explain_plan(
            plan,
            network,
            layer=layer,
            machine=machine,
            profile=times_of(plan),
        )


def _split_row(plan: Plan, split: Split, layer: str, word: Callable[[Split, str], str]) -> dict[str, Any]:
    """Return the choice of a layer at a level, and its cost there."""
    return {
        **({"group": split.group} if plan.heterogeneous else {}),
        "level": f"H{split.level + 1}",
        "ways": split.ways,
        "dim": split.dim(layer) or "whole",
        "choice": word(split, layer),
        "cost": split.costs[layer],
        "unit": plan.cost.unit,
    }


def _cells(plan: Plan, splits: tuple[Split, ...], layer: str, words: int) -> Iterator[Cell]:
    """Yield a cell for each part of a layer's choice at some levels, as wide as the halvings of its degree."""
    grids = parse_space(plan.space, None).grids
    for split in (own for own in splits if layer in own.choices):
        for dim, word, degree in parts_of(split.choice(layer), split.ways, words, grids=grids):
            yield _cell(dim, word, halvings(degree), words)


def _cell(dim: str | None, word: str, width: float, words: int) -> Cell:
    """Return a cell in its dim's colour."""
    colours = colours_of(colour(dim, words))
    return Cell(word, width, colours.light, colours.light_text)


def _legend(plan: Plan, words: int) -> Mapping[str, Cell]:
    """Return the meaning of each colour of the plan's grid."""
    used: dict[str | None, None] = {}
    for split in plan.splits:
        for layer in split.choices:
            used.update(dict.fromkeys(split.choice(layer).divided or (None,)))
    order = [*DIMS, "channels", None]
    return {
        DIM_TEXTS[dim]: _cell(dim, WORDS[dim][words], 1.0, words)
        for dim in sorted(used, key=lambda dim: order.index(like(dim)))
    }


def _title(plan: Plan) -> str:
    """Say what a step costs."""
    score = plan.score
    cost = (
        f"{plan.cost.name} {page.amount(plan.cost.value, plan.cost.unit)}"
        if score is None
        else page.seconds(score.time_s)
    )
    return " ".join(
        filter(None, [f"{question(plan)}", on_machine(score), f"by {plan.strategy}: {cost} a step"])
    )


plugin: View[Plan] = PlanView()
