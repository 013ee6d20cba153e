"""Verifications: the bytes of each tensor at each level as planned, counted and moved, and the numbers of the step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note, Table
from hypar.execution.verify import TOLERANCE
from hypar.sharding.conventions import PAPER
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.document import Tone
    from hypar.program.steps import Item
    from hypar.studies.verify import Numbers, Received, Transfer, Verified

MOST_NAMES = 2
"""Tensors that a line names."""

PASSED = {"forward": "F", "backward": "E", "gradient": "dW"}
"""The tensor between two layers: a gradient where both use one weight."""

SUMS = {"input": "E_in", "output": "F_out", "weight": "dW", "bias": "db"}
"""The tensors whose partial sums are added up."""

PLACE = (Column(key="level"), Column(key="tensor"))
PLANNED = Column(key="planned_bytes", head="planned", unit="whole")
FOUND = (
    Column(key="counted_bytes", head="counted", unit="whole"),
    Column(key="moved_bytes", head="moved", unit="whole"),
)
TRANSFERS = (Column(key="transfer"), Column(key="level"), *FOUND)
CHANGES = (Column(key="result"), Column(key="stated", unit="whole"), Column(key="counted", unit="whole"))


def verification_document(found: Verified, *, full: bool = False) -> Document:
    """Return whether the plan can be executed as it stands, and what it then moves.

    Args:
        found: the verification.
        full: whether each transfer has a row for each level that it crosses.
    """
    rows = [_bytes(each) for each in (*found.levels, *found.tensors)]
    order = {each.level: number for number, each in enumerate(found.levels)}
    rows.sort(key=lambda row: order[row["level"]])
    tables = [Table((*PLACE, PLANNED, *FOUND), rows, _total(found))]
    if found.mismatches:
        tables.append(_transfers(found.mismatches, "moved otherwise than counted"))
    if found.changes:
        changed = [
            dict(zip(("result", "stated", "counted"), (each.name, *each.words), strict=True))
            for each in found.changes
        ]
        tables.append(Table(CHANGES, changed, title="not as the plan states it"))
    if full:
        tables.append(_transfers(found.transfers, "transfers"))
    tone: Tone = "good" if found.ok else "bad"
    return Document(
        title=_title(found), about=_about(found), parts=tuple(tables), notes=tuple(_notes(found)), tone=tone
    )


def _title(found: Verified) -> str:
    """Say whether the numbers and the bytes agree."""
    name, ways = found.plan.model.name, f"{found.devices:,} devices"
    stated = "; results are not as stated" if found.changes else ""
    if found.numbers is None:
        return f"{name}: counted on {ways}, nothing was run{stated}"
    agree = found.numbers.agree
    numbers = "equal those of one device" if agree else "differ from those of one device"
    moved = "some level did not move" if found.mismatches else "every level moved"
    joined = "and" if agree != bool(found.mismatches) else "but"
    return f"{name}: the numbers of {ways} {numbers}, {joined} {moved} what was counted{stated}"


def _about(found: Verified) -> str:
    plan = found.plan
    by = f"run by {found.convention}; planned: {plan.cost.name} counted by {found.planned_by}"
    return f"strategy {plan.strategy}, batch {found.batch:,}, {by}"


def _bytes(each: Received) -> dict[str, Any]:
    amounts = {"counted_bytes": each.counted, "moved_bytes": each.moved}
    return {
        "level": each.level,
        "tensor": each.tensor,
        "planned_bytes": exact_number(each.planned),
        **amounts,
    }


def _total(found: Verified) -> dict[str, Any] | None:
    if len(found.levels) < 2:
        return None
    moved = None if found.numbers is None else sum(each.moved or 0 for each in found.levels)
    counted = sum(each.counted for each in found.levels)
    planned = exact_number(math.fsum(each.planned for each in found.levels))
    return {"level": "all", "planned_bytes": planned, "counted_bytes": counted, "moved_bytes": moved}


def _transfers(transfers: Sequence[Transfer], title: str) -> Table:
    rows = [
        {
            "transfer": name_of(each.item),
            "level": each.level,
            "counted_bytes": each.counted,
            "moved_bytes": each.moved,
        }
        for each in transfers
    ]
    return Table(TRANSFERS, rows, title=title)


def name_of(item: Item) -> str:
    """Name a transfer with its layers."""
    if item.tensor == "statistics":
        return f"statistics of {item.layer}, {item.phase}"
    if item.maker is not None:
        ends = (item.maker, item.layer) if item.phase == "forward" else (item.layer, item.maker)
        return f"{PASSED[item.phase]} from {ends[0]} to {ends[1]}"
    if (item.phase, item.tensor) == ("backward", "output"):
        return f"E_out of {item.layer}, gathered"
    return f"sums of {SUMS[item.tensor]} of {item.layer}"


def _notes(found: Verified) -> Iterator[Note]:
    """Yield how the plan's count differs, the numbers, and what was changed."""
    counted, planned = (
        math.fsum(own) for own in zip(*((each.counted, each.planned) for each in found.levels), strict=True)
    )
    if counted and (less := 1 - planned / counted):
        who = "the paper counts" if found.planned_by == PAPER else "the plan's cost counts"
        yield Note("counted", f"{who} {abs(less):.1%} {'less' if less > 0 else 'more'} than a run moves")
    for at, line in enumerate(_numbers(found.numbers)):
        yield Note("" if at else "numbers", line)
    for at, line in enumerate(found.notes):
        yield Note("" if at else "run", line)


