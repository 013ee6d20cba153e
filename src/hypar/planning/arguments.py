"""The keyword arguments of ``plan_model`` that studies pass on: each study varies some of them and holds the others."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

from hypar.costs.base import load_cost
from hypar.errors import UnknownNameError
from hypar.planning.strategies.base import load_strategy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from hypar.machine.profiles import Profile


class HeldArguments(TypedDict, total=False):
    """The arguments of ``plan_model`` that no study varies, described there."""

    space: str | None
    cost: str | None
    search: str | None
    solver: str | None
    graph: str | None
    inter_weight: float | None
    mode: str | None
    profile: Profile | str | Path | None
    pins: str | Sequence[str]
    shares: str | None
    stages: int | str | None
    schedule: str | None
    microbatches: int | None
    parts: int | None
    balance: str | None
    starts: str | Sequence[str] | None
    optimizer: str
    refine: bool
    chunks: str | int | None
    time_limit: float | None
    search_memory: float | None


class PlanArguments(HeldArguments, total=False):
    """The same with the array and the mini-batch, which a sweep varies."""

    levels: int | None
    array: Sequence[int] | None
    batch: int | None


def require_known(function: str, given: Mapping[str, Any], known: type[HeldArguments]) -> None:
    """Refuse arguments that a study does not pass on; annotations alone do not stop a caller.

    Raises:
        UnknownNameError: there is no such argument.
    """
    for name in given:
        if name not in known.__annotations__:
            raise UnknownNameError("argument", name, sorted(known.__annotations__), function)


Given = TypeVar("Given", bound=HeldArguments)

BASELINE = "dp"
"""The strategy that others are compared with."""


def of_baseline(given: Given) -> Given:
    """Return the arguments for the plan of the baseline beside plans with other arguments.

    The baseline keeps its own space and equal shares, by which it is the baseline, and measured times and a mode count
    where its cost has them; it has everything else alike.
    """
    cost = cast("str | None", given.get("cost"))
    counted = load_cost(load_strategy(BASELINE).cost if cost is None else cost, {})
    has = {item.name for item in fields(counted)}  # type: ignore[arg-type]
    left_out = {"space", "shares"} | ({"profile", "mode"} - has)
    return cast("Given", {name: value for name, value in given.items() if name not in left_out})
