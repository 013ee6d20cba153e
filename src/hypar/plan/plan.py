"""The plan: what was asked, the tree that was decided, its cost, and its score.

A plan is written as versioned JSON, described in ``docs/plans.md``. It knows nothing of networks: showing and
comparing plans needs no model file.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Self, cast

from pydantic import model_validator

from hypar.document import Result
from hypar.errors import OptionError, PlanError, Where, field_name, shown
from hypar.files.text import format_json, read_json, write_text
from hypar.files.validation import validated
from hypar.plan.content import PlanContent, require_whole, rooted

FAMILY = "hypar.plan"
"""The name of the format of plans, of all its versions."""

SCHEMA: Final = "hypar.plan/2"
"""The only format that is written and read."""


class Plan(Result, PlanContent):
    """A choice for every layer at every level.

    Attributes:
        graph: ``operators`` if pools are planned too; None for weighted layers and joins alone.
        array: ways of each level, outermost first; empty for a heterogeneous machine.
        arrays: for a heterogeneous machine, the ways of each level inside each group of identical devices, or inside each
            of its stages.
        shares: for a heterogeneous machine, the rule that found the shares of its uneven splits.
        path: for a heterogeneous machine, the slowest groups, whose splits the cost sums; None if it sums all.
        pins: choices that were held, as ``layer@level=dim``.
        profile: the measured times that the cost counted; None if it counted none.
        files: the files that it was planned with, where they are not found by name beside the plan.
        bounds: lower bounds of the cost, over all levels or level by level; None if the solver is exact or states none.
        limits: the limits that kept the search from a proof; None if none did.
        convention: the convention by which the cost counts bytes; None for ``paper``, and for a cost with a count of
            its own.
        stages: the stages of a pipeline, each cut over devices of its own; None without a pipeline.
        root: the tree of levels, uneven splits and stages. In the file its splits are listed, a group's before its
            subgroups', and with stages on its groups one for each level of a group, with the layers of its stages.
        baselines: the strategies that the engine timed beside the search's plan; this plan is the fastest. None if
            none were timed.
        refined: the effect of refinement against the engine; None if it was not requested.
        chunks: the layers that exchange their gradients together; None if chunks were not requested.
        score: the score on a machine; None if no machine was named.
    """

    _document: ClassVar[str] = "plan"

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Read the listed splits as a tree, and check that levels, layers, choices and shares agree."""
        self.__dict__["root"] = rooted(self.__dict__["root"], self.stages)
        require_whole(self)
        return self

    def to_data(self) -> dict[str, Any]:
        """Return the plan as plain data, without keys of absent entries."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def to_json(self) -> str:
        """Return the plan file's text; equal plans give equal bytes."""
        return format_json(self.to_data()) + "\n"

    def write(self, file: str | Path) -> None:
        """Write the plan whole or not at all.

        Raises:
            DocumentError: the folder is missing or cannot be written to.
        """
        write_text(Path(file), self.to_json())

    def render(self, form: str = "table") -> str:
        """Render the plan as ``table``, ``markdown``, ``html`` or ``csv``.

        Raises:
            UnknownNameError: there is no such form.
        """
        text: str = importlib.import_module("hypar.reports.renderers").rendered(self.document(), form)
        return text

    def explain(self, layer: str = "", *, model: Any = None) -> Any:
        """Explain the plan as ``hypar.explain_plan`` does, with the network and the machine that it was made from.

        Args:
            layer: a layer's name or a pattern whose choices are all costed.
            model: the network or its file, if the plan was read and its model's name does not find it.

        Raises:
            OptionError: there is no such layer, or no layer is cut.
            InputError: the network is not found or is another.
        """
        sources = importlib.import_module("hypar.planning.sources")
        found = sources.network_of(self, model), sources.scored_on(self), sources.times_of(self)
        explain = importlib.import_module("hypar.studies.alternatives").explain_plan
        return explain(self, found[0], layer=layer, machine=found[1], profile=found[2])

    def __repr__(self) -> str:
        """Return a readable table for a terminal."""
        return self.render()

    __str__ = __repr__


def read_plan(file: str | Path) -> Plan:
    """Read a plan file.

    Raises:
        InputError: it is missing, damaged, or of another schema.
    """
    path = Path(file)
    data = read_json(path)
    if not isinstance(data, dict):
        raise PlanError(str(path), f"found {shown(data)}", "an object")
    if data.get("schema") != SCHEMA:
        version = re.fullmatch(rf"{FAMILY}/0*([1-9][0-9]*)", str(data.get("schema")))
        hint = "" if version is None else "it was written by a newer hypar"
        hint = "plan again, as it is of an older hypar" if version and version[1] == "1" else hint
        raise PlanError(f"{path}: schema", f"found {shown(data.get('schema'))}", SCHEMA, hint)

    def place(where: Where) -> str:
        return f"{path}: {field_name(where)}" if where else str(path)

    try:
        plan = validated(Plan, data, place=place, error=PlanError)
    except OptionError as error:
        raise PlanError(f"{path}: space", error.found, error.allowed) from None
    remember(plan, Origin(file=path))
    if plan.score is not None:
        remember(plan.score, Origin(plan=plan, file=path))
    return plan


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Origin:
    """From what a plan or a score was made; None is what the names in it find, beside ``file``, the plan's."""

    plan: Any = None
    network: Any = None
    machine: Any = None
    profile: Any = None
    file: Path = Path("plan")


def remember(result: Any, origin: Origin) -> None:
    """Note the origin of a plan or a score; it is no part of the record, of its equality or of its file."""
    object.__setattr__(result, "_origin", origin)


def origin_of(result: Any) -> Origin:
    """Return the origin of a plan or a score; an empty one if it is not known."""
    return cast("Origin", getattr(result, "_origin", Origin()))
