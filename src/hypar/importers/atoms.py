"""Atoms: the factors of the axes of tensors, which views regroup and operations equate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Atom:
    """A factor of axes: an axis is a product of atoms, outermost first, and an axis of one element may be empty.

    An atom may be split into several, and two atoms may turn out to be one; ``leaves`` says what became of them.

    Attributes:
        size: its elements.
        name: its name, once it has one; those of images, as ``channels``, are known from the first and never split.
        before: the atom that an op made longer or shorter, which gave this one: both are one dim by name.
        apart: whether it never is the same as another, as the samples, or the keys' positions beside the queries'.
        became: the atoms that it was split into, or the one that it turned out to be.
        resized: the atoms of other sizes that ops made of it, by these.
        tensors: the dims of the layers that have it; two atoms of one tensor never become the same.
    """

    size: int
    name: str = ""
    before: Atom | None = None
    apart: bool = False
    became: Axis = ()
    resized: dict[int, Atom] = field(default_factory=dict)
    tensors: list[Axis] = field(default_factory=list)

    @property
    def first(self) -> Atom:
        """The atom that ops made longer or shorter until it was this one."""
        (root,) = leaves((self,))
        return root.before.first if root.before else root

    @property
    def label(self) -> str:
        """The name of its dim, letters in place of a number where it has none yet."""
        number = str(id(self.first))
        return self.first.name or "x" + "".join(chr(ord("a") + int(digit)) for digit in number)

    def of_size(self, size: int) -> Atom:
        """Return the atom of another size that ops make of it, under the same name."""
        return self.resized.setdefault(size, Atom(size, before=self))

    def become(self, *parts: Atom) -> None:
        """Note that it was split into several atoms, or that it is another one, which the same tensors have."""
        self.became = parts
        for part in parts:
            part.tensors += self.tensors


Axis = tuple[Atom, ...]
Axes = tuple[Axis, ...]


def axis(size: int) -> Axis:
    """Return a new axis, empty for one element."""
    return (Atom(size),) if size > 1 else ()


def leaves(axis: Iterable[Atom]) -> Axis:
    """Return the atoms that an axis consists of now."""
    return tuple(leaf for atom in axis for leaf in (leaves(atom.became) if atom.became else (atom,)))


def size(axis: Iterable[Atom]) -> int:
    """Return the number of elements of an axis."""
    return math.prod(atom.size for atom in axis)


def regroup(axes: Iterable[Axis], sizes: Sequence[int]) -> Axes | None:
    """Return axes of other sizes over the same elements; None where an atom would have to be split that cannot be."""
    own, new = leaves(sum(axes, ())), tuple(map(axis, sizes))
    if not new or not align([atom for atom in own if atom.size > 1], sum(new, ())):
        return None
    waiting, found = [*reversed(leaves(own))], list[Axis]()
    for made in new:
        left, taken = len(leaves(made)), list[Atom]()
        while waiting and (left or (not taken and waiting[-1].size == 1)):
            taken.append(waiting.pop())
            left -= taken[-1].size > 1
        found.append(tuple(taken))
    return (*found[:-1], (*found[-1], *reversed(waiting)))


def align(one: Iterable[Atom], other: Iterable[Atom]) -> bool:
    """Split the atoms of two axes so that both have equal sizes in order; return whether that can be."""
    while True:
        first, second = leaves(one), leaves(other)
        unlike = [pair for pair in zip(first, second, strict=False) if pair[0].size != pair[1].size]
        if not unlike:
            return len(first) == len(second)
        outer, large = sorted(unlike[0], key=lambda atom: atom.size)
        kept = large.name or large.apart or large.before or large.resized
        if outer.size == 1 or large.size % outer.size or kept:
            return False
        large.become(Atom(outer.size), Atom(large.size // outer.size))


def unite(one: Axis, other: Axis) -> bool:
    """Make the atoms of two axes the same; return whether that can be."""
    if size(one) != size(other) or not align(one, other):
        return False
    pairs = [(a, b) for a, b in zip(leaves(one), leaves(other), strict=True) if a is not b]
    if any(a.apart or b.apart or _rivals(a, b) for a, b in pairs):
        return False
    for a, b in pairs:
        kept, gone = (b, a) if b.name else (a, b)
        gone.become(kept)
    return True


def _rivals(one: Atom, other: Atom) -> bool:
    """Return whether a tensor has both of two atoms, or one beside another of the other's name, or their names differ."""
    one, other = sorted((one, other), key=lambda atom: (not atom.name, -len(atom.tensors)))
    if other.name and other.name != one.name:
        return True
    name = "" if other.name else one.name
    beside = leaves(atom for tensor in other.tensors for atom in tensor)
    return any(atom is one or (name and atom.name == name) for atom in beside)
