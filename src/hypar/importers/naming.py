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

DEFAULTS = {
    "attention": ("sequence",),
    "combine": ("experts", "slots"),
    "dispatch": ("sequence", "slots"),
    "layer_scale": ("channels",),
    "patch": ("sequence",),
    "rope": ("sequence", "head_dim"),
    "select": ("sequence",),
    "sequence_conv": ("sequence",),
    "softmax": ("channels",),
    "token": ("sequence",),
}
"""Names that fields of an op have by default."""

SHARES = frozenset({"dropout", "pointwise", "position", "softmax"})
"""Ops between the two products of an attention."""


def named(drafts: Sequence[LayerDraft], atoms: Atoms) -> tuple[tuple[LayerDraft, ...], dict[str, int]]:
    """Return layers whose fields have the names of dims, and the dims whose sizes they need."""
    names = _Names(drafts, atoms)
    found = tuple(replace(draft, fields=names.fields(draft)) for draft in drafts)
    fixed = {*atoms.fixed.values()}
    used = [
        atom
        for draft in found
        for field in load_plugin("ops", draft.op).sized
        for atom in atoms.leaves(draft.roles.get(field, ()))
    ]
    return found, {
        name: atoms.size((atom,)) for atom in dict.fromkeys(used) if (name := names.name(atom)) not in fixed
    }


