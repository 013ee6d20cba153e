"""The features of a request that exclude each other: one row for each pair, with the message and the reason.

A pair that hypar learns to plan is lifted by deleting its row. ``docs/refusals.md`` lists the rows, and a test plans
every pair of features that has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hypar.costs.base import load_cost
from hypar.errors import OptionError
from hypar.plan.records import INTERLEAVED
from hypar.plan.request import BEST, Request
from hypar.planning.resolved import Resolved, follows
from hypar.sharding.conventions import PAPER


class Refusal(NamedTuple):
    """Two features of a request that exclude each other: the message is about the ``first``, and the ``reason`` for the documentation.

    It says ``where``, an option, what was ``found``, and what is ``allowed``; their ``{}`` fields are filled in from the
    request.
    """

    first: str
    second: str
    where: str
    found: str
    allowed: str
    reason: str


_MACHINE = ("no machine is named", "one, as --hardware hmc")
_DIFFER = ("the devices of hardware {hardware} are heterogeneous", "a machine of identical devices")
_WITHOUT = ("given without stages", "stages, as --stages 4")
_TIMED = "its number is a time on a machine, or needs one"

REFUSALS = (
    Refusal("levels", "an array", "levels", "given together with an array", "one of the two",
            "both say the ways of the levels"),
    Refusal("an optimizer", "no machine", "optimizer", *_MACHINE,
            "an optimizer changes updates and memory, which a score alone counts"),
    Refusal("a precision", "no machine", "precision", *_MACHINE, "it is that of a step, which a score alone counts"),
    Refusal("zero", "no machine", "zero", *_MACHINE, "how weights rest is a matter of a step, which a score alone counts"),
    Refusal("recompute", "no machine", "recompute", *_MACHINE, "it is a matter of a step's time and memory, which a score alone counts"),
    Refusal("a timed cost", "no machine", "cost {cost}", *_MACHINE, _TIMED),
    Refusal("refinement", "no machine", "refine", *_MACHINE, _TIMED),
    Refusal("chunks", "no machine", "chunks", *_MACHINE, _TIMED),
    Refusal("stages", "no machine", "stages", *_MACHINE, _TIMED),
    Refusal("microbatches", "no machine", "microbatches", *_MACHINE, "gradients are added up over time, which a score alone counts"),
    Refusal("a schedule", "no stages", "schedule", *_WITHOUT, "a schedule is the order of the stages' work"),
    Refusal("parts", "no stages", "parts", *_WITHOUT, "parts are of stages"),
    Refusal("parts", "stages in one part", "parts", "given with schedule {schedule}", "schedule 'interleaved'",
            "every other schedule takes a stage whole"),
    Refusal("a balance", "no stages", "balance", *_WITHOUT, "a balance is of the costliest stage"),
    Refusal("starts", "no stages", "starts", *_WITHOUT, "one stage is a plan without stages"),
    Refusal("starts", "the best stages", "starts", "given together with the best stages", "one of the two",
            "both say the number of stages"),
    Refusal("starts", "a balance", "starts", "given together with a balance", "one of the two",
            "both say where the stages begin"),
    Refusal("pins at a level", "the best stages", "pin {pin}", "a level where the best stages are sought",
            "one for all levels, as {everywhere}", "how many levels are left inside the stages is not known in advance"),
    Refusal("pins", "stages without levels", "pins", "given where no layer is cut", "levels inside the stages",
            "a stage on one device has no choices"),
    Refusal("a profile", "stages without levels", "profile", "given where no layer is cut", "levels inside the stages",
            "a profile has the times of shards"),
    Refusal("a profile", "the best stages", "profile", "given where the best stages are sought", "a number of stages",
            "the levels inside the stages change from try to try"),
    Refusal("a limit", "stages", "{limit}", "given with stages, each with a search of its own", "none", "stages are many small searches"),
    Refusal("a limit", "uneven splits", "{limit}", *_DIFFER, "device groups have a search each"),
    Refusal("zero", "uneven splits", "zero", *_DIFFER, "device groups that share unequally would have unequal shares of a weight"),
    Refusal("shares", "stages on identical devices of groups", "shares", "given with stages, each on one device group",
            "none", "a layer is on one device group"),
    Refusal("a profile", "a heterogeneous machine", "profile", *_DIFFER, "a profile is of one kind of device"),
    Refusal("another count than the paper's", "a cost with its own count", "convention",
            "found {convention}; cost {cost} has a count of its own", "paper", "its transfers are its own"),
    Refusal("shares", "identical devices", "shares", "all devices are identical and share equally",
            "a heterogeneous machine", "equal devices are equally loaded by equal shares"),
    Refusal("unequal shares", "a cost without a slowest group", "shares", "cost {cost} has no slowest device group to relieve",
            "equal, or cost accpar", "a sum over all groups is least where one group does all"),
    Refusal("a profile", "a cost without measured times", "profile", "cost {cost} counts no measured times",
            "a cost that does, as deepa", "the times would have no effect"),
)  # fmt: skip
"""Every pair that is refused, in the order in which they are looked for."""


def _pin(own: Resolved) -> str:
    """Return the first pin that names a level; empty if none does."""
    return next((pin for pin in own.pins if "@" in pin.rpartition("=")[0]), "")


FEATURES: dict[str, Callable[[Mapping[str, Any], Resolved], bool]] = {
    "refinement": lambda _, own: own.refine,
    "a limit": lambda given, _: not given.keys().isdisjoint({"time_limit", "search_memory"}),
    "no machine": lambda _, own: own.machine is None,
    "identical devices": lambda _, own: own.heterogeneous is None,
    "a heterogeneous machine": lambda _, own: own.heterogeneous is not None,
    "uneven splits": lambda _, own: own.uneven,
    "stages on identical devices of groups": lambda _, own: own.heterogeneous is not None and not own.uneven,
    "stages": lambda _, own: own.stages is not None,
    "no stages": lambda _, own: own.stages is None,
    "the best stages": lambda _, own: own.stages == BEST,
    "stages without levels": lambda _, own: own.stages is not None and not own.array,
    "stages in one part": lambda _, own: own.stages is not None and own.schedule != INTERLEAVED,
    "pins at a level": lambda _, own: bool(_pin(own)),
    "unequal shares": lambda _, own: own.shares != "equal",
    "another count than the paper's": lambda given, _: given.get("convention", PAPER) != PAPER,
    "a timed cost": lambda _, own: hasattr(load_cost(own.cost, {}), "machine"),
    "a cost with its own count": lambda _, own: not follows(own.cost),
    "a cost without a slowest group": lambda _, own: not load_cost(own.cost, {}).slowest,
    "a cost without measured times": lambda _, own: not hasattr(load_cost(own.cost, {}), "profile"),
}
"""The features of a request, by the options that are given and what it comes to; any other is the option of its last word."""


def require_together(request: Request, own: Resolved) -> None:
    """Refuse a request with two features that exclude each other, by what it comes to as ``drafted`` says.

    Raises ``OptionError``, and ``UnknownNameError`` for no such cost.
    """
    given = request.given()

    def has(name: str) -> bool:
        return FEATURES[name](given, own) if name in FEATURES else name.rpartition(" ")[2] in given

    for row in REFUSALS:
        if has(row.first) and has(row.second):
            words, message = _words(request, own), (row.where, row.found, row.allowed)
            raise OptionError(*(text.format_map(words) for text in message))


def _words(request: Request, own: Resolved) -> dict[str, str]:
    layer, at, rest = _pin(own).partition("@")
    return {
        "convention": repr(request.convention),
        "cost": repr(own.cost),
        "everywhere": f"{layer}{rest[rest.find('=') :]}" if at else "",
        "limit": "search-memory" if request.time_limit is None else "time-limit",
        "hardware": repr(getattr(own.machine, "name", "")),
        "schedule": repr(own.schedule),
        "pin": f"{_pin(own)!r:.200}",
    }
