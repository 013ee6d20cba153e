"""The features of a request that exclude each other: one row for each pair, with the message and the reason.

A pair that hypar learns to plan is lifted by deleting its row. ``docs/refusals.md`` lists the rows, and a test plans
every pair of features that has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from hypar.costs.base import Cost, load_cost, parameters_of
from hypar.errors import OptionError, shown
from hypar.plan.request import BEST, Request
from hypar.plan.stages import INTERLEAVED
from hypar.sharding.conventions import PAPER
from hypar.sharding.tree import MOST_DEVICES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_LEVELS = MOST_DEVICES.bit_length() - 1


class Refusal(NamedTuple):
    """Two of ``FEATURES`` that exclude each other: the message is about the ``first``, and the ``reason`` for the documentation.

    It says ``where``, an option, what was ``found``, and what is ``allowed``; their ``{}`` fields are filled in from the
    request.
    """

    first: str
    second: str
    where: str
    found: str
    allowed: str
    reason: str

    def error(self, words: Mapping[str, str]) -> OptionError:
        """Return the error of a request with some words for the fields of the message."""
        return OptionError(*(text.format_map(words) for text in (self.where, self.found, self.allowed)))


_MACHINE = ("no machine is named", "one, as --hardware hmc")
_DIFFER = ("the devices of hardware {hardware} are heterogeneous", "a machine of identical devices")
_SHARED = ("all devices are identical and share equally", "a heterogeneous machine")
_WITHOUT = ("given without stages", "stages, as --stages 4")
_STAGED = ("given with stages, each on one device group", "none")
_PARAMETER = "the parameters of a cost are its own"
_TIMED = "its number is a time on a machine, or needs one"

REFUSALS = (
    Refusal("levels", "an array", "levels", "given together with an array", "one of the two",
            "both say the ways of the levels"),
    Refusal("an optimizer", "no machine", "optimizer", *_MACHINE,
            "an optimizer changes updates and memory, which a score alone counts"),
    Refusal("a timed cost", "no machine", "cost {cost}", *_MACHINE, _TIMED),
    Refusal("refinement", "no machine", "refine", *_MACHINE, _TIMED),
    Refusal("chunks", "no machine", "chunks", *_MACHINE, _TIMED),
    Refusal("stages", "no machine", "stages", *_MACHINE, _TIMED),
    Refusal("a schedule", "no stages", "schedule", *_WITHOUT, "a schedule is the order of the stages' work"),
    Refusal("microbatches", "no stages", "microbatches", *_WITHOUT, "microbatches go through stages"),
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
    Refusal("shares", "stages on identical devices of groups", "shares", *_STAGED, "a layer is on one device group"),
    Refusal("a profile", "a heterogeneous machine", "profile", *_DIFFER, "a profile is of one kind of device"),
    Refusal("another count than the paper's", "a cost with its own count", "convention",
            "found {convention}; cost {cost} has a count of its own", "paper", "its transfers are its own"),
    Refusal("shares", "identical devices", "shares", *_SHARED, "equal devices are equally loaded by equal shares"),
    Refusal("unequal shares", "a cost without a slowest group", "shares", "cost {cost} has no slowest device group to relieve",
            "equal, or cost accpar", "a sum over all groups is least where one group does all"),
    Refusal("a profile", "a cost without measured times", "profile", "cost {cost} counts no measured times",
            "a cost that does, as deepa", "the times would have no effect"),
    Refusal("a profile", "several levels", "profile {profile}: ways", "found {measured}", "one level of them; the array is {array}",
            "a profile has the times of one level"),
    Refusal("a weight between layers", "a cost without that weight", "cost {cost}", "has no parameter 'inter_weight'", "{parameters}", _PARAMETER),
    Refusal("a mode", "a cost without modes", "cost {cost}", "has no parameter 'mode'", "{parameters}", _PARAMETER),
)  # fmt: skip
"""Every pair that is refused, in the order in which they are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Request):
    """A request in the form in which its features are looked for, with its machine and measured times read.

    Its array has levels alone, so many of them ``outside`` the stages; ``starts`` are names, and ``parts`` their usual number.
    """

    array: Sequence[int] | None = None
    starts: tuple[str, ...] | None = None
    outside: int = 0

    @classmethod
    def whose(cls, request: Request) -> Asked:
        """Return the form of a request.

        Raises ``OptionError`` for an array with several numbers of stages, as ``s4``, or with one beside ``stages``, and for
        ``starts`` that are no names.
        """
        given, words = request.given(), [ways for ways in request.array or () if isinstance(ways, str)]
        if request.starts is not None:
            given["starts"] = _names(request.starts)
        if request.schedule == INTERLEAVED:
            given.setdefault("parts", 2)
        if not words:
            return cls(**given)
        if len(words) > 1 or not re.fullmatch(r"s\d+", words[0]):
            allowed = "ways of levels, and one number of stages among them, as 2, s4, 2"
            raise OptionError("array", f"found {shown(', '.join(words))}", allowed)
        if request.stages is not None:
            found = f"found {shown(request.stages)} and an array with {words[0]}"
            raise OptionError("stages", found, "one of the two")
        array = [*(request.array or ())]
        outside = array.index(words[0])
        stages = int(str(array.pop(outside))[1:])
        return cls(**{**given, "array": array, "stages": stages, "outside": outside})

    @property
    def groups(self) -> bool:
        """Return whether the machine has several groups of devices."""
        return self.hardware is not None and bool(self.hardware.groups)

    @property
    def ways(self) -> Sequence[int]:
        """Return the ways of each level, for identical devices; a value that is no number counts as not given."""
        if self.array is not None:
            return self.array
        return (2,) * (min(self.levels, MOST_LEVELS) if isinstance(self.levels, int) else 4)

    @property
    def cut(self) -> bool:
        """Return whether there are levels, inside the stages if there are any."""
        return self.levels != 0 if self.array is None else bool(self.array)

    @property
    def count(self) -> int | str | None:
        """Return the number of stages, also of those whose first layers are given."""
        return self.stages if self.starts is None else len(self.starts) // (self.parts or 1)

    @property
    def staged(self) -> bool:
        """Return whether the request is for stages, by their number or first layers; one whose layers are cut is none."""
        none = (None, 1) if self.cut else (None,)
        return any(count not in none for count in (self.stages, self.starts and len(self.starts)))

    @property
    def uneven(self) -> bool:
        """Return whether there are uneven splits."""
        staged = self.staged and not self.outside and self.stages != BEST
        return self.groups and (not staged or self.hardware.nested)

    @property
    def parameters(self) -> dict[str, float | str]:
        """Return the parameters of the cost that are given."""
        given = {"inter_weight": self.inter_weight, "mode": self.mode}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def counting(self) -> Cost:
        """Return the cost, which is named, with those of the given parameters that it has, whose values it checks."""
        has = parameters_of(load_cost(str(self.cost), {}))
        return load_cost(str(self.cost), {name: own for name, own in self.parameters.items() if name in has})

    @property
    def pin(self) -> str:
        """Return the first pin that names a level; empty if none does."""
        return next((pin for pin in map(str, self.pins) if "@" in pin.rpartition("=")[0]), "")


