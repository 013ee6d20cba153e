"""Verifications as tables and data."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hypar.execution.verify import TOLERANCE
from hypar.reports.listings.base import make_table
from hypar.reports.of.changes import changes_data
from hypar.reports.prose import Note
from hypar.reports.terminal import Page
from hypar.studies.verification.cases import REASONS
from hypar.studies.verification.planned import OTHERS
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.plan.diff import Change
    from hypar.program.steps import Item
    from hypar.reports.columns import Sheet
    from hypar.studies.verification.result import Difference, Mismatch, Numbers, Verified

MOST_LAYERS = 2
"""Layers that a row of several names."""

TENSORS = {"input": "E_in", "output": "F_out", "weight": "dW", "bias": "db"}
"""The names of the tensors whose partial sums are added up."""

PASSED = {"forward": "F", "backward": "E", "gradient": "dW"}
"""The names of the tensor between two layers: a gradient where both use one weight."""


def verification_page(found: Verified, *, full: bool = False) -> Page:
    """Return the bytes of each level, what differs from the plan's count, and the numbers.

    Args:
        found: the verification.
        full: whether each transfer and level that differs has a row of its own.
    """
    tables = [levels_table(found)]
    if found.mismatches:
        tables.append(mismatches_table(found.mismatches))
    if found.changes:
        tables.append(changes_table(found.changes))
    if found.differences:
        tables.append(differences_table(found.differences, full=full))
    letters = dict.fromkeys(sorted(each.case for each in found.differences))
    below = [Note(letter, REASONS[letter]) for letter in letters]
    return Page(
        above=f"{headline(found)}\n{asked_line(found)}", tables=tables, below=[*below, *_notes(found)]
    )


def headline(found: Verified) -> str:
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


def asked_line(found: Verified) -> str:
    """Say what was run, and how it is counted."""
    plan = found.plan
    return (
        f"strategy {plan.strategy}, batch {found.batch:,}, run by {found.convention}; planned: {plan.cost.name}"
        f" counted by {found.planned_by}"
    )


def _notes(found: Verified) -> list[Note]:
    """Return the numbers and what was changed."""
    return [*_labelled("numbers", number_lines(found.numbers)), *_labelled("run", found.notes)]


def _labelled(label: str, lines: Sequence[str]) -> list[Note]:
    """Return notes of which the first has a label."""
    return [Note("" if at else label, line) for at, line in enumerate(lines)]


def number_lines(numbers: Numbers | None) -> list[str]:
    """Return the loss and a bound of the errors, or the worst error where numbers differ."""
    if numbers is None:
        return []
    worst = f"{numbers.worst:.1e}, of {numbers.worst_tensor}"
    error = worst if numbers.error_below is None else f"below {numbers.error_below:.0e}"
    lines = [
        f"loss {numbers.loss:.10g}, on one device {numbers.expected_loss:.10g}",
        f"worst relative error {error}; allowed: {TOLERANCE:.0e}",
    ]
    if numbers.zero:
        names = _some(numbers.zero)
        lines.append(f"the gradient of {names} is zero everywhere, which proves nothing about it")
    return lines


def levels_table(found: Verified) -> Sheet:
    """Return one row for each level, with the bytes that all devices receive there."""
    ran = found.numbers is not None
    table = make_table(["bytes", "planned", "counted", *["moved"] * ran], "lrrr")
    for each in found.levels:
        table.add_row(each.level, *map(_whole, (each.planned, each.counted, *[each.moved or 0] * ran)))
    if len(found.levels) > 1:
        sums = [
            math.fsum(each.planned for each in found.levels),
            sum(each.counted for each in found.levels),
            *[sum(each.moved or 0 for each in found.levels)] * ran,
        ]
        table.add_row("all", *map(_whole, sums))
    return table


def _whole(num_bytes: float) -> str:
    number = exact_number(num_bytes)
    return f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"


def mismatches_table(found: Sequence[Mismatch]) -> Sheet:
    """Return one row for each transfer and level that moved other bytes than were counted."""
    table = make_table(["transfer", "level", "counted", "moved"], "llrr", keys=2)
    for each in found:
        table.add_row(transfer_of(each.item), each.level, f"{each.counted:,}", f"{each.moved:,}")
    return table


def changes_table(found: Sequence[Change]) -> Sheet:
    """Return one row for each result that is not as the plan states it."""
    table = make_table(["result", "stated", "counted"], "lrr")
    for each in found:
        table.add_row(each.name, *each.words)
    return table


def differences_table(found: Sequence[Difference], *, full: bool) -> Sheet:
    """Return the transfers that the plan's cost counts otherwise, those with one reason in one row."""
    if full:
        table = make_table(["case", "transfer", "level", "planned", "counted"], "lllrr", keys=3)
        for each in sorted(found, key=lambda each: each.case):
            amounts = _whole(each.planned), _whole(each.counted)
            table.add_row(each.case, transfer_of(each.item), each.level, *amounts)
        return table
    table = make_table(
        ["case", "transfer", "layers", "levels", "planned", "counted"], "llllrr", keys=2, prose={"layers"}
    )
    for (case, kind), grouped in groupby(sorted(found, key=_kind), key=_kind):
        own = list(grouped)
        planned, counted = math.fsum(each.planned for each in own), sum(each.counted for each in own)
        layers = [*dict.fromkeys(each.item.layer for each in own)]
        levels = sorted({each.level for each in own}, key=lambda name: (name != "stages", name))
        table.add_row(case, kind, _some(layers), ", ".join(levels), _whole(planned), _whole(counted))
    return table


