"""Plan: what was decided, what it costs, and everything needed to decide it again.

Written as versioned JSON, described in ``docs/plans.md``. A plan knows nothing of networks: showing and
comparing plans needs no model file.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hypar.errors import OptionError, PlanError, UnknownNameError
from hypar.files import write_text
from hypar.json_files import format_json, read_json
from hypar.placement import ALONE, WHOLE, Choice, grid
from hypar.quoting import Where, field_name, shown
from hypar.registry import load_plugin
from hypar.score import Amount, Score
from hypar.space import parse_space
from hypar.validation import validated
from hypar.words import CUTTABLE

if TYPE_CHECKING:
    from collections.abc import Collection

MOST_DEVICES = 2**20
"""Devices of an array: 20 two-way levels."""

Operators = Literal["operators"]

Degrees = dict[Literal[CUTTABLE], Annotated[int, Field(ge=1)]]  # type: ignore[valid-type]


class _Part(BaseModel):
    """Unknown keys are refused, and a text is not a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelRecord(_Part):
    """Which network was planned, and for which mini-batch."""

    name: str
    digest: str
    batch: Annotated[int, Field(ge=1)]


class ProfileRecord(_Part):
    """Which table of measured times was read."""

    name: str
    digest: str


class CostRecord(_Part):
    """What was minimised and what came out."""

    name: str
    value: Amount
    unit: str
    parameters: dict[str, int | float | str] = {}


class Split(_Part):
    """One split of the array: the choice and the cost of every layer.

    Attributes:
        level: 0 for the outermost.
        group: which groups of the level it stands for; ``all`` on an array of like devices.
        ways: into how many parts it splits a group.
        shares: the share of each part, summing to 1.
        choices: for each layer the degree of each dim that is divided; none for a join done whole, a batch of
            one part for a layer that one device does.
        costs: for each layer what it and the tensors it reads cost, in all groups together.
        cost: their sum.
    """

    level: Annotated[int, Field(ge=0)]
    group: str
    ways: Annotated[int, Field(ge=2)]
    shares: list[Annotated[float, Field(ge=0, le=1)]]
    choices: Annotated[dict[str, Degrees], Field(min_length=1)]
    costs: dict[str, Amount]
    cost: Amount

    def require_whole(self, layers: Collection[str]) -> None:
        """Refuse other layers than those of level 0, and choices or shares that do not fit the ways.

        Raises:
            ValueError: it does.
        """
        here = f"splits[{self.level}]"
        if not set(self.choices) == set(self.costs) == set(layers):
            raise ValueError(f"{here}: its choices, its costs and level 0 name different layers")
        if len(self.shares) != self.ways or abs(math.fsum(self.shares) - 1) > 1e-9:
            raise ValueError(f"{here}.shares: found {shown(self.shares)}; allowed: {self.ways} that sum to 1")
        for layer, degrees in self.choices.items():
            product = math.prod(degrees.values())
            alone = 1 in degrees.values() and degrees != ALONE.as_degrees()
            if alone or product > self.ways or any(self.ways % degree for degree in degrees.values()):
                allowed = (
                    f"degrees that divide {self.ways} ways, at most {self.ways} devices; batch 1 for one"
                )
                place = field_name(("splits", self.level, "choices", layer))
                raise ValueError(f"{place}: found {shown(degrees)}; allowed: {allowed}")

    def choice(self, layer: str) -> Choice:
        """What the level does to a layer."""
        return _choice(tuple(self.choices[layer].items()))

    def dim(self, layer: str) -> str | None:
        """The dim in which a layer is cut, several joined by ``*``; None where none is."""
        return "*".join(self.choice(layer).divided) or None


@lru_cache(maxsize=4096)
def _choice(degrees: tuple[tuple[str, int], ...]) -> Choice:
    """What degrees stand for; layers and levels have few different ones."""
    return grid(dict(degrees)) if degrees else WHOLE


class RefinementRecord(_Part):
    """What refinement against the engine changed.

    Attributes:
        before_s: the engine's time of the plan that was searched.
        after_s: that of the refined plan.
        changed: choices that differ.
    """

    before_s: Amount
    after_s: Amount
    changed: Annotated[int, Field(ge=0)]


