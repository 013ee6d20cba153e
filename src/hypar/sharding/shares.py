"""Shares: the part of each dim of a layer that each device of a tree has, as fractions of the piece of the node above."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.placement import ALONE, IDLE, WHOLE, Choice, Options, choice_of, digits_of, shards_of
from hypar.sharding.tree import Device, Node, Split, Stages, splits_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Shares = NDArray[np.float64]
"""The start and the end of each device's share of a dim, as fractions of its group's piece, ``[devices, 2]``."""

ALL: Shares = np.array((0.0, 1.0))
"""The share of a device whose group does not divide the dim."""

Working = NDArray[np.bool_]
"""Whether each device, or each part of a node, computes anything."""

PART = ""
"""The dim under which the part of each device stands at a level; 0 where a level has none."""

Given = tuple[Choice, int | tuple[float, ...]]
"""What a node decides for a layer: a choice, and the number of equal parts or the share of each; a stage has it alone."""


class GroupShare(NamedTuple):
    """A share of a layer at an uneven split.

    Attributes:
        dim: the dim that the split divides; None if all groups have all.
        ends: the ends of the share of each group as fractions; None of one without a share.
        own: the number of the group whose share it is.
    """

    dim: str | None
    ends: tuple[tuple[float, float] | None, ...]
    own: int

    @property
    def of_groups(self) -> tuple[dict[str, Shares], Working]:
        """The share of each group of the dim, and whether it works."""
        if self.dim is None:
            return {}, np.ones(len(self.ends), bool)
        shares = np.array([own or (0.0, 0.0) for own in self.ends])
        return {self.dim: shares}, np.array([*map(bool, self.ends)])


@lru_cache(maxsize=1024)
def shares_of(choice: Choice, given: int | tuple[float, ...]) -> tuple[dict[str, Shares], Working]:
    """Return the share of each part of a node of the dims that it divides, ``[parts, 2]``, and whether each part works."""
    if isinstance(given, int):
        numbers = shards_of(choice, given)
        each = {dim: np.stack([numbers[dim], numbers[dim] + 1], axis=1) for dim in choice.divided}
        return {dim: found / choice.degree(dim) for dim, found in each.items()}, numbers[IDLE] == 0
    starts = [math.fsum(given[:part]) for part in range(len(given))]
    ends = np.stack([starts, np.add(starts, given)], axis=1)
    return dict.fromkeys(choice.divided, ends), (np.array(given) > 0) | (choice == WHOLE)


@lru_cache(maxsize=1024)
def digits_of_each(choices: Options, ways: int) -> dict[Choice, tuple[tuple[int, str], ...]]:
    """Return what each of some choices divides at each digit of a level."""
    digits = digits_of(choices, ways)
    return {choice: tuple((own, labels[at]) for own, labels in digits) for at, choice in enumerate(choices)}


def given_in(root: Node | None) -> dict[int, dict[str, tuple[Given, ...]]]:
    """Return what the splits of a tree, by identity, decide for each of their layers, digit by digit; under no name for others."""
    return {id(split): _given(split) for split in splits_of(root)}


def _given(split: Split) -> dict[str, tuple[Given, ...]]:
    choices = {name: split.choice(name) for name in split.choices}
    if split.sides is not None:
        own = {name: ((choice, split.shares_of(name)),) for name, choice in choices.items()}
        return {**own, "": ((WHOLE, split.ways),)}
    digits = digits_of([*choices.values()], split.ways)
    rows = zip(*[[(choice_of(label, own), own) for label in labels] for own, labels in digits], strict=True)
    return {**dict(zip(choices, rows, strict=True)), "": tuple((WHOLE, own) for own, _ in digits)}


def laid(
    node: Node, name: str, splits: Mapping[int, Mapping[str, tuple[Given, ...]]]
) -> tuple[list[dict[str, Shares]], Working]:
    """Return the shares that each device below a node has of a layer at each level, and whether it works.

    Levels whose splits are not given, as of ``given_in``, are whole. The number of a device's part at a level is a share, too.
    """
    if isinstance(node, Device):
        return [], np.ones(1, bool)
    if isinstance(node, Stages):
        given: tuple[Given, ...] = ((ALONE, tuple(float(name in own) for own in node.layers)),)
    else:
        decided = splits.get(id(node.split), {"": ((WHOLE, node.split.ways),)})
        given = decided.get(name, decided[""])
    ways = [own if isinstance(own, int) else len(own) for _, own in given]
    below = [None if part is None else laid(part, name, splits) for part in node.below]
    each = enumerate(below * (math.prod(ways) // len(below)))
    numbers, parts = zip(*[(number, part) for number, part in each if part is not None], strict=True)
    sizes, working = [len(own) for _, own in parts], np.concatenate([own for _, own in parts])
    levels = list[dict[str, Shares]]()
    for part, own in zip(np.unravel_index(np.repeat(numbers, sizes), ways), given, strict=True):
        shares, works = shares_of(*own)
        levels.append(
            {PART: np.stack([part, part], axis=1), **{dim: ends[part] for dim, ends in shares.items()}}
        )
        working &= works[part]
    for level in zip_longest(*[own for own, _ in parts], fillvalue=dict[str, Shares]()):
        pairs = [*zip(level, [np.tile(ALL, (size, 1)) for size in sizes], strict=True)]
        dims = dict.fromkeys(dim for own in level for dim in own)
        levels.append({dim: np.concatenate([own.get(dim, rest) for own, rest in pairs]) for dim in dims})
    return levels, working
