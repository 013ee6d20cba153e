"""Entries of a model file from layers: names by modules, equal groups of layers as blocks, runs of them repeated."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from hypar.network.modelfile import MOST_REPEATS
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.importers.layers import LayerDraft

UNNAMED = frozenset(
    {"relu", "gelu", "silu", "flatten", "dropout", "softmax", "pointwise", "input", "cross_entropy"}
)
"""Ops whose layers have no name unless another layer needs it."""

LONGEST_NAME = 90
CONTAINERS = frozenset({"", "Sequential", "ModuleList", "ModuleDict"})


@dataclass(slots=True, eq=False)
class _Group:
    """Consecutive layers of one module that read one tensor from outside and give one.

    ``parts`` are its layers and the groups inside it, ``members`` all its layers, ``last`` that of its last turn, and
    ``form`` its ops, their paths and wiring without the values of their fields.
    """

    path: tuple[str, ...]
    parts: list[_Part]
    read: int
    last: int
    members: list[int]
    form: object
    turns: int = 1


_Part = int | _Group


def content(drafts: Sequence[LayerDraft], classes: Mapping[tuple[str, ...], str]) -> dict[str, Any]:
    """Return the ``blocks`` and the ``layers`` of a model file."""
    writer = _Writer(drafts, classes)
    layers = writer.entries(writer.parts, (), None)
    return {**({"blocks": writer.blocks} if writer.blocks else {}), "layers": layers}


class _Writer:
    """Writes entries; ``bound`` holds the parameter of the block being written behind a layer's field."""

    def __init__(self, drafts: Sequence[LayerDraft], classes: Mapping[tuple[str, ...], str]) -> None:
        self.drafts, self.classes = drafts, classes
        self.blocks: dict[str, dict[str, Any]] = {}
        self.block_of: dict[object, str] = {}
        self.bound: dict[tuple[int, str], str] = {}
        self.ops: dict[tuple[str, ...], set[str]] = {}
        self.readers: dict[int, set[int]] = {}
        for number, draft in enumerate(drafts):
            self.ops.setdefault(draft.scope, set()).add(draft.op)
            for read in draft.reads:
                self.readers.setdefault(read, set()).add(number)
        self.containers = {scope[:depth] for scope in self.ops for depth in range(len(scope))}
        self.places: dict[object, int] = {}
        self.uses: dict[object, list[_Group]] = {}
        self.parts = self.grouped(range(len(drafts)), 0)
        self.note(self.parts, written=True)
        self.settings = {form: self.varied(groups) for form, groups in self.uses.items()}

    def grouped(self, numbers: Sequence[int], depth: int) -> list[_Part]:
        """Return layers as groups of modules of some depth, and of those inside these."""
        parts: list[_Part] = []
        begin = 0
        while begin < len(numbers):
            path = self.drafts[numbers[begin]].scope[: depth + 1]
            end = begin + 1
            if len(path) <= depth:
                parts.append(numbers[begin])
                begin = end
                continue
            while end < len(numbers) and self.drafts[numbers[end]].scope[: depth + 1] == path:
                end += 1
            run = [*numbers[begin:end]]
            inner, inside = self.grouped(run, depth + 1), {*run}
            read = {read for number in run for read in self.drafts[number].reads} - inside
            given = {number for number in run if self.readers.get(number, set()) - inside}
            if len(run) > 1 and len(read) == 1 and given <= {run[-1]}:
                parts.append(_Group(path, inner, read.pop(), run[-1], run, self.form(run, depth + 1)))
            else:
                parts += inner
            begin = end
        return parts

    def form(self, run: Sequence[int], depth: int) -> object:
        """Return what groups of one block have in common."""
        place = {number: index for index, number in enumerate(run)}
        return tuple(
            (
                draft.op,
                tuple(place.get(read, -1) for read in draft.reads),
                draft.scope[depth:],
                # A field without a default that could be written instead is there, or is not, in all groups of a form.
                tuple(sorted(key for key in draft.fields if default(draft.op, key) is None)),
                # So are names of dims the same, as no argument is a list of them.
                tuple((key, repr(draft.fields[key])) for key in draft.naming if key in draft.fields),
            )
            for draft in (self.drafts[number] for number in run)
        )

    def note(self, parts: list[_Part], *, written: bool) -> None:
        """Note every group by its form; what stands in a second group of a form is not written again."""
        for part in parts:
            if isinstance(part, _Group):
                first = part.form not in self.uses
                self.places[part.form] = self.places.get(part.form, 0) + written
                self.uses.setdefault(part.form, []).append(part)
                self.note(part.parts, written=written and first)

    def varied(self, groups: list[_Group]) -> dict[tuple[int, str], str]:
        """Return the name of a parameter for every field that differs; fields that go together share one."""
        names: dict[tuple[str, tuple[str, ...]], str] = {}
        found: dict[tuple[int, str], str] = {}
        places = dict.fromkeys(
            (index, key)
            for group in groups
            for index, number in enumerate(group.members)
            for key in self.drafts[number].fields
        )
        for index, key in places:
            values = tuple(repr(self.plain(group.members[index], key)) for group in groups)
            if len({*values}) > 1:
                taken = sum(other == key for other, _ in names)
                found[index, key] = names.setdefault((key, values), f"{key}_{taken + 1}" if taken else key)
        return found

    def plain(self, number: int, key: str) -> Any:
        """Return the value of a layer's field, its default where it is not given."""
        draft = self.drafts[number]
        return draft.fields[key] if key in draft.fields else default(draft.op, key)

    def value(self, number: int, key: str) -> Any:
        """Return the value of a layer's field, or the parameter behind it."""
        bound = self.bound.get((number, key))
        return f"${bound}" if bound else self.plain(number, key)

    def entries(self, parts: list[_Part], path: tuple[str, ...], read: int | None) -> list[dict[str, Any]]:
        """Return the entries of a list of parts; ``read`` is the layer that the list knows as ``input``."""
        rows = self.rows(parts)
        names = self.names(rows, path, read)
        called = {_last(row): name for row, name in zip(rows, names, strict=True)}
        if read is not None:
            called[read] = "input"
        befores = [read, *map(_last, rows)]
        wired = [
            () if self.reads(row) == (before,) else self.reads(row)
            for row, before in zip(rows, befores, strict=False)
        ]
        wanted = {one for reads in wired for one in reads}
        found: list[dict[str, Any]] = []
        for row, name, reads in zip(rows, names, wired, strict=True):
            entry = self.entry(row, name, named=_last(row) in wanted)
            tied = self.drafts[row].tied if isinstance(row, int) else None
            if tied is not None and tied in called:
                entry["weight"] = called[tied]
            inputs = [called[one] for one in reads]
            if inputs:
                entry["inputs"] = inputs[0] if len(inputs) == 1 else inputs
            arguments = entry.pop("with", None)
            found.append({**entry, **({"with": arguments} if arguments else {})})
        return found

    def rows(self, parts: list[_Part]) -> list[_Part]:
        """Return parts with groups of a form that stands once taken apart, and runs of equal groups as one."""
        found: list[_Part] = []
        for part in parts:
            if isinstance(part, int):
                found.append(part)
            elif self.places[part.form] < 2:
                found += self.rows(part.parts)
            elif found and isinstance(before := found[-1], _Group) and self.follows(before, part):
                found[-1] = replace(before, last=part.last, turns=before.turns + 1)
            else:
                found.append(part)
        return found

    def follows(self, before: _Group, group: _Group) -> bool:
        """Return whether a group is one more turn of the one before."""
        return (
            before.turns < MOST_REPEATS
            and before.form == group.form
            and before.path[:-1] == group.path[:-1]
            and group.read == before.last
            and self.readers.get(before.last, set()) <= {*group.members}
            and self.arguments(before) == self.arguments(group)
        )

    def reads(self, row: _Part) -> tuple[int, ...]:
        """Return the layers that a row reads."""
        return self.drafts[row].reads if isinstance(row, int) else (row.read,)

    def names(self, rows: list[_Part], path: tuple[str, ...], read: int | None) -> list[str]:
        """Return a name for each row, unlike all others."""
        taken = {} if read is None else {"input": None}
        for row in rows:
            taken[_free(self.name(row, path), taken)] = None
        return [*taken][read is not None :]

    def name(self, row: _Part, path: tuple[str, ...]) -> str:
        """Return the rest of the path of a row's module, with its op where the module runs other layers too."""
        scope = row.path if isinstance(row, _Group) else self.drafts[row].scope
        own = [*scope[len(path) :]]
        if isinstance(row, int) and (not own or scope in self.containers or len(self.ops[scope]) > 1):
            own.append(self.drafts[row].op)
        if isinstance(row, _Group) and row.turns > 1:
            bare = own[-1].rstrip("0123456789").rstrip("_")
            own[-1:] = [bare] if bare else [] if len(own) > 1 else own[-1:]
        return _word("_".join(own))

    def entry(self, row: _Part, name: str, *, named: bool) -> dict[str, Any]:
        """Return the entry of a row, without its inputs."""
        if isinstance(row, _Group):
            repeat = {"repeat": row.turns} if row.turns > 1 else {}
            return {"block": self.block(row), "name": name, **repeat, "with": self.arguments(row)}
        draft = self.drafts[row]
        keys = dict.fromkeys([*draft.fields, *(key for number, key in self.bound if number == row)])
        head = {"name": name} if named or draft.op not in UNNAMED else {}
        return {**head, "op": draft.op, **{key: self.value(row, key) for key in keys}}

    def arguments(self, group: _Group) -> dict[str, Any]:
        """Return the arguments of a group's block."""
        table = self.settings[group.form]
        return {name: self.value(group.members[index], key) for (index, key), name in table.items()}

    def block(self, group: _Group) -> str:
        """Return the name of a group's block, which is written where its form first occurs."""
        if group.form not in self.block_of:
            kind = self.classes.get(group.path, "")
            base = _word(_snake("_".join(group.path) if kind in CONTAINERS else kind)) or "block"
            name = self.block_of[group.form] = _free(base, {*self.block_of.values()})
            table, outer = self.settings[group.form], self.bound
            self.bound = {(group.members[index], key): parameter for (index, key), parameter in table.items()}
            layers = self.entries(group.parts, group.path, group.read)
            self.bound = outer
            parameters = {"parameters": [*dict.fromkeys(table.values())]} if table else {}
            self.blocks[name] = {**parameters, "layers": layers}
        return self.block_of[group.form]


def default(op: str, key: str) -> Any:
    """Return the default of a field as a model file writes it; None if it has none."""
    fields = load_plugin("ops", op).model_fields
    value = next(field.default for name, field in fields.items() if key in {name, field.alias})
    if isinstance(value, tuple):
        return value[0] if len(set(value)) == 1 else list(value)
    return value if isinstance(value, bool | int | float | str) else None


def _last(part: _Part) -> int:
    return part if isinstance(part, int) else part.last


def _free(name: str, taken: Mapping[str, None] | set[str]) -> str:
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
