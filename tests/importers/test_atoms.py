"""Axes as products of atoms."""

from __future__ import annotations

from hypar.importers.atoms import BATCH, Atoms


def test_a_view_splits_an_atom_and_the_view_back_joins_it() -> None:
    atoms = Atoms(2)
    hidden = atoms.new(768)
    split = atoms.regroup(((BATCH,), (hidden,)), (2, 12, 64))
    assert split is not None
    assert [atoms.size(axis) for axis in split] == [2, 12, 64]
    assert atoms.leaves((hidden,)) == (*split[1], *split[2])
    back = atoms.regroup(split, (24, 64))
    assert back is not None
    assert atoms.leaves(back[0]) == (BATCH, *split[1])
    assert atoms.regroup(back, (2, 1, 768)) is not None


def test_equal_axes_are_split_alike_before_they_become_one() -> None:
    atoms = Atoms(2)
    heads, groups, repeats = atoms.new(32), atoms.new(8), atoms.new(4)
    assert atoms.unite((heads,), (groups, repeats))
    assert atoms.leaves((heads,)) == atoms.leaves((groups, repeats))


def test_what_cannot_be_is_refused() -> None:
    atoms = Atoms(2)
    channels, height, other = atoms.new(6, "channels"), atoms.new(6, "height"), atoms.new(10)
    assert atoms.regroup(((channels,),), (2, 3)) is None, "an atom of an image is never split"
    assert not atoms.unite((channels,), (height,)), "two names"
    assert not atoms.unite((channels,), (other,)), "two sizes"
    assert atoms.regroup(((other,),), (4, 3)) is None, "another number of elements"
    assert not atoms.unite((BATCH,), (atoms.new(2),)), "samples are no other dim"
    twelve, fifteen = atoms.new(12), atoms.new(15)
    assert not atoms.align((twelve, fifteen), (fifteen, twelve)), "no common factors in order"


def test_samples_of_one_stay_where_they_are() -> None:
    atoms = Atoms(1)
    sequence = atoms.new(5)
    axes = atoms.regroup(((BATCH,), (sequence,)), (5,))
    assert axes == ((BATCH, sequence),)
    assert atoms.regroup(axes, (1, 5)) == ((BATCH,), (sequence,))
