"""Plan: what was decided, what it costs, and everything needed to decide it again.

Written as versioned JSON, described in ``docs/plans.md``. A plan knows nothing of networks: showing and
comparing plans needs no model file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hypar.documents import Where, field_name, format_json, read_json, write_text
from hypar.errors import PlanError
from hypar.registry import load_plugin
from hypar.validation import validated
from hypar.words import CUTTABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = "hypar.plan/1"

Amount = Annotated[int | float, Field(ge=0, allow_inf_nan=False)]
Degrees = dict[Literal[CUTTABLE], Annotated[int, Field(ge=2)]]  # type: ignore[valid-type]


class _Part(BaseModel):
    """Unknown keys are refused, and a text is not a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelRecord(_Part):
    """Which network was planned, and for which mini-batch."""

    name: str
    digest: str
    batch: Annotated[int, Field(ge=1)]


class CostRecord(_Part):
    """What was minimised and what came out."""

    name: str
    value: Amount
    unit: str
    parameters: dict[str, int | float] = {}


class Split(_Part):
    """One split of the array: the choice and the cost of every layer.

    Attributes:
        level: 0 for the outermost.
        group: which groups of the level it stands for; ``all`` on an array of like devices.
        ways: into how many parts it splits a group.
        shares: the share of each part, summing to 1.
        choices: for each layer the degree of each dim that is divided; none for a join done whole.
        costs: for each layer what it and the tensors it reads cost, in all groups together.
        cost: their sum.
    """

    level: Annotated[int, Field(ge=0)]
    group: str
    ways: Annotated[int, Field(ge=2)]
    shares: list[Annotated[float, Field(ge=0, le=1)]]
    choices: dict[str, Degrees]
    costs: dict[str, Amount]
    cost: Amount

    def dim(self, layer: str) -> str | None:
        """The dim in which a layer is cut; None for a join done whole."""
        return next(iter(self.choices[layer]), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Where two plans differ.

    Attributes:
        layer: the layer, or empty for a level's or the plan's own cost.
        level: the level; None for the whole plan.
        before: what the first plan says: a dim, an amount, or that there is no such layer.
        after: what the second says.
        what: ``choice``, ``cost`` or ``layer``.
    """

    layer: str
    level: int | None
    before: str
    after: str
    what: str

    def __str__(self) -> str:
        """``fc1 H2: batch -> in_channels``."""
        place = " ".join(filter(None, [self.layer, "" if self.level is None else f"H{self.level + 1}"]))
        noun = "" if self.what == "choice" else f" {self.what}"
        return f"{place or 'plan'}{noun}: {self.before} -> {self.after}"


class Plan(_Part):
    """A choice for every layer at every level.

    Attributes:
        schema_: version of the format.
        model: the network.
        strategy: the name under which it was planned.
        space: the choices that were allowed.
        search: how the levels were gone through.
        solver: what solved the cost graphs.
        array: ways of each level, outermost first.
        pins: choices that were held, as ``layer@level=dim``.
        cost: what was minimised.
        claim: what the plan is optimal over.
        splits: one for each level, outermost first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    schema_: Literal["hypar.plan/1"] = Field(default="hypar.plan/1", alias="schema")
    model: ModelRecord
    strategy: str
    space: str
    search: str
    solver: str
    array: Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=1)]
    pins: list[str] = []
    cost: CostRecord
    claim: str
    splits: Annotated[list[Split], Field(min_length=1)]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Every level once, every split with the same layers."""
        if [(split.level, split.ways) for split in self.splits] != list(enumerate(self.array)):
            msg = f"splits do not match the array {self.array}: one a level, outermost first, is allowed"
            raise ValueError(msg)
        for split in self.splits:
            if not set(split.choices) == set(split.costs) == set(self.splits[0].choices):
                msg = f"splits[{split.level}]: its choices, its costs and level 0 name different layers"
                raise ValueError(msg)
        return self

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that are cut, in topological order."""
        return tuple(self.splits[0].choices)

    @property
    def num_devices(self) -> int:
        """Devices of the array."""
        devices = 1
        for ways in self.array:
            devices *= ways
        return devices

    def dims(self, layer: str) -> tuple[str | None, ...]:
        """The dim in which a layer is cut at each level."""
        return tuple(split.dim(layer) for split in self.splits)

    def to_json(self) -> str:
        """The plan file's text; the same plan is the same bytes."""
        return format_json(self.model_dump(mode="json", by_alias=True)) + "\n"

    def write(self, file: str | Path) -> None:
        """Write the plan whole or not at all.

        Raises:
            DocumentError: the folder is missing or cannot be written to.
        """
        write_text(Path(file), self.to_json())

    def render(self, report: str = "table") -> str:
        """The plan as a report writes it: ``table``, ``markdown`` or ``html``.

        Raises:
            UnknownNameError: there is no such report.
        """
        text: str = load_plugin("reports", report).render(self)
        return text

    def __repr__(self) -> str:
        """A readable table, as in a terminal."""
        return self.render()

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """A coloured grid, as in a notebook."""
        return self.render("html")


