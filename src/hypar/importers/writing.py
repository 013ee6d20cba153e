"""Entries of a model file from layers: names of dims and of layers, and runs of equal modules as one block that is repeated."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, groupby
from string import ascii_lowercase
from typing import Any, NamedTuple

from hypar.importers import atoms
from hypar.importers.atoms import Atom, Axis
from hypar.importers.layers import LayerDraft, shape_of
from hypar.importers.sequences import scores_of
from hypar.network.modelfile import MOST_REPEATS
from hypar.registry import load_plugin

NAMES = {
    "dispatch": {"over": "sequence", "to": "experts", "slots": "slots"},
    "embedding": {"over": "types", "out": "hidden"},
}
"""Names of the dims in fields of an op, but for the vocabulary, which is the largest table."""


def _name_dims(drafts: Sequence[LayerDraft]) -> dict[str, int]:
    """Name the dims of layers, none as another of another size or beside it in a tensor; return the sizes of names, but of images'."""
    beside: dict[Atom, set[Atom]] = {}
    for draft in drafts:
        factors = [atom for read in draft.reads for atom in dims_of(read.made) if draft.op == "matmul"]
        for together in (dims_of(draft.made), factors):
            for atom in together:
                beside.setdefault(atom, set()).update(together)
    sizes: dict[str, int] = {}
    for axis, base in _wanted(drafts, sizes):
        for atom in dims_of(axis):
            if not atom.name:
                taken = {other.name for other in beside.get(atom, ())}
                ends = ("_" + letter * times for times in count(1) for letter in ascii_lowercase[1:])
                names = (base + end for end in chain([""], ends))
                known = (name for name in names if sizes.get(name, atom.size) == atom.size)
                atom.name = next(name for name in known if name not in taken)
                sizes[atom.name] = atom.size
    return sizes


def _wanted(drafts: Sequence[LayerDraft], sizes: Mapping[str, int]) -> Iterator[tuple[Axis, str]]:
    """Yield axes with the name that each of their atoms should have, the surest first."""
    for op in ("attention", "matmul"):
        yield from (pair for draft in drafts if draft.op == op for pair in _of_attention(draft))
    tables = [draft.roles["over"] for draft in drafts if draft.op == "embedding"]
    largest = max(map(atoms.size, tables), default=0)
    yield from ((over, "vocab") for over in tables if atoms.size(over) == largest)
    for op, names in NAMES.items():
        own = [draft for draft in drafts if draft.op == op]
        yield from ((draft.roles[field], name) for draft in own for field, name in names.items())
        yield from ((read.dims[:1], "sequence") for draft in own for read in draft.reads)
    normed = (draft for draft in drafts if draft.op in {"add", "layer_norm", "rms_norm"})
    yield from ((draft.dims[-1:], "hidden") for draft in normed)
    # Dims that another linear layer contracts are of a perceptron, the last ones classes.
    linear = [draft.roles for draft in drafts if draft.op == "linear"]
    read = {atom for roles in linear for atom in atoms.leaves(roles.get("contracted", ()))}
    for atom in atoms.leaves(atom for roles in linear for atom in roles.get("out", ())):
        last = "vocab" if atom.size == sizes.get("vocab") else "classes"
        yield (atom,), "ff" if atom in read else last
    for draft in drafts:
        yield draft.dims[-1:], "features"
        yield draft.dims, "sequence"
    yield from ((axis, "features") for draft in drafts for axis in draft.roles.values())


def _of_attention(draft: LayerDraft) -> Iterator[tuple[Axis, str]]:
    """Yield the dims of an attention, and of one between two sequences: two products with a softmax between."""
    reads, over = draft.reads, dims_of(draft.roles.get("over", ()))
    if draft.op == "matmul":
        scores, between = scores_of(reads[0])
        if scores.op != "matmul" or not between:
            return
        reads = (*scores.reads, reads[1])
    queries, keys, values, *further = (dims_of(read.made) for read in reads)
    if draft.op == "matmul":
        apart = (atom for atom in queries if atom not in (*keys, *values))
        over = (*sum(zip(draft.roles["over"], draft.others["over"], strict=True), ()), *apart)
    yield over, "sequence"
    yield from ((dims[-1:], "head_dim") for dims in (queries, keys, values))
    yield from ((dims[-1:], "rope_dim") for dims in further)
    shared = tuple(atom for atom in keys[:-1] if atom not in over)
    grouped = tuple(atom for atom in queries[:-1] if atom not in (*over, *shared))
    yield shared, "kv_heads" if grouped else "heads"
    yield grouped, "group" if shared else "heads"