def _numbers(numbers: Numbers | None) -> Iterator[str]:
    """Yield the loss and a bound of the errors, or the worst error where numbers differ."""
    if numbers is None:
        return
    worst = f"{numbers.worst:.1e}, of {numbers.worst_tensor}"
    error = worst if numbers.error_below is None else f"below {numbers.error_below:.0e}"
    yield f"loss {numbers.loss:.10g}, on one device {numbers.expected_loss:.10g}"
    yield f"worst relative error {error}; allowed: {TOLERANCE:.0e}"
    if numbers.zero:
        more = f" and {len(numbers.zero) - MOST_NAMES} more" if len(numbers.zero) > MOST_NAMES else ""
        names = ", ".join(numbers.zero[:MOST_NAMES]) + more
        yield f"the gradient of {names} is zero everywhere, which proves nothing about it"


def verification_data(found: Verified) -> dict[str, Any]:
    """Return a verification as plain data, with whole numbers of bytes."""
    levels = [_bytes(each) for each in found.levels]
    for level in levels:
        del level["tensor"]
    return {
        "ok": found.ok,
        "model": found.plan.model.name,
        "batch": found.batch,
        "devices": found.devices,
        "convention": found.convention,
        "planned_by": found.planned_by,
        "levels": levels,
        "tensors": [_bytes(each) for each in found.tensors],
        "mismatches": [
            {
                **each.item._asdict(),
                "level": each.level,
                "counted_bytes": each.counted,
                "moved_bytes": each.moved,
            }
            for each in found.mismatches
        ],
        "changes": [change.to_data() for change in found.changes],
        "numbers": None if found.numbers is None else _numbers_data(found.numbers),
        "notes": list(found.notes),
    }


def _numbers_data(numbers: Numbers) -> dict[str, Any]:
    """Return the digits that do not depend on the processor, and the worst tensor where numbers differ."""
    worst = {"worst_error": _finite(numbers.worst), "worst_tensor": numbers.worst_tensor}
    return {
        "agree": numbers.agree,
        "loss": _finite(float(f"{numbers.loss:.10g}")),
        "expected_loss": _finite(float(f"{numbers.expected_loss:.10g}")),
        "error_below": numbers.error_below,
        **({} if numbers.agree else worst),
        "tolerance": TOLERANCE,
        "zero_gradients": list(numbers.zero),
    }


def _finite(number: float) -> float | None:
    """Return None for a number that no JSON has: an element was missing."""
    return number if math.isfinite(number) else None


plugin = verification_document
