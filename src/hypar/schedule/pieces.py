"""Pieces of a step, computations and transfers: some seconds of a resource, on some device groups; what choices make move."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.sharding.amounts.counted import SEAM, Received, received_between, received_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.machine.links import LevelLink
    from hypar.machine.machine import DeviceGroup
    from hypar.machine.setting import Setting
    from hypar.network.training import Formats
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.cuts import Above
    from hypar.sharding.amounts.transfers import Between, Part, Sums
    from hypar.sharding.placement import Options

PHASE = "gradient"
"""The phase whose results are exchanged in chunks."""

WEIGHT = "weight"
"""The phase of transfers that gather weights."""

COMMUNICATION = "communication"
"""The kind of transfers."""

BETWEEN_STAGES = SEAM
"""In place of a level: the transfers between stages."""


def level_name(level: int) -> str:
    """Return the name of a level, as ``H1``; of ``BETWEEN_STAGES`` it is ``stages``."""
    return "stages" if level == BETWEEN_STAGES else f"H{level + 1}"


class Piece(NamedTuple):
    """A computation of some devices, or a transfer at one level.

    Attributes:
        groups: the device groups that it occupies, numbered over all stages.
        waits: the device groups whose buffers it waits for.
        resource: the resource that it takes.
        seconds: its duration.
        kind: its kind, for sums of time: the phase that it computes, ``update``, or ``communication``.
        phase: the phase that it belongs to, also of a transfer.
        collective: the collective of a transfer; empty for all else.
        level: the level of a transfer, 0 for the outermost; ``BETWEEN_STAGES``.
        link_bytes: bytes that its link brings: each subgroup of a group receives them.
        num_bytes: bytes that all devices receive.
        link: the link; None for computation, and between stages of the same devices.
        latency_s: the seconds of a transfer that do not depend on its bytes.
    """

    groups: tuple[int, ...]
    waits: tuple[int, ...]
    resource: str
    seconds: float
    kind: str
    phase: str = ""
    collective: str = ""
    level: int = 0
    link_bytes: float = 0.0
    num_bytes: float = 0.0
    link: LevelLink | DeviceGroup | None = None
    latency_s: float = 0.0

    def moving(self, link_bytes: float, num_bytes: float, **fields: str) -> Piece:
        """Return the transfer of other bytes over its link, perhaps in another phase or by another collective."""
        kind = fields.get("collective", self.collective)
        assert self.link is not None  # noqa: S101 (of transfers inside stages)
        seconds, latency_s = self.link.seconds(kind, link_bytes), self.link.line(kind, link_bytes).latency_s
        new: dict[str, Any] = {"seconds": seconds, "latency_s": latency_s, **fields}
        return self._replace(link_bytes=link_bytes, num_bytes=num_bytes, **new)


Pieces = tuple[Piece, ...]
"""Pieces that run one after another, or a round: pieces beside each other, which wait for what was there before all of them."""

Rounds = tuple[Pieces, ...]
"""The pieces of an op, round after round; none if it takes no time."""

Crossing = tuple[tuple[Rounds, ...], tuple[Rounds, ...]]
"""The transfers between the device groups of an uneven split: the rounds that add up each layer's sums, and that move each tensor."""


def placed(pieces: Pieces, first: int, name: str, depth: int = 0) -> Pieces:
    """Return the pieces of some device groups among those of all stages, of which the first has a number.

    Their resources have a name before their own, if there is one, and their levels are below ``depth`` uneven splits.
    """
    if not (first or name or depth):
        return pieces
    found = []
    for piece in pieces:
        groups, waits = (tuple([first + own for own in each]) for each in piece[:2])
        resource, level = f"{name} {piece.resource}".lstrip(), depth + piece.level
        found.append(piece._replace(groups=groups, waits=waits, resource=resource, level=level))
    return tuple(found)


def together(pieces: Iterable[Piece]) -> Pieces:
    """Return transfers, innermost level first, of which those of one level, collective and group are one, so that latency is paid once."""
    alike: dict[tuple[int, str, tuple[int, ...]], list[Piece]] = {}
    for piece in pieces:
        alike.setdefault((-piece.level, piece.collective, piece.groups), []).append(piece)
    found = []
    for first, *others in (alike[key] for key in sorted(alike)):
        sizes = zip(*[(own.link_bytes, own.num_bytes) for own in (first, *others)], strict=True)
        found.append(first.moving(*map(math.fsum, sizes)) if others else first)
    return tuple(found)


def in_shares(pieces: Sequence[Piece], formats: Formats) -> Pieces:
    """Return the transfers of a layer whose weight rests in shares.

    Those that add up its gradient leave the sums in shares, half of what hands them to all; the other half gathers the weight, the
    outermost level first.
    """
    size, found, gathered = formats.weight / formats.gradient, list[Piece](), list[Piece]()
    for own in pieces:
        halves = own.link_bytes / 2, own.num_bytes / 2
        if own.phase == PHASE:
            gathered.append(
                own.moving(*[size * half for half in halves], phase=WEIGHT, collective="all_gather")
            )
        found.append(own.moving(*halves, collective="reduce_scatter") if own.phase == PHASE else own)
    return (*found, *reversed(gathered))


def priced(setting: Setting, found: Sequence[Received]) -> Pieces:
    """Return the transfers of counted elements on the links of identical devices."""
    pieces, formats = [], setting.formats
    links = setting.machine.links(setting.array) if setting.array else ()
    for phase, _, kind, elements, _, level, receivers in found:
        own = Piece(
            (0,), (0,), links[level].resource, 0.0, COMMUNICATION, phase, kind, level, link=links[level]
        )
        num_bytes = elements * formats.of(phase)
        pieces.append(own.moving(num_bytes / receivers, num_bytes))
    return tuple(pieces)


@lru_cache(maxsize=16384)
def inside(setting: Setting, nest: Nest, sums: Sums, chosen: Options, above: Above) -> Pieces:
    """Return the transfers of all levels inside a layer, innermost first, so that wider groups exchange sums."""
    return priced(setting, received_inside(nest, sums, setting.array, chosen, above))


@lru_cache(maxsize=16384)
def between(
    setting: Setting, tensor: Between, parts: tuple[Part, ...], above: Above, chosen: tuple[Options, Options]
) -> tuple[Pieces, Pieces]:
    """Return the transfers of a tensor that add up the sums of its producer, innermost first, and the others."""
    found = received_between(tensor, parts, setting.array, chosen, above)
    sums = priced(setting, [one for one in reversed(found) if one.inside])
    return sums, priced(setting, [one for one in found if not one.inside])


Receiver = tuple["DeviceGroup", tuple[int, ...]]
"""A device group that receives from the others of an uneven split, and the numbers of its lanes."""


def crossing(amount: Received, receivers: Sequence[Receiver], level: int, element_bytes: int) -> Pieces:
    """Return the transfers of an amount between the device groups of an uneven split as a round, in which each waits for all.

    The amount has the elements that each of the receivers gets; ``level`` uneven splits are above this one.
    """
    waits = tuple([lane for _, lanes in receivers for lane in lanes])
    kinds = COMMUNICATION, amount.phase, amount.collective, level
    each = zip(receivers, [float(own) * element_bytes for own in amount.elements], strict=True)
    return tuple(
        [
            Piece(lanes, waits, link.resource, 0.0, *kinds, link=link).moving(num_bytes, num_bytes)
            for (link, lanes), num_bytes in each
            if num_bytes
        ]
    )