def dims_of(axis: Axis) -> Axis:
    """Return the atoms that have the names of those of an axis."""
    return tuple(atom.first for atom in atoms.leaves(axis))


UNNAMED = {"relu", "gelu", "silu", "flatten", "dropout", "softmax", "pointwise", "input", "cross_entropy"}
"""Ops whose layers have no name unless another layer needs it."""

LONGEST_NAME = 90
CONTAINERS = frozenset({"", "Sequential", "ModuleList", "ModuleDict"})


class _Row(NamedTuple):
    """A layer, or modules one behind the other, whose layers are equal and read what the module before gives.

    ``members`` are the layers of the first of ``turns`` modules.
    """

    path: tuple[str, ...]
    members: range
    turns: int = 1

    @property
    def last(self) -> int:
        return self.members.start + self.turns * len(self.members) - 1


def content(drafts: Sequence[LayerDraft], classes: Mapping[tuple[str, ...], str]) -> dict[str, Any]:
    """Return the ``dims``, the ``blocks`` and the ``layers`` of a model file, after giving layers the fields that name dims."""
    known, needed = _name_dims(drafts), dict[str, int]()
    for draft in drafts:
        found = draft.named()
        for field in load_plugin("ops", draft.op).sized:
            sizes = shape_of(atoms.leaves(draft.roles.get(field, ())))
            if sizes.keys() <= known.keys():
                needed |= sizes
            else:  # no dims of the file
                found[field] = sizes
        draft.fields = {**found, **draft.fields}
    writer = _Writer(drafts, classes)
    layers = writer.entries([*writer.rows(range(len(drafts)), 0)])
    return {"dims": needed, "blocks": writer.blocks, "layers": layers}


