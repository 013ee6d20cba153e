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

    from hypar.execution.verify import Verification
    from hypar.program.steps import Item
    from hypar.studies.verify import Received, Transfer, Verified

MOST_NAMES = 2
"""Tensors that a line names."""

PASSED = {"forward": "F", "backward": "E", "gradient": "dW"}
"""The tensor between two layers: a gradient where both use one weight."""

SUMS = {"input": "E_in", "output": "F_out", "weight": "dW", "bias": "db"}
"""The tensors whose partial sums are added up."""

AMOUNTS = [Column(key=f"{by}_bytes", head=by, unit="whole") for by in ("planned", "counted", "moved")]


def verification_document(found: Verified, *, full: bool = False) -> Document:
    """Return whether the plan can be executed as it stands, and what it then moves.

    Args:
        found: the verification.
        full: whether each transfer has a row for each level that it crosses.
    """
    order = [each.level for each in found.levels]
    received = sorted((*found.levels, *found.tensors), key=lambda each: order.index(each.level))
    tables = [
        Table((Column(key="level"), Column(key="tensor"), *AMOUNTS), [*map(_row, received)], _total(found))
    ]
    if found.mismatches:
        tables.append(_transfers(found.mismatches, "moved otherwise than counted"))
    if found.changes:
        columns = Column(key="result"), *(Column(key=key, unit="whole") for key in ("stated", "counted"))
        keys = [column.key for column in columns]
        changed = [dict(zip(keys, (each.name, *each.words), strict=True)) for each in found.changes]
        tables.append(Table(columns, changed, title="not as the plan states it"))
    if full:
        tables.append(_transfers(found.transfers, "transfers"))
    by = f"run by {found.convention}; planned: {found.plan.cost.name} counted by {found.planned_by}"
    return Document(
        title=_title(found),
        about=f"strategy {found.plan.strategy}, batch {found.batch:,}, {by}",
        parts=tuple(tables),
        notes=tuple(_notes(found)),
        tone="good" if found.ok else "bad",
    )


def _title(found: Verified) -> str:
    """Say whether the numbers and the bytes agree."""
    name, ways = found.plan.model.name, f"{found.devices:,} devices"
    stated = "; results are not as stated" if found.changes else ""
    if found.numbers is None:
        return f"{name}: counted on {ways}, nothing was run{stated}"
    agree = found.numbers.error_below is not None
    numbers = "equal those of one device" if agree else "differ from those of one device"
    moved = "some level did not move" if found.mismatches else "every level moved"
    joined = "and" if agree != bool(found.mismatches) else "but"
    return f"{name}: the numbers of {ways} {numbers}, {joined} {moved} what was counted{stated}"


def _row(each: Received | Transfer) -> dict[str, Any]:
    """Return the bytes at a level as plain data, with the tensor or with what is transferred."""
    found = each._asdict()
    item = found.pop("item")._asdict() if "item" in found else {}
    place = {key: found.pop(key) for key in ("level", "tensor") if key in found}
    amounts = {f"{by}_bytes": None if own is None else exact_number(own) for by, own in found.items()}
    return {**item, **place, **amounts}


def _transfers(transfers: Sequence[Transfer], title: str) -> Table:
    rows = [{"transfer": name_of(each.item), **_row(each)} for each in transfers]
    return Table((Column(key="transfer"), Column(key="level"), *AMOUNTS[1:]), rows, title=title)


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


def _total(found: Verified) -> dict[str, Any] | None:
    if len(found.levels) < 2:
        return None
    planned, counted, moved = zip(*(each[2:] for each in found.levels), strict=True)
    amounts = (exact_number(math.fsum(planned)), sum(counted), None if found.numbers is None else sum(moved))
    return {"level": "all", **{column.key: own for column, own in zip(AMOUNTS, amounts, strict=True)}}


def _notes(found: Verified) -> Iterator[Note]:
    """Yield how the plan's count differs, the numbers, and what was changed."""
    counted, planned = (
        math.fsum(own) for own in zip(*((each.counted, each.planned) for each in found.levels), strict=True)
    )
    if counted and (less := 1 - planned / counted):
        who = "the paper counts" if found.planned_by == PAPER else "the plan's cost counts"
        yield Note("counted", f"{who} {abs(less):.1%} {'less' if less > 0 else 'more'} than a run moves")
    lines = {"numbers": [] if found.numbers is None else _numbers(found.numbers), "run": found.notes}
    for label, own in lines.items():
        for at, line in enumerate(own):
            yield Note("" if at else label, line)


def _numbers(numbers: Verification) -> Iterator[str]:
    """Yield the loss and a bound of the errors, or the worst error where numbers differ."""
    worst = f"{numbers.errors[numbers.worst_tensor]:.1e}, of {numbers.worst_tensor}"
    error = worst if numbers.error_below is None else f"below {numbers.error_below:.0e}"
    yield f"loss {numbers.loss:.10g}, on one device {numbers.expected_loss:.10g}"
    yield f"worst relative error {error}; allowed: {TOLERANCE:.0e}"
    if numbers.zero:
        more = f" and {len(numbers.zero) - MOST_NAMES} more" if len(numbers.zero) > MOST_NAMES else ""
        names = ", ".join(numbers.zero[:MOST_NAMES]) + more
        yield f"the gradient of {names} is zero everywhere, which proves nothing about it"


def verification_data(found: Verified) -> dict[str, Any]:
    """Return a verification as plain data, with whole numbers of bytes."""
    levels = [_row(each) for each in found.levels]
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
        "tensors": [_row(each) for each in found.tensors],
        "mismatches": [_row(each) for each in found.mismatches],
        "changes": [change.to_data() for change in found.changes],
        "numbers": None if found.numbers is None else _numbers_data(found.numbers),
        "notes": list(found.notes),
    }


def _numbers_data(numbers: Verification) -> dict[str, Any]:
    """Return the digits that do not depend on the processor, and the worst tensor where numbers differ."""
    tensor, agree = numbers.worst_tensor, numbers.error_below is not None
    return {
        "agree": agree,
        "loss": _finite(float(f"{numbers.loss:.10g}")),
        "expected_loss": _finite(float(f"{numbers.expected_loss:.10g}")),
        "error_below": numbers.error_below,
        **({} if agree else {"worst_error": _finite(numbers.errors[tensor]), "worst_tensor": tensor}),
        "tolerance": TOLERANCE,
        "zero_gradients": list(numbers.zero),
    }


def _finite(number: float) -> float | None:
    """Return None for a number that no JSON has: an element was missing."""
    return number if math.isfinite(number) else None


plugin = verification_document
