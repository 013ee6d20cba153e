"""Names of dims: atoms are named by what they are to attention, embeddings and linear layers."""

from __future__ import annotations

from dataclasses import replace
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from hypar.importers.atoms import BATCH
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.importers.atoms import Atoms, Axis
    from hypar.importers.layers import LayerDraft

BETWEEN = frozenset({"dropout", "pointwise", "position", "softmax"})
"""Ops between the two products of an attention."""

EXPERTS = {"over": "sequence", "to": "experts", "slots": "slots"}
"""Names of the dims of a dispatch."""


def named(drafts: Sequence[LayerDraft], atoms: Atoms) -> tuple[tuple[LayerDraft, ...], dict[str, int]]:
    """Return layers whose fields have the names of dims, and the dims whose sizes they need."""
    names = _Names(drafts, atoms)
    found = tuple(replace(draft, fields=names.fields(draft)) for draft in drafts)
    needed = dict.fromkeys(
        atom
        for draft in found
        for field in load_plugin("ops", draft.op).sized
        for atom in atoms.leaves(draft.roles.get(field, ()))
    )
    fixed = {*atoms.fixed.values()}
    return found, {name: atoms.size((atom,)) for atom in needed if (name := names.name(atom)) not in fixed}


class _Names:
    """Gives names; ``of`` holds that of each atom, ``beside`` the atoms of the tensors that have one."""

    def __init__(self, drafts: Sequence[LayerDraft], atoms: Atoms) -> None:
        self.drafts, self.atoms = drafts, atoms
        self.of: dict[int, str] = {}
        self.sizes: dict[str, int] = {}
        self.tensors = [self.dims(draft.dims) for draft in drafts]
        self.beside: dict[int, set[int]] = {}
        for draft, dims in zip(drafts, self.tensors, strict=True):
            factors = [atom for read in draft.reads for atom in self.tensors[read] if draft.op == "matmul"]
            for together in (dims, factors):
                for atom in together:
                    self.beside.setdefault(atom, set()).update(together)
        for axis, name in self.wanted():
            for atom in self.dims(axis):
                if atom not in self.of:
                    self.give(atom, atoms.fixed.get(atom, name))

    def dims(self, axis: Iterable[int]) -> Axis:
        """Return the atom that names each dim of an axis."""
        return tuple(self.atoms.first(atom) for atom in self.atoms.leaves(axis))

    def name(self, atom: int) -> str:
        return self.of[self.atoms.first(atom)]

    def give(self, atom: int, base: str) -> None:
        """Name an atom, as no other of another size or beside it in a tensor is named."""
        size, fixed = self.atoms.size((atom,)), atom in self.atoms.fixed
        taken = {self.of[other] for other in self.beside.get(atom, ()) if other in self.of}
        name, letters = base, iter(ascii_lowercase[1:])
        while name in taken or (not fixed and self.sizes.get(name, size) != size):
            letter = next(letters, None)
            name = f"{base}_{letter}" if letter else f"{name}_x"
        self.of[atom] = name
        if not fixed:
            self.sizes[name] = size

    def wanted(self) -> Iterator[tuple[Axis, str]]:
        """Yield axes with the name that each of their atoms should have, the surest first."""
        yield from (((atom,), name) for atom, name in self.atoms.fixed.items() if atom != BATCH)
        rules = {"attention": self.of_attention, "matmul": self.of_products, "dispatch": self.of_experts}
        for op, rule in rules.items():
            yield from (pair for draft in self.drafts if draft.op == op for pair in rule(draft))
        yield from self.of_tables()
        for draft, dims in zip(self.drafts, self.tensors, strict=True):
            if draft.op in {"add", "layer_norm", "rms_norm"}:
                yield dims[-1:], "hidden"
        yield from self.of_linear()
        for dims in self.tensors:
            yield dims[-1:], "features"
            yield dims, "sequence"
        for draft in self.drafts:
            yield from ((axis, "features") for axis in draft.roles.values())

    def of_attention(self, draft: LayerDraft) -> Iterator[tuple[Axis, str]]:
        queries, keys, values, *further = (self.tensors[read] for read in draft.reads)
        over = self.dims(draft.roles["over"])
        yield over, "sequence"
        yield from ((dims[-1:], "head_dim") for dims in (queries, keys, values))
        yield from ((dims[-1:], "rope_dim") for dims in further)
        shared = tuple(atom for atom in keys[:-1] if atom not in over)
        grouped = tuple(atom for atom in queries[:-1] if atom not in (*over, *shared))
        yield shared, "kv_heads" if grouped else "heads"
        yield grouped, "group" if shared else "heads"

    def of_products(self, draft: LayerDraft) -> Iterator[tuple[Axis, str]]:
        """Yield the dims of an attention between two sequences, which is two products with a softmax between."""
        first, values = draft.reads
        number = first
        while self.drafts[number].op in BETWEEN:
            number = self.drafts[number].reads[0]
        scores = self.drafts[number]
        if scores.op == "matmul" and number != first:
            yield tuple(atom for pair in draft.pairs["over"] for atom in pair), "sequence"
            yield tuple(pair[0] for pair in scores.pairs["over"]), "head_dim"
            yield self.tensors[values][-1:], "head_dim"
            queries = self.tensors[scores.reads[0]]
            yield tuple(atom for atom in queries if atom in self.tensors[values]), "heads"

    def of_experts(self, draft: LayerDraft) -> Iterator[tuple[Axis, str]]:
        yield from ((draft.roles[field], name) for field, name in EXPERTS.items())

    def of_tables(self) -> Iterator[tuple[Axis, str]]:
        """Yield the dims of embeddings; the largest table is that of the vocabulary."""
        tables = [draft for draft in self.drafts if draft.op == "embedding"]
        largest = max((self.atoms.size(table.roles["over"]) for table in tables), default=0)
        for table in tables:
            over = table.roles["over"]
            yield over, "vocab" if self.atoms.size(over) == largest else "types"
            yield table.roles["out"], "hidden"
            yield self.tensors[table.reads[0]], "sequence"

    def of_linear(self) -> Iterator[tuple[Axis, str]]:
        """Yield the dims of linear layers: those that another one contracts are of a perceptron, the last ones classes."""
        layers = [draft.roles for draft in self.drafts if draft.op == "linear"]
        read = {atom for roles in layers for atom in self.atoms.leaves(roles.get("contracted", ()))}
        for roles in layers:
            for atom in self.atoms.leaves(roles.get("out", ())):
                last = "vocab" if self.atoms.size((atom,)) == self.sizes.get("vocab") else "classes"
                yield (atom,), "ff" if atom in read else last

    def fields(self, draft: LayerDraft) -> dict[str, Any]:
        """Return the fields of a layer with those that name dims, unless these are named by default."""
        found: dict[str, Any] = {}
        known = load_plugin("ops", draft.op).model_fields
        for field, axis in draft.roles.items():
            names = [self.of[atom] for atom in self.dims(axis)]
            default = known[field].default
            if names != ([*default] if isinstance(default, tuple) else [default]):
                found["in" if field == "contracted" else field] = names[0] if len(names) == 1 else names
        for field, pairs in draft.pairs.items():
            sides = (self.atoms.leaves(side) for side in zip(*pairs, strict=True))
            mapped = {self.name(one): self.name(other) for one, other in zip(*sides, strict=True)}
            listed = [*mapped] if len(mapped) > 1 else next(iter(mapped))
            found[field] = listed if all(one == other for one, other in mapped.items()) else mapped
        return {**found, **draft.fields}