class _Writer:
    """Writes entries; ``ops`` are those of each module, ``last_reader`` is the last layer that reads one."""

    def __init__(self, drafts: Sequence[LayerDraft], classes: Mapping[tuple[str, ...], str]) -> None:
        self.drafts, self.classes = drafts, classes
        self.blocks: dict[str, dict[str, Any]] = {}
        self.block_of: dict[str, str] = {}
        self.ops: dict[tuple[str, ...], set[str]] = {}
        self.last_reader: dict[int, int] = {}
        self.number = {draft: number for number, draft in enumerate(drafts)}
        self.reads = [tuple(self.number[read] for read in draft.reads) for draft in drafts]
        for number, draft in enumerate(drafts):
            self.ops.setdefault(draft.node.scope, set()).add(draft.op)
            self.last_reader |= dict.fromkeys(self.reads[number], number)
        self.containers = {scope[:depth] for scope in self.ops for depth in range(len(scope))}

    def read(self, row: _Row) -> tuple[int, ...]:
        """Return the layers that a row reads, of several layers each once."""
        outer = (one for number in row.members for one in self.reads[number] if one not in row.members)
        return tuple(dict.fromkeys(outer)) if len(row.members) > 1 else self.reads[row.last]

    def layers(self, numbers: Iterable[int]) -> list[_Row]:
        return [_Row(self.drafts[number].node.scope, range(number, number + 1)) for number in numbers]

    def rows(self, numbers: range, depth: int) -> Iterator[_Row]:
        """Yield layers one by one but for the longest runs of equal modules, the outermost first."""
        found: list[_Row] = []
        for path, group in groupby(numbers, lambda number: self.drafts[number].node.scope[: depth + 1]):
            first, *rest = group
            row = _Row(path, range(first, first + len(rest) + 1))
            if len(path) <= depth:
                found += self.layers(row.members)
            elif found and self.follows(found[-1], row):
                found[-1] = found[-1]._replace(turns=found[-1].turns + 1)
            else:
                found.append(row)
        for row in found:
            alone = row.turns == 1 and len(row.path) > depth
            yield from self.rows(row.members, depth + 1) if alone else [row]

    def follows(self, run: _Row, row: _Row) -> bool:
        """Return whether a module is one more turn of a run: each reads one layer, and gives its last one alone."""
        inner = ((one, own.members) for own in (run, row) for one in own.members[:-1])
        return (
            run.turns < MOST_REPEATS
            and len(row.members) > 1 == len(self.read(run))
            and run.path[:-1] == row.path[:-1]
            and self.read(row) == (run.last,)
            and self.last_reader[run.last] in row.members
            and self.form(run) == self.form(row)
            and all(self.last_reader.get(one) in members for one, members in inner)
        )

    def form(self, run: _Row) -> str:
        """Return what the modules of a run have in common: ops, fields and wiring."""
        members = ((self.drafts[number], self.reads[number]) for number in run.members)
        wired = ((draft, [max(read - run.members.start, -1) for read in reads]) for draft, reads in members)
        return repr([(draft.op, sorted(draft.fields.items()), reads) for draft, reads in wired])

    def entries(
        self, rows: Sequence[_Row], path: tuple[str, ...] = (), read: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the entries of a list; ``read`` is the layer that the list of a block knows as ``input``."""
        before = [read, *(row.last for row in rows)]
        pairs = zip(map(self.read, rows), before, strict=False)
        wired = [() if reads == (last,) else reads for reads, last in pairs]
        wanted = {one for reads in wired for one in reads}
        called = {} if read is None else {read: "input"}
        found: list[dict[str, Any]] = []
        for row, reads in zip(rows, wired, strict=True):
            name = _free(self.name(row, path), called.values())
            entry = self.entry(row, name, named=row.last in wanted)
            tied = self.drafts[row.last].tied if row.turns == 1 else None
            if tied is not None and self.number[tied] in called:
                entry["weight"] = called[self.number[tied]]
            if inputs := [called[one] for one in reads]:
                entry["inputs"] = inputs[0] if len(inputs) == 1 else inputs
            found.append(entry)
            called[row.last] = name
        return found

    def name(self, row: _Row, path: tuple[str, ...]) -> str:
        """Return the rest of the path of a row's module, with its op where the module runs other layers too."""
        own = [*row.path[len(path) :]]
        if row.turns > 1:
            bare = own[-1].rstrip("0123456789").rstrip("_")
            own[-1:] = [bare] if bare else [] if len(own) > 1 else own[-1:]
        elif not own or row.path in self.containers or len(self.ops[row.path]) > 1:
            own.append(self.drafts[row.last].op)
        return _word("_".join(own))

    def entry(self, row: _Row, name: str, *, named: bool) -> dict[str, Any]:
        if row.turns > 1:
            return {"block": self.block(row), "name": name, "repeat": row.turns}
        draft = self.drafts[row.last]
        head = {"name": name} if named or draft.op not in UNNAMED else {}
        return {**head, "op": draft.op, **draft.fields}

    def block(self, run: _Row) -> str:
        """Return the name of a run's block, which is written where its form first occurs."""
        if (form := self.form(run)) not in self.block_of:
            kind = self.classes.get(run.path, "")
            base = "_".join(run.path) if kind in CONTAINERS else kind
            base = _word(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", base).lower()) or "block"
            name = self.block_of[form] = _free(base, self.block_of.values())
            self.blocks[name] = {"layers": self.entries(self.layers(run.members), run.path, *self.read(run))}
        return self.block_of[form]


def _free(name: str, taken: Collection[str]) -> str:
    names = (name if number == 1 else f"{name}_{number}" for number in count(1))
    return next(free for free in names if free not in taken)


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).lstrip("-")[:LONGEST_NAME]
