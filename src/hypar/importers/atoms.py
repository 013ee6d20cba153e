"""Atoms: the factors of the axes of tensors, which views regroup and operations equate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Axis = tuple[int, ...]
Axes = tuple[Axis, ...]

BATCH = 0
"""The atom of the samples."""


class Atoms:
    """All atoms of a network; an axis is a product of atoms, outermost first, and an axis of one element may be empty.

    An atom may be split into several, and two atoms may turn out to be one; ``leaves`` says what became of them.

    Attributes:
        fixed: names of atoms that are already known, as ``channels``; these are never split.
        aliases: atoms that stand for another of the same tensor, as the keys' positions beside the queries'.
        before: the atom that an op makes longer or shorter, behind the atom that it makes: both are one dim by name.
    """

    def __init__(self, batch: int) -> None:
        self._sizes, self._same = [batch], [BATCH]
        self._parts: dict[int, Axis] = {}
        self.fixed: dict[int, str] = {BATCH: "batch"}
        self.aliases: set[int] = set()
        self.before: dict[int, int] = {}
        self._within: dict[int, set[int]] = {}
        self._tensors = 0

    def note(self, axis: Iterable[int]) -> None:
        """Note that one more tensor has the atoms of an axis; two atoms of one tensor never become the same."""
        self._tensors += 1
        for atom in self.leaves(axis):
            self._within.setdefault(atom, set()).add(self._tensors)

    def new(self, size: int, name: str | None = None) -> int:
        """Return a new atom."""
        atom = len(self._sizes)
        self._sizes.append(int(size))
        self._same.append(atom)
        if name is not None:
            self.fixed[atom] = name
        return atom

    def axis(self, size: int) -> Axis:
        """Return a new axis, empty for one element."""
        return (self.new(size),) if size > 1 else ()

    def leaves(self, axis: Iterable[int]) -> Axis:
        """Return the atoms that an axis consists of now."""
        found: list[int] = []
        for atom in axis:
            root = self._root(atom)
            found += self.leaves(self._parts[root]) if root in self._parts else (root,)
        return tuple(found)

    def size(self, axis: Iterable[int]) -> int:
        """Return the number of elements of an axis."""
        return math.prod(self._sizes[self._root(atom)] for atom in axis)

    def resized(self, atom: int, size: int) -> int:
        """Return the atom of another size that ops make of one, under the same name."""
        for made, own in self.before.items():
            if own == atom and self.size((made,)) == size:
                return made
        self.before[made := self.new(size)] = atom
        return made

    def made(self, atom: int | None, name: str, size: int, *, renewed: bool) -> int:
        """Return the atom that a layer makes of one that it reads, of another size or not; without one a new one of a name."""
        if atom is None or (atom in self.fixed and (renewed or self.size((atom,)) != size)):
            return self.new(size, name)
        return atom if self.size((atom,)) == size else self.resized(atom, size)

    def first(self, atom: int) -> int:
        """Return the atom that ops made longer or shorter until it was this one."""
        (root,) = self.leaves((atom,))
        return self.first(self.before[root]) if root in self.before else root

    def regroup(self, axes: Iterable[Axis], sizes: Sequence[int]) -> Axes | None:
        """Return axes of other sizes over the same elements; None where an atom would have to be split that cannot be."""
        own, new = self.leaves(sum(axes, ())), tuple(map(self.axis, sizes))
        if not new or not self.align([atom for atom in own if self.size((atom,)) > 1], sum(new, ())):
            return None
        waiting, found = [*reversed(self.leaves(own))], list[Axis]()
        for axis in new:
            left, taken = len(self.leaves(axis)), list[int]()
            while waiting and (left or (not taken and self.size(waiting[-1:]) == 1)):
                taken.append(waiting.pop())
                left -= self.size(taken[-1:]) > 1
            found.append(tuple(taken))
        return (*found[:-1], (*found[-1], *reversed(waiting)))

    def align(self, one: Iterable[int], other: Iterable[int]) -> bool:
        """Split the atoms of two axes so that both have equal sizes in order; return whether that can be."""
        while True:
            first, second = self.leaves(one), self.leaves(other)
            pairs = (sorted(pair, key=self._sizes.__getitem__) for pair in zip(first, second, strict=False))
            unlike = next((pair for pair in pairs if self._sizes[pair[0]] != self._sizes[pair[1]]), None)
            if unlike is None:
                return len(first) == len(second)
            outer, large = self._sizes[unlike[0]], unlike[1]
            if outer == 1 or self._sizes[large] % outer or not self._splits(large):
                return False
            self._split(large, outer)

    def unite(self, one: Axis, other: Axis) -> bool:
        """Make the atoms of two axes the same; return whether that can be."""
        if self.size(one) != self.size(other) or not self.align(one, other):
            return False
        pairs = [(a, b) for a, b in zip(self.leaves(one), self.leaves(other), strict=True) if a != b]
        if any(BATCH in pair or self.aliases & {*pair} or self._apart(*pair) for pair in pairs):
            return False
        for a, b in pairs:
            kept, gone = (b, a) if b in self.fixed else (a, b)
            self._same[gone] = kept
            self._within.setdefault(kept, set()).update(self._within.pop(gone, ()))
        return True

    def _apart(self, one: int, other: int) -> bool:
        """Return whether a tensor has both of two atoms, or one beside another of the other's name, or their names differ."""
        one, other = (one, other) if one in self.fixed else (other, one)
        name, named = self.fixed.get(one), other in self.fixed
        rivals = [one, *(atom for atom, own in self.fixed.items() if own == name and not named)]
        beside = any(self._within.get(atom, set()) & self._within.get(other, set()) for atom in rivals)
        return beside or (named and self.fixed[other] != name)

    def _root(self, atom: int) -> int:
        while self._same[atom] != atom:
            atom = self._same[atom]
        return atom

    def _splits(self, atom: int) -> bool:
        return not any(atom in kept for kept in (self.fixed, self.aliases, self.before, self.before.values()))

    def _split(self, atom: int, outer: int) -> Axis:
        parts = self.new(outer), self.new(self._sizes[atom] // outer)
        self._parts[atom] = parts
        within = self._within.pop(atom, set())
        self._within |= {part: {*within} for part in parts}
        return parts
