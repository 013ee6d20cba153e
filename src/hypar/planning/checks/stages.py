"""Check a request for stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError, shown
from hypar.plan.request import BEST
from hypar.plan.stages import INTERLEAVED
from hypar.sharding.tree import MOST_DEVICES

if TYPE_CHECKING:
    from collections.abc import Sequence


class Pipelined(NamedTuple):
    """The checked request for stages; its fields have the names of a request's.

    Attributes:
        stages: the number of stages, ``best``, or None for no stages.
        schedule: the order of work.
        microbatches: the number of microbatches; None for the schedule's default.
        balance: the quantity of the costliest stage that the partition minimises.
        starts: names of the first layers of the stages, or of their parts; empty to search the best partition.
        parts: the number of parts of each stage; None for one.
    """

    stages: int | str | None
    schedule: str
    microbatches: int | None
    balance: str = "time"
    starts: tuple[str, ...] = ()
    parts: int | None = None


def checked_stages(
    stages: int | str | None,
    schedule: str | None,
    microbatches: int | None,
    balance: str | None = None,
    starts: str | Sequence[str] | None = None,
    parts: int | None = None,
    *,
    cut: bool = True,
) -> Pipelined:
    """Check the request for stages; one stage becomes None if its layers are cut, as that is a plan without stages.

    Args:
        stages: the number of stages, or ``best``.
        schedule: the order of work.
        microbatches: the number of microbatches.
        balance: the quantity that the partition minimises.
        starts: names of the stages' first layers; a text separates them with commas.
        parts: the number of parts of each stage.
        cut: whether there are levels inside the stages.

    Raises:
        OptionError: a number is out of range, or the starts are not as many as the parts of all stages.
    """
    for name, number in (("stages", None if stages == BEST else stages), ("microbatches", microbatches)):
        whole = isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST_DEVICES
        if number is not None and not whole:
            allowed = f"a whole number from 1 to {MOST_DEVICES:,}" + (", or best" if name == "stages" else "")
            raise OptionError(name, f"found {shown(number)}", allowed)
    order = "1f1b" if schedule is None else schedule
    several = _checked_parts(parts, order)
    names = _checked_starts(starts, stages, several or 1)
    count = (len(names) // (several or 1) or stages) if has_stages(stages, starts, cut=cut) else None
    return Pipelined(count, order, microbatches, balance or "time", names, several)


def _checked_parts(parts: int | None, schedule: str) -> int | None:
    """Return the number of parts of each stage: for the interleaved schedule 2 if not given, otherwise None."""
    if schedule != INTERLEAVED:
        return None
    if parts is None:
        return 2
    if not isinstance(parts, int) or isinstance(parts, bool) or not 2 <= parts <= MOST_DEVICES:
        raise OptionError("parts", f"found {shown(parts)}", f"a whole number from 2 to {MOST_DEVICES:,}")
    return parts


def named_starts(starts: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the stages' first layers; a text separates them with commas.

    Raises:
        OptionError: they are neither a text nor several names.
    """
    names = starts.split(",") if isinstance(starts, str) else starts
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise OptionError("starts", f"found {shown(starts)}", "names of layers, as 'conv1,conv3,fc1'")
    return tuple(name.strip() for name in names)


def has_stages(stages: int | str | None, starts: str | Sequence[str] | None, *, cut: bool) -> bool:
    """Return whether a request is for stages, by their number or by their first layers.

    Args:
        stages: the number of stages, or ``best``.
        starts: names of the stages' first layers.
        cut: whether there are levels inside the stages; one stage is then a plan without stages.
    """
    none = (None, 1) if cut else (None,)
    return any(count not in none for count in (stages, None if starts is None else len(named_starts(starts))))


class Nodes(NamedTuple):
    """The nodes that are asked for by their ways.

    Attributes:
        array: the ways of each level, the stages left out; None if they are not given.
        stages: the number of stages, ``best``, or None for no stages.
        outside: the number of levels outside the stages.
    """

    array: Sequence[int] | None
    stages: int | str | None
    outside: int


def checked_nodes(array: Sequence[int | str] | None, stages: int | str | None) -> Nodes:
    """Return the levels and the stages of an array, one of whose entries may be a number of stages, as ``s4``.

    Args:
        array: the ways of each level, outermost first, and of the stages.
        stages: the number of stages if they are outside all levels.

    Raises:
        OptionError: it has several numbers of stages, or one beside ``stages``.
    """
    places = [place for place, ways in enumerate(array or ()) if isinstance(ways, str)]
    if array is None or not places:
        return Nodes(array, stages, 0)  # type: ignore[arg-type]
    (first, *others), words = places, [str(array[place]) for place in places]
    count = words[0].removeprefix("s")
    if others or count == words[0] or not count.isdecimal():
        allowed = "ways of levels, and one number of stages among them, as 2, s4, 2"
        raise OptionError("array", f"found {shown(', '.join(words))}", allowed)
    if stages is not None:
        raise OptionError("stages", f"found {shown(stages)} and an array with {words[0]}", "one of the two")
    levels = [ways for place, ways in enumerate(array) if place != first]
    return Nodes(levels, int(count), first)  # type: ignore[arg-type]


def _checked_starts(
    starts: str | Sequence[str] | None, stages: int | str | None, parts: int = 1
) -> tuple[str, ...]:
    """Return the names of the first layers of the parts of all stages; empty if none are given."""
    if starts is None:
        return ()
    names = named_starts(starts)
    if not names:
        raise OptionError("starts", "found none", "the first layer of each stage")
    if len(names) % parts:
        raise OptionError("starts", f"found {len(names)}", f"a multiple of the {parts} parts of each stage")
    if stages not in {None, len(names) // parts}:
        raise OptionError("stages", f"found {shown(stages)} and starts of {len(names)}", "one of the two")
    return names
