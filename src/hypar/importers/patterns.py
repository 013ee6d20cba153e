"""Patterns: layers that a person would write as one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.importers.drafts import Draft


def merged(drafts: Sequence[Draft]) -> tuple[Draft, ...]:
    """Return layers with each concatenation that only another one reads made part of that one."""
    readers: dict[int, list[int]] = {}
    for number, draft in enumerate(drafts):
        for read in draft.reads:
            readers.setdefault(read, []).append(number)
    ops = [draft.op for draft in drafts]
    inner = {
        number
        for number, op in enumerate(ops)
        if op == "concat" and [ops[reader] for reader in readers.get(number, [])] == ["concat"]
    }

    def parts(read: int) -> tuple[int, ...]:
        return tuple(part for one in drafts[read].reads for part in parts(one)) if read in inner else (read,)

    kept = [number for number in range(len(drafts)) if number not in inner]
    new = {old: number for number, old in enumerate(kept)}
    return tuple(
        replace(
            drafts[number],
            reads=tuple(new[part] for read in drafts[number].reads for part in parts(read)),
            tied=None if (tied := drafts[number].tied) is None else new[tied],
        )
        for number in kept
    )
