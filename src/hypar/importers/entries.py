"""Entries of a model file from layers: names by modules, equal groups as blocks, runs of them repeated."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypar.importers.groups import Group, Groups, Part, last_of
from hypar.network.spec.schema import MOST_REPEATS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.importers.layers import LayerDraft

UNNAMED = frozenset(
    {"relu", "gelu", "silu", "flatten", "dropout", "softmax", "pointwise", "input", "cross_entropy"}
)
"""Ops whose layers have no name unless another layer needs it."""

LONGEST_NAME = 90
CONTAINERS = frozenset({"", "Sequential", "ModuleList", "ModuleDict"})


def content(drafts: Sequence[LayerDraft], classes: Mapping[tuple[str, ...], str]) -> dict[str, Any]:
    """Return the ``blocks`` and the ``layers`` of a model file."""
    writer = _Writer(drafts, classes)
    layers = writer.entries(writer.groups.parts, (), None)
    return {**({"blocks": writer.blocks} if writer.blocks else {}), "layers": layers}


class _Writer:
    """Writes entries; ``bound`` holds the parameter of the block being written behind a layer's field."""

    def __init__(self, drafts: Sequence[LayerDraft], classes: Mapping[tuple[str, ...], str]) -> None:
        self.drafts, self.classes, self.groups = drafts, classes, Groups(drafts)
        self.blocks: dict[str, dict[str, Any]] = {}
        self.block_of: dict[object, str] = {}
        self.bound: dict[tuple[int, str], str] = {}
        self.ops: dict[tuple[str, ...], set[str]] = {}
        for draft in drafts:
            self.ops.setdefault(draft.scope, set()).add(draft.op)
        self.containers = {scope[:depth] for scope in self.ops for depth in range(len(scope))}

    def entries(self, parts: list[Part], path: tuple[str, ...], read: int | None) -> list[dict[str, Any]]:
        """Return the entries of a list of parts; ``read`` is the layer that the list knows as ``input``."""
        rows = self.rows(parts)
        names = self.names(rows, path, read)
        called = {last_of(row): name for row, name in zip(rows, names, strict=True)}
        if read is not None:
            called[read] = "input"
        found: list[dict[str, Any]] = []
        befores = [read, *map(last_of, rows)]
        wanted = {
            one
            for row, before in zip(rows, befores, strict=False)
            if self.reads(row) != (before,)
            for one in self.reads(row)
        }
        for row, name, before in zip(rows, names, befores, strict=False):
            entry = self.entry(row, name, named=last_of(row) in wanted)
            tied = self.drafts[row].tied if isinstance(row, int) else None
            if tied is not None and tied in called:
                entry["weight"] = called[tied]
            wired = [called[one] for one in self.reads(row)]
            if wired and self.reads(row) != (before,):
                entry["inputs"] = wired[0] if len(wired) == 1 else wired
            arguments = entry.pop("with", None)
            found.append({**entry, **({"with": arguments} if arguments else {})})
        return found

    def rows(self, parts: list[Part]) -> list[Part]:
        """Return parts with groups of a form that stands once taken apart, and runs of equal groups as one."""
        found: list[Part] = []
        for part in parts:
            if isinstance(part, int):
                found.append(part)
            elif self.groups.places[part.form] < 2:
                found += self.rows(part.parts)
            elif found and isinstance(before := found[-1], Group) and self.follows(before, part):
                found[-1] = replace(before, last=part.last, turns=before.turns + 1)
            else:
                found.append(part)
        return found

    def follows(self, before: Group, group: Group) -> bool:
        """Return whether a group is one more turn of the one before."""
        return (
            before.turns < MOST_REPEATS
            and before.form == group.form
            and before.path[:-1] == group.path[:-1]
            and group.read == before.last
            and self.groups.readers.get(before.last, set()) <= set(group.members)
            and self.arguments(before) == self.arguments(group)
        )

    def reads(self, row: Part) -> tuple[int, ...]:
        """Return the layers that a row reads."""
        return self.drafts[row].reads if isinstance(row, int) else (row.read,)

    def names(self, rows: list[Part], path: tuple[str, ...], read: int | None) -> list[str]:
        """Return a name for each row, unlike all others."""
        taken = set() if read is None else {"input"}
        found = []
        for row in rows:
            name = free = self.name(row, path)
            number = 1
            while free in taken:
                number += 1
                free = f"{name}_{number}"
            taken.add(free)
            found.append(free)
        return found

    def name(self, row: Part, path: tuple[str, ...]) -> str:
        """Return the rest of the path of a row's module, with its op where the module runs other layers too."""
        scope = row.path if isinstance(row, Group) else self.drafts[row].scope
        own = [*scope[len(path) :]]
        if isinstance(row, int) and (not own or scope in self.containers or len(self.ops[scope]) > 1):
            own.append(self.drafts[row].op)
        if isinstance(row, Group) and row.turns > 1:
            bare = own[-1].rstrip("0123456789").rstrip("_")
            own[-1:] = [bare] if bare else [] if len(own) > 1 else own[-1:]
        return _word("_".join(own))

    def entry(self, row: Part, name: str, *, named: bool) -> dict[str, Any]:
        """Return the entry of a row, without its inputs."""
        if isinstance(row, Group):
            repeat = {"repeat": row.turns} if row.turns > 1 else {}
            return {"block": self.block(row), "name": name, **repeat, "with": self.arguments(row)}
        draft = self.drafts[row]
        keys = dict.fromkeys([*draft.fields, *(key for number, key in self.bound if number == row)])
        fields = {key: self.value(row, key) for key in keys}
        head = {"name": name} if named or draft.op not in UNNAMED else {}
        return {**head, "op": draft.op, **fields}

    def value(self, number: int, key: str) -> Any:
        """Return the value of a layer's field, or the parameter behind it."""
        bound = self.bound.get((number, key))
        return f"${bound}" if bound else self.groups.value(number, key)

    def arguments(self, group: Group) -> dict[str, Any]:
        """Return the arguments of a group's block."""
        table = self.groups.settings[group.form]
        return {name: self.value(group.members[index], key) for (index, key), name in table.items()}

    def block(self, group: Group) -> str:
        """Return the name of a group's block, which is written where its form first occurs."""
        if group.form not in self.block_of:
            self.block_of[group.form] = name = self.block_name(group)
            table = self.groups.settings[group.form]
            outer, self.bound = (
                self.bound,
                {(group.members[index], key): parameter for (index, key), parameter in table.items()},
            )
            layers = self.entries(group.parts, group.path, group.read)
            self.bound = outer
            parameters = {"parameters": [*dict.fromkeys(table.values())]} if table else {}
            self.blocks[name] = {**parameters, "layers": layers}
        return self.block_of[group.form]

    def block_name(self, group: Group) -> str:
        """Return a name for a block: that of the module's class, else of the module."""
        kind = self.classes.get(group.path, "")
        base = _word(_snake("_".join(group.path) if kind in CONTAINERS else kind)) or "block"
        name, number = base, 1
        while name in self.block_of.values():
            number += 1
            name = f"{base}_{number}"
        return name


def _word(text: str) -> str:
    """Return a text as a name of a model file."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).lstrip("-")[:LONGEST_NAME]


def _snake(text: str) -> str:
    """Return the name of a class in lower case, its words joined by ``_``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()