class Plan(_Part):
    """A choice for every layer at every level.

    Attributes:
        schema_: version of the format.
        model: the network.
        graph: ``operators`` where pools are planned too; None for weighted layers and joins alone.
        strategy: the name under which it was planned.
        space: the choices that were allowed.
        search: how the levels were gone through.
        solver: what solved the cost graphs.
        array: ways of each level, outermost first.
        pins: choices that were held, as ``layer@level=dim``.
        profile: the measured times that the cost counted; None where it counted none.
        bounds: what the cost is at least, over all levels or level by level; None where the solver is exact or
            states none.
        cost: what was minimised.
        claim: what the plan is optimal over.
        splits: one for each level, outermost first.
        refined: what refinement against the engine changed; None where none was asked for.
        score: what a machine makes of it; None where none was named.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    schema_: Literal["hypar.plan/1"] = Field(default="hypar.plan/1", alias="schema")
    model: ModelRecord
    graph: Operators | None = None
    strategy: str
    space: str
    search: str
    solver: str
    array: Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=1)]
    pins: list[str] = []
    profile: ProfileRecord | None = None
    bounds: list[Amount] | None = None
    cost: CostRecord
    claim: str
    splits: Annotated[list[Split], Field(min_length=1)]
    refined: RefinementRecord | None = None
    score: Score | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Every level once, every split with the same layers, every choice and share as the level has ways."""
        if math.prod(self.array) > MOST_DEVICES:
            ways = "x".join(str(ways) for ways in self.array)
            raise ValueError(f"array: found {ways:.60}; allowed: at most {MOST_DEVICES:,} devices")
        if [(split.level, split.ways) for split in self.splits] != list(enumerate(self.array)):
            raise ValueError(
                f"splits do not match the array {self.array}; allowed: one a level, outermost first"
            )
        for split in self.splits:
            split.require_whole(self.splits[0].choices)
        parse_space(self.space)
        return self

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that are cut, in topological order."""
        return tuple(self.splits[0].choices)

    @property
    def num_devices(self) -> int:
        """Devices of the array."""
        return math.prod(self.array)

    def dims(self, layer: str) -> tuple[str | None, ...]:
        """The dim in which a layer is cut at each level, several joined by ``*``; None where none is.

        Raises:
            UnknownNameError: no layer of that name is cut.
        """
        self._require(layer)
        return tuple(split.dim(layer) for split in self.splits)

    def choices(self, layer: str) -> tuple[Choice, ...]:
        """The choice of a layer at each level.

        Raises:
            UnknownNameError: no layer of that name is cut.
        """
        self._require(layer)
        return tuple(split.choice(layer) for split in self.splits)

    @property
    def in_grids(self) -> bool:
        """Whether a level may divide several dims at once, or leave devices idle."""
        return parse_space(self.space).grids and (
            max(self.array) > 2 or any(self.devices(layer) < self.num_devices for layer in self.layers)
        )

    def devices(self, layer: str) -> int:
        """How many devices work for a layer.

        Raises:
            UnknownNameError: no layer of that name is cut.
        """
        pairs = zip(self.choices(layer), self.array, strict=True)
        return math.prod(choice.devices(ways) for choice, ways in pairs)

    def _require(self, layer: str) -> None:
        """Refuse a layer that there is none of."""
        if layer not in self.splits[0].choices:
            raise UnknownNameError("layer", layer, self.layers)

    def to_data(self) -> dict[str, Any]:
        """The plan as plain data, without what it does not have."""
        data = self.model_dump(mode="json", by_alias=True)
        return {key: value for key, value in data.items() if value is not None}

    def to_json(self) -> str:
        """The plan file's text; the same plan is the same bytes."""
        return format_json(self.to_data()) + "\n"

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


SCHEMA: str = Plan.model_fields["schema_"].default
"""The one format that is written and read."""


def read_plan(file: str | Path) -> Plan:
    """Read a plan file.

    Raises:
        InputError: it is missing, damaged, or of another schema.
    """
    path = Path(file)
    data = read_json(path)
    if not isinstance(data, dict):
        raise PlanError(str(path), f"found {shown(data)}", "an object")
    schema = data.get("schema")
    if schema != SCHEMA:
        hint = "it was written by a newer hypar" if _is_newer(schema) else ""
        raise PlanError(f"{path}: schema", f"found {shown(schema)}", SCHEMA, hint)

    def place(where: Where) -> str:
        return f"{path}: {field_name(where)}" if where else str(path)

    try:
        return validated(Plan, data, place=place, error=PlanError)
    except OptionError as error:
        raise PlanError(f"{path}: space", error.found, error.allowed) from None


def _is_newer(schema: object) -> bool:
    """Whether a schema is a later version of this one."""
    family, _, version = SCHEMA.partition("/")
    found, _, number = str(schema).partition("/")
    return (
        found == family
        and number.isascii()
        and number.isdigit()
        and (len(number), number) > (len(version), version)
    )