def read_plan(file: str | Path) -> Plan:
    """Read a plan file.

    Raises:
        InputError: it is missing, damaged, or of another schema.
    """
    path = Path(file)
    data = read_json(path)
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        newer = isinstance(schema, str) and schema.startswith("hypar.plan/")
        hint = "it was written by a newer hypar" if newer else ""
        raise PlanError(f"{path}: schema", f"found {schema!r}", SCHEMA, hint)

    def place(where: Where) -> str:
        return f"{path}: {field_name(where)}" if where else str(path)

    return validated(Plan, data, place=place, error=PlanError)


def diff_plans(before: Plan, after: Plan) -> tuple[Change, ...]:
    """Every layer and level where two plans differ, choices first, then costs.

    Raises:
        PlanError: the plans are of different arrays or different costs.
    """
    for name, a, b in (
        ("array", before.array, after.array),
        ("cost", (before.cost.name, before.cost.unit), (after.cost.name, after.cost.unit)),
    ):
        if a != b:
            raise PlanError(name, f"the plans differ: {a} and {b}", "plans of one array and one cost")
    return (*_layer_changes(before, after), *_choice_changes(before, after), *_cost_changes(before, after))


def _layer_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """Layers that only one of the plans has."""
    for layer in dict.fromkeys((*before.layers, *after.layers)):
        if layer not in before.layers or layer not in after.layers:
            there = layer in before.layers
            words = ("planned", "not in the model") if there else ("not in the plan", "in the model")
            yield Change(layer=layer, level=None, before=words[0], after=words[1], what="layer")


def _choice_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """Choices that differ."""
    for old, new in zip(before.splits, after.splits, strict=True):
        for layer in old.choices:
            if layer in new.choices and old.choices[layer] != new.choices[layer]:
                texts = [_degrees(split.choices[layer]) for split in (old, new)]
                yield Change(layer=layer, level=old.level, before=texts[0], after=texts[1], what="choice")


def _cost_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """Costs that differ: of a layer, of a level, of the plan."""
    for old, new in zip(before.splits, after.splits, strict=True):
        for layer in old.costs:
            if layer in new.costs and old.costs[layer] != new.costs[layer]:
                yield _cost_change(layer, old.level, old.costs[layer], new.costs[layer])
        if old.cost != new.cost:
            yield _cost_change("", old.level, old.cost, new.cost)
    if before.cost.value != after.cost.value:
        yield _cost_change("", None, before.cost.value, after.cost.value)


def _cost_change(layer: str, level: int | None, before: float, after: float) -> Change:
    return Change(layer=layer, level=level, before=f"{before:,}", after=f"{after:,}", what="cost")


def _degrees(degrees: dict[str, int]) -> str:
    """A choice in a few letters; a degree is named where it is not two."""
    named = [dim if degree == 2 else f"{dim} x{degree}" for dim, degree in degrees.items()]
    return ", ".join(named) or "whole"
