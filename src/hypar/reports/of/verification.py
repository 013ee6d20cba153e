"""Verifications: the bytes of each tensor at each level as planned, counted and moved, and the numbers of the step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hypar.document import Column, Document, Note, Table
from hypar.errors import few
from hypar.execution.verify import TOLERANCE, Verification
from hypar.sharding.conventions import PAPER
from hypar.studies.verify import Held, Received, Transfer, Verified
from hypar.units import exact_number

_BYTES = tuple(Column(f"{by}_bytes", by, "whole") for by in ("planned", "counted", "moved"))
_RECEIVED = (Column("level"), Column("tensor"), *_BYTES)
_HEADS = {"layer": "layer", "maker": "from", "phase": "phase", "tensor": "tensor", "level": "level"}
_TRANSFERS = (*(Column(key, head) for key, head in _HEADS.items()), *_BYTES[1:])
_HELD = tuple(Column(f"{by}_bytes", by, "whole") for by in ("said", "held"))
_RESULTS = (Column("result"), *(Column(key, unit="whole") for key in ("stated", "counted")))


def document_of(found: Verified, *, full: bool = False) -> Document:
    """Return whether the plan can be executed as it stands, and what it then moves; in full with a table of all transfers."""
    order = [each.level for each in found.levels]
    received = sorted((*found.levels, *found.tensors), key=lambda each: order.index(each.level))
    words = [(own.name, *own.words) for own in found.changes]
    changed = [{"result": name, "stated": stated, "counted": again} for name, stated, again in words]
    tables = (
        Table(_RECEIVED, [*map(_row, received)], _row(_total(found)) if len(order) > 1 else None),
        Table((Column("group"), *_HELD), [*map(_row, found.memory)], title="memory of the fullest device"),
        Table(_TRANSFERS, [*map(_row, found.mismatches)], title="moved otherwise than counted"),
        Table(_RESULTS, changed, title="not as the plan states it"),
        Table(_TRANSFERS, [*map(_row, found.transfers)] if full else [], title="transfers"),
    )
    wrong = ["a device held more than is said"] * bool(found.fuller)
    wrong += ["results are not as stated"] * bool(changed)
    by = f"run by {found.convention}; planned: {found.plan.cost.name} counted by {found.planned_by}"
    return Document(
        title=f"{found.plan.model.name}: {'; '.join([_answer(found), *wrong])}",
        about=f"strategy {found.plan.strategy}, batch {found.batch:,}, {by}",
        parts=tuple(table for table in tables if table.rows),
        notes=tuple(_notes(found)),
        tone="good" if found.ok else "bad",
    )


def _answer(found: Verified) -> str:
    ways = f"{found.devices:,} devices"
    if found.numbers is None:
        return f"counted on {ways}, nothing was run"
    agree, moved = found.numbers.error_below is not None, not found.mismatches
    numbers = "equal" if agree else "differ from"
    levels = "every level moved" if moved else "some level did not move"
    return f"the numbers of {ways} {numbers} those of one device, {'and' if agree == moved else 'but'} {levels} what was counted"


def _row(each: Received | Transfer | Held) -> dict[str, Any]:
    """Return the bytes at a level, or of a device, as plain data, with the tensor or with what is transferred."""
    fields = each._asdict()
    item = fields.pop("item")._asdict() if "item" in fields else {}
    amounts = {own.key: fields.pop(own.title) for own in (*_BYTES, *_HELD) if own.title in fields}
    data = {key: None if own is None else exact_number(own) for key, own in amounts.items()}
    return {**item, **fields, **data}


def _total(found: Verified) -> Received:
    planned, counted, moved = zip(*(each[2:] for each in found.levels), strict=True)
    return Received("all", "", math.fsum(planned), sum(counted), sum(moved) if found.numbers else None)


def _notes(found: Verified) -> Iterator[Note]:
    total = _total(found)
    if total.counted and (less := 1 - total.planned / total.counted):
        who = "the paper counts" if found.planned_by == PAPER else "the plan's cost counts"
        yield Note("counted", f"{who} {abs(less):.1%} {'less' if less > 0 else 'more'} than a run moves")
    lines = {"numbers": [] if found.numbers is None else _numbers(found.numbers), "run": found.notes}
    for label, own in lines.items():
        for at, line in enumerate(own):
            yield Note("" if at else label, line)


def _numbers(numbers: Verification) -> Iterator[str]:
    worst = f"{numbers.errors[numbers.worst_tensor]:.1e}, of {numbers.worst_tensor}"
    error = worst if numbers.error_below is None else f"below {numbers.error_below:.0e}"
    yield f"loss {numbers.loss:.10g}, on one device {numbers.expected_loss:.10g}"
    yield f"worst relative error {error}; allowed: {TOLERANCE:.0e}"
    if numbers.zero:
        yield f"the gradient of {few(numbers.zero, 2)} is zero everywhere, which proves nothing about it"


def verification_data(found: Verified) -> dict[str, Any]:
    """Return a verification as plain data, with whole numbers of bytes."""
    return {
        "ok": found.ok, "model": found.plan.model.name,
        **{name: getattr(found, name) for name in ("batch", "devices", "convention", "planned_by")},
        "levels": [{key: own for key, own in _row(each).items() if key != "tensor"} for each in found.levels],
        **{name: [*map(_row, getattr(found, name))] for name in ("tensors", "mismatches", "memory")},
        "changes": [change.to_data() for change in found.changes],
        "numbers": None if found.numbers is None else _numbers_data(found.numbers), "notes": list(found.notes),
    }  # fmt: skip


def _numbers_data(numbers: Verification) -> dict[str, Any]:
    """Return the digits that do not depend on the processor, and the worst tensor where numbers differ."""
    tensor = numbers.worst_tensor
    worst = {"worst_error": _finite(numbers.errors[tensor]), "worst_tensor": tensor}
    return {
        "agree": numbers.error_below is not None, "loss": _finite(numbers.loss, 10),
        "expected_loss": _finite(numbers.expected_loss, 10), "error_below": numbers.error_below,
        **(worst if numbers.error_below is None else {}), "tolerance": TOLERANCE, "zero_gradients": list(numbers.zero),
    }  # fmt: skip


def _finite(number: float, digits: int = 17) -> float | None:
    """Return a number to some digits; None for one that no JSON has: an element was missing."""
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None


plugin = document_of