def _kind(each: Difference) -> tuple[str, str]:
    """Return the case of a difference, and what is transferred."""
    return each.case, tensor_of(each.item)


def tensor_of(item: Item) -> str:
    """Name what a transfer moves."""
    if item.tensor == "statistics":
        return f"statistics, {item.phase}"
    if item.maker is not None:
        return f"{PASSED[item.phase]} between layers"
    if (item.phase, item.tensor) == ("backward", "output"):
        return "E_out, gathered"
    return f"sums of {TENSORS[item.tensor]}"


def transfer_of(item: Item) -> str:
    """Name a transfer with its layers."""
    if item.maker is None:
        return f"{tensor_of(item)} of {item.layer}"
    received = item.phase == "forward" or item.maker == OTHERS
    ends = (item.maker, item.layer) if received else (item.layer, item.maker)
    return f"{PASSED[item.phase]} from {ends[0]} to {ends[1]}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_LAYERS])
    return shown + (f" and {len(names) - MOST_LAYERS} more" if len(names) > MOST_LAYERS else "")


def verification_data(found: Verified) -> dict[str, Any]:
    """Return a verification as plain data, with whole numbers of bytes."""
    return {
        "ok": found.ok,
        "model": found.plan.model.name,
        "batch": found.batch,
        "devices": found.devices,
        "convention": found.convention,
        "planned_by": found.planned_by,
        "levels": [
            {
                "level": each.level,
                "planned_bytes": exact_number(each.planned),
                "counted_bytes": each.counted,
                "moved_bytes": each.moved,
            }
            for each in found.levels
        ],
        "differences": [
            {
                "case": each.case,
                "reason": REASONS[each.case],
                **_place(each.item, each.level),
                "planned_bytes": exact_number(each.planned),
                "counted_bytes": each.counted,
            }
            for each in found.differences
        ],
        "mismatches": [
            {**_place(each.item, each.level), "counted_bytes": each.counted, "moved_bytes": each.moved}
            for each in found.mismatches
        ],
        "changes": changes_data(found.changes),
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


def _place(item: Item, level: str) -> dict[str, str | None]:
    return {**item._asdict(), "level": level}


def _finite(number: float) -> float | None:
    """Return None for a number that no JSON has: an element was missing."""
    return number if math.isfinite(number) else None
