"""Entries of a model file from layers: names by modules, and runs of equal modules as one block that is repeated."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from hypar.network.modelfile import MOST_REPEATS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hypar.importers.layers import LayerDraft

UNNAMED = frozenset(
    {"relu", "gelu", "silu", "flatten", "dropout", "softmax", "pointwise", "input", "cross_entropy"}
)
"""Ops whose layers have no name unless another layer needs it."""

LONGEST_NAME = 90
CONTAINERS = frozenset({"", "Sequential", "ModuleList", "ModuleDict"})


@dataclass(frozen=True, slots=True)
class _Run:
    """Modules one behind the other, whose layers are equal and read what the module before gives.

    ``members`` are the layers of the first one, which read the layer ``read``; ``last`` is that of the last one.
    """

    path: tuple[str, ...]
    members: range
    read: int
    last: int
    turns: int = 1


_Row = int | _Run


def content(drafts: Sequence[LayerDraft], classes: Mapping[tuple[str, ...], str]) -> dict[str, Any]:
    """Return the ``blocks`` and the ``layers`` of a model file."""
    writer = _Writer(drafts, classes)
    layers = writer.entries([*writer.rows(range(len(drafts)), 0)])
    return {**({"blocks": writer.blocks} if writer.blocks else {}), "layers": layers}


class _Writer:
    """Writes entries; ``ops`` are those of each module, ``last_reader`` is the last layer that reads one."""

    def __init__(self, drafts: Sequence[LayerDraft], classes: Mapping[tuple[str, ...], str]) -> None:
        self.drafts, self.classes = drafts, classes
        self.blocks: dict[str, dict[str, Any]] = {}
        self.block_of: dict[str, str] = {}
        self.ops: dict[tuple[str, ...], set[str]] = {}
        self.last_reader: dict[int, int] = {}
        for number, draft in enumerate(drafts):
            self.ops.setdefault(draft.scope, set()).add(draft.op)
            self.last_reader |= dict.fromkeys(draft.reads, number)
        self.containers = {scope[:depth] for scope in self.ops for depth in range(len(scope))}

    def rows(self, numbers: range, depth: int) -> Iterator[_Row]:
        """Yield layers one by one but for the longest runs of equal modules, the outermost first."""
        run: _Run | None = None
        begin = numbers.start
        while begin < numbers.stop:
            path = self.drafts[begin].scope[: depth + 1]
            end = begin + 1
            while end < numbers.stop and self.drafts[end].scope[: depth + 1] == path:
                end += 1
            part = range(begin, end)
            own = self.module(path, part) if len(path) > depth else None
            if run and own and self.follows(run, own):
                run = replace(run, last=own.last, turns=run.turns + 1)
            else:
                yield from self.written(run, depth)
                run = own
                if own is None:
                    yield from part if len(path) <= depth else self.rows(part, depth + 1)
            begin = end
        yield from self.written(run, depth)

    def written(self, run: _Run | None, depth: int) -> Iterator[_Row]:
        """Yield a run, its layers where it is a single module."""
        if run is not None:
            yield from [run] if run.turns > 1 else self.rows(run.members, depth + 1)

    def module(self, path: tuple[str, ...], members: range) -> _Run | None:
        """Return a module alone, if it reads one layer from outside and gives its last one alone."""
        read = {read for number in members for read in self.drafts[number].reads if read not in members}
        given = {one for one in members[:-1] if self.last_reader.get(one, 0) not in members}
        if len(members) < 2 or len(read) != 1 or given:
            return None
        return _Run(path, members, read.pop(), members[-1])

    def follows(self, run: _Run, module: _Run) -> bool:
        """Return whether a module is one more turn of a run."""
        return (
            run.turns < MOST_REPEATS
            and run.path[:-1] == module.path[:-1]
            and module.read == run.last
            and self.last_reader[run.last] in module.members
            and self.form(run) == self.form(module)
        )

    def form(self, run: _Run) -> str:
        """Return what the modules of a run have in common: ops, fields and wiring."""
        start = run.members.start
        drafts = (self.drafts[number] for number in run.members)
        return repr(
            [
                (draft.op, sorted(draft.fields.items()), [max(read - start, -1) for read in draft.reads])
                for draft in drafts
            ]
        )

    def entries(
        self, rows: Sequence[_Row], path: tuple[str, ...] = (), read: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the entries of a list; ``read`` is the layer that the list of a block knows as ``input``."""
        wired = [
            () if self.reads(row) == (before,) else self.reads(row)
            for row, before in zip(rows, [read, *map(_last, rows)], strict=False)
        ]
        wanted = {one for reads in wired for one in reads}
        called = {} if read is None else {read: "input"}
        found: list[dict[str, Any]] = []
        for row, reads in zip(rows, wired, strict=True):
            name = _free(self.name(row, path), called.values())
            entry = self.entry(row, name, named=_last(row) in wanted)
            tied = self.drafts[row].tied if isinstance(row, int) else None
            if tied in called:
                entry["weight"] = called[tied]
            inputs = [called[one] for one in reads]
            if inputs:
                entry["inputs"] = inputs[0] if len(inputs) == 1 else inputs
            found.append(entry)
            called[_last(row)] = name
        return found

    def reads(self, row: _Row) -> tuple[int, ...]:
        """Return the layers that a row reads."""
        return self.drafts[row].reads if isinstance(row, int) else (row.read,)

    def name(self, row: _Row, path: tuple[str, ...]) -> str:
        """Return the rest of the path of a row's module, with its op where the module runs other layers too."""
        scope = row.path if isinstance(row, _Run) else self.drafts[row].scope
        own = [*scope[len(path) :]]
        if isinstance(row, _Run):
            bare = own[-1].rstrip("0123456789").rstrip("_")
            own[-1:] = [bare] if bare else [] if len(own) > 1 else own[-1:]
        elif not own or scope in self.containers or len(self.ops[scope]) > 1:
            own.append(self.drafts[row].op)
        return _word("_".join(own))

    def entry(self, row: _Row, name: str, *, named: bool) -> dict[str, Any]:
        """Return the entry of a row, without its inputs."""
        if isinstance(row, _Run):
            return {"block": self.block(row), "name": name, "repeat": row.turns}
        draft = self.drafts[row]
        head = {"name": name} if named or draft.op not in UNNAMED else {}
        return {**head, "op": draft.op, **draft.fields}

    def block(self, run: _Run) -> str:
        """Return the name of a run's block, which is written where its form first occurs."""
        if (form := self.form(run)) not in self.block_of:
            kind = self.classes.get(run.path, "")
            base = _word(_snake("_".join(run.path) if kind in CONTAINERS else kind)) or "block"
            name = self.block_of[form] = _free(base, self.block_of.values())
            self.blocks[name] = {"layers": self.entries(run.members, run.path, run.read)}
        return self.block_of[form]


def _last(row: _Row) -> int:
    return row if isinstance(row, int) else row.last


def _free(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number behind it where it is taken."""
    return next(
        free for number in count(1) if (free := name if number == 1 else f"{name}_{number}") not in taken
    )


def _word(text: str) -> str:
    """Return a text as a name of a model file."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).lstrip("-")[:LONGEST_NAME]


def _snake(text: str) -> str:
    """Return the name of a class in lower case, its words joined by ``_``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()