class _Names:
    """Gives names; ``of`` holds that of each atom."""

    def __init__(self, drafts: Sequence[LayerDraft], atoms: Atoms) -> None:
        self.drafts, self.atoms = drafts, atoms
        self.of: dict[int, str] = {}
        self.sizes: dict[str, int] = {}
        tensors = [self.dims(draft.dims) for draft in drafts]
        self.beside: dict[int, set[int]] = {}
        for number, draft in enumerate(drafts):
            for dims in (tensors[number], self.factors(draft, tensors)):
                for atom in dims:
                    self.beside.setdefault(atom, set()).update(dims)
        for atom, name in self.wanted(tensors):
            own = atoms.first(atom)
            if own not in self.of:
                self.give(own, atoms.fixed.get(own, name))

    def dims(self, axis: Iterable[int]) -> Axis:
        """Return the atom that names each dim of an axis."""
        return tuple(self.atoms.first(atom) for atom in self.atoms.leaves(axis))

    def name(self, atom: int) -> str:
        """Return the name of an atom."""
        return self.of[self.atoms.first(atom)]

    def factors(self, draft: LayerDraft, tensors: Sequence[Axis]) -> Axis:
        """Return all atoms of the two factors of a product."""
        return tuple(atom for read in draft.reads for atom in tensors[read]) if draft.op == "matmul" else ()

    def give(self, atom: int, base: str) -> None:
        """Name an atom, as no other of another size or beside it in a tensor is named."""
        size = self.atoms.size((atom,))
        taken = {self.of[other] for other in self.beside.get(atom, ()) if other in self.of}
        name, letters = base, iter(ascii_lowercase[1:])
        while name in taken or (atom not in self.atoms.fixed and self.sizes.get(name, size) != size):
            letter = next(letters, None)
            name = f"{base}_{letter}" if letter else f"{name}_x"
        self.of[atom] = name
        if atom not in self.atoms.fixed:
            self.sizes[name] = size

    def wanted(self, tensors: Sequence[Axis]) -> Iterator[tuple[int, str]]:
        """Yield atoms with the name that each should have, the surest first."""
        yield from ((atom, name) for atom, name in self.atoms.fixed.items() if atom != BATCH)
        yield from self.of_attention(tensors)
        yield from self.of_products(tensors)
        yield from self.of_experts()
        yield from self.of_tables(tensors)
        joined = [
            number
            for number, draft in enumerate(self.drafts)
            if draft.op in {"add", "layer_norm", "rms_norm"}
        ]
        yield from ((atom, "hidden") for number in joined for atom in tensors[number][-1:])
        yield from self.of_linear()
        for dims in tensors:
            yield from zip(dims[-1:], ("features",), strict=False)
            yield from ((atom, "sequence") for atom in dims)
        for draft in self.drafts:
            for axis in draft.roles.values():
                yield from ((atom, "features") for atom in self.atoms.leaves(axis))

    def of_attention(self, tensors: Sequence[Axis]) -> Iterator[tuple[int, str]]:
        """Yield the dims of attentions."""
        for draft in self.drafts:
            if draft.op != "attention":
                continue
            queries, keys, values, *further = (tensors[read] for read in draft.reads)
            over = self.dims(draft.roles["over"])
            yield from ((atom, "sequence") for atom in over)
            yield from ((dims[-1], "head_dim") for dims in (queries, keys, values))
            yield from ((dims[-1], "rope_dim") for dims in further)
            shared = [atom for atom in keys[:-1] if atom not in over]
            grouped = [atom for atom in queries[:-1] if atom not in (*over, *shared)]
            yield from ((atom, "kv_heads" if grouped else "heads") for atom in shared)
            yield from ((atom, "group" if shared else "heads") for atom in grouped)

    def of_products(self, tensors: Sequence[Axis]) -> Iterator[tuple[int, str]]:
        """Yield the dims of attentions between two sequences, which are two products with a softmax between."""
        for draft in self.drafts:
            number = draft.reads[0] if draft.op == "matmul" else 0
            while self.drafts[number].op in SHARES:
                number = self.drafts[number].reads[0]
            scores = self.drafts[number]
            if scores.op != "matmul" or scores is self.drafts[draft.reads[0]]:
                continue
            (queries, _), values = scores.reads, draft.reads[1]
            over = self.dims([atom for pair in draft.pairs["over"] for atom in pair])
            yield from ((atom, "sequence") for atom in over)
            yield from ((atom, "head_dim") for atom in self.dims([pair[0] for pair in scores.pairs["over"]]))
            yield from ((atom, "head_dim") for atom in tensors[values][-1:])
            yield from ((atom, "heads") for atom in tensors[queries] if atom in tensors[values])

    def of_experts(self) -> Iterator[tuple[int, str]]:
        """Yield the dims of mixtures of experts."""
        for draft in self.drafts:
            if draft.op == "dispatch":
                for field, name in (("over", "sequence"), ("to", "experts"), ("slots", "slots")):
                    yield from ((atom, name) for atom in self.dims(draft.roles[field]))

    def of_tables(self, tensors: Sequence[Axis]) -> Iterator[tuple[int, str]]:
        """Yield the dims of embeddings; the largest table is that of the vocabulary."""
        tables = [draft for draft in self.drafts if draft.op == "embedding"]
        largest = max((self.atoms.size(table.roles["over"]) for table in tables), default=0)
        for table in tables:
            size = self.atoms.size(table.roles["over"])
            name = "vocab" if size == largest else "types"
            yield from ((atom, name) for atom in self.atoms.leaves(table.roles["over"]))
            yield from ((atom, "hidden") for atom in self.atoms.leaves(table.roles["out"]))
            yield from ((atom, "sequence") for atom in tensors[table.reads[0]])

    def of_linear(self) -> Iterator[tuple[int, str]]:
        """Yield the dims of linear layers: those that another one contracts are of a perceptron, the last ones classes."""
        read = {
            atom
            for draft in self.drafts
            if draft.op == "linear"
            for atom in self.atoms.leaves(draft.roles.get("contracted", ()))
        }
        vocabulary = {self.sizes.get("vocab")}
        for draft in self.drafts:
            if draft.op == "linear" and "out" in draft.roles:
                for atom in self.atoms.leaves(draft.roles["out"]):
                    last = "vocab" if self.atoms.size((atom,)) in vocabulary else "classes"
                    yield atom, "ff" if atom in read else last

    def fields(self, draft: LayerDraft) -> dict[str, Any]:
        """Return the fields of a layer with those that name dims."""
        found: dict[str, Any] = {}
        for number, (field, axis) in enumerate(draft.roles.items()):
            names = [self.of[atom] for atom in self.dims(axis)]
            default = DEFAULTS.get(draft.op, ())[number : number + 1]
            if (*names,) != default:
                found["in" if field == "contracted" else field] = names[0] if len(names) == 1 else names
        for field, pairs in draft.pairs.items():
            mapped = {
                self.name(one): self.name(other)
                for own, theirs in pairs
                for one, other in self.leaves(own, theirs)
            }
            found[field] = [*mapped] if all(one == other for one, other in mapped.items()) else mapped
            if len(mapped) == 1 and isinstance(found[field], list):
                (found[field],) = found[field]
        return {**found, **draft.fields}

    def leaves(self, one: int, other: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs of atoms of which two consist."""
        return zip(self.atoms.leaves((one,)), self.atoms.leaves((other,)), strict=True)