def _names(starts: str | Sequence[str]) -> tuple[str, ...]:
    names = starts.split(",") if isinstance(starts, str) else starts
    if not names or not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        allowed = "names of layers, as 'conv1,conv3,fc1'"
        raise OptionError("starts", f"found {shown(starts)}", allowed)
    return tuple(name.strip() for name in names)


def fields_of(cost: str) -> set[str]:
    """Return the names of the fields of a cost: its parameters, and what it counts with besides."""
    return {item.name for item in fields(load_cost(cost, {}))}  # type: ignore[arg-type]


def follows(cost: str) -> bool:
    """Return whether a cost can count by any convention."""
    return "convention" in fields_of(cost)


def _words(asked: Asked) -> dict[str, str]:
    layer, at, rest = asked.pin.partition("@")
    return {
        "array": "x".join(map(str, asked.ways)),
        "convention": repr(asked.convention),
        "cost": repr(asked.cost),
        "everywhere": f"{layer}{rest[rest.find('=') :]}" if at else "",
        "limit": "search-memory" if asked.time_limit is None else "time-limit",
        "measured": str(getattr(asked.profile, "ways", "")),
        "profile": repr(getattr(asked.profile, "name", "")),
        "hardware": repr(getattr(asked.hardware, "name", "")),
        "schedule": repr(asked.schedule or "1f1b"),
        "parameters": ", ".join(parameters_of(asked.counting)) or "none",
        "pin": f"{asked.pin!r:.200}",
    }


GIVEN = (
    "levels", "an array", "an optimizer", "chunks", "a schedule", "microbatches", "parts", "a balance", "starts", "pins",
    "a profile", "shares", "a mode",
)  # fmt: skip
"""The features that an option of the last word's name is given."""


def _given(name: str) -> Callable[[Asked], bool]:
    usual = Asked.__dataclass_fields__[name].default
    return lambda asked: getattr(asked, name) != usual


def _lacks(name: str) -> Callable[[Asked], bool]:
    return lambda asked: not hasattr(asked.counting, name)


FEATURES: dict[str, Callable[[Asked], bool]] = {
    **{name: _given(name.rpartition(" ")[2]) for name in GIVEN},
    "refinement": _given("refine"),
    "a weight between layers": _given("inter_weight"),
    "several levels": lambda asked: len(asked.ways) > 1,
    "no machine": lambda asked: asked.hardware is None,
    "identical devices": lambda asked: not asked.groups,
    "a heterogeneous machine": lambda asked: asked.groups,
    "uneven splits": lambda asked: asked.uneven,
    "stages on identical devices of groups": lambda asked: asked.groups and asked.staged and not asked.uneven,
    "stages": lambda asked: asked.staged,
    "no stages": lambda asked: not asked.staged,
    "the best stages": lambda asked: asked.stages == BEST,
    "stages without levels": lambda asked: asked.staged and not asked.cut,
    "stages in one part": lambda asked: asked.staged and asked.schedule != INTERLEAVED,
    "pins at a level": lambda asked: bool(asked.pin),
    "unequal shares": lambda asked: asked.shares not in (None, "equal"),
    "a limit": lambda asked: asked.time_limit is not None or asked.search_memory is not None,
    "another count than the paper's": lambda asked: asked.convention not in (None, PAPER),
    "a timed cost": lambda asked: hasattr(asked.counting, "machine"),
    "a cost with its own count": lambda asked: not follows(str(asked.cost)),
    "a cost without a slowest group": lambda asked: not asked.counting.slowest,
    "a cost without measured times": _lacks("profile"),
    "a cost without that weight": _lacks("inter_weight"),
    "a cost without modes": _lacks("mode"),
}
"""The features of which some exclude each other, and whether a request has them."""


def require_together(asked: Asked) -> None:
    """Raise ``OptionError`` for a request with two features that exclude each other, ``UnknownNameError`` for no such cost."""
    for row in REFUSALS:
        if FEATURES[row.first](asked) and FEATURES[row.second](asked):
            raise row.error(_words(asked))
