"""Tensors that are made empty and filled part by part, which are concatenations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.importers.trace import Node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EMPTY = frozenset({"empty", "empty_like", "new_empty", "new_zeros", "zeros", "zeros_like"})


def filled(nodes: Sequence[Node], shapes: Mapping[str, Sequence[int]]) -> list[Node]:
    """Return operations with each tensor that is filled by parts side by side along one axis as their concatenation.

    Args:
        nodes: operations, a copy into a part of a tensor among them as ``copy`` to a ``slice``.
        shapes: shape of every value.
    """
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for value in dict.fromkeys(node.read):
            readers.setdefault(value, []).append(node)
    gone: set[str] = set()
    made: dict[str, Node] = {}
    for node in nodes:
        if node.kind in EMPTY and (parts := _parts(node.result, readers, shapes)):
            axis = parts[0][0].attributes.get("dim", 0)
            sources = tuple(copy.operands["src"][0] for _, copy in parts)
            last = max((copy for _, copy in parts), key=nodes.index)
            gone |= {node.result, *(one.result for pair in parts for one in pair)}
            made[last.result] = Node(
                kind="cat", operands={"tensors": sources}, attributes={"dim": axis}, result=node.result, scope=node.scope
            )  # fmt: skip
    return [made.get(node.result, node) for node in nodes if node.result in made or node.result not in gone]


def _parts(
    value: str, readers: Mapping[str, Sequence[Node]], shapes: Mapping[str, Sequence[int]]
) -> list[tuple[Node, Node]]:
    """Return the parts of a tensor in order, each with its copy; nothing where they do not fill it."""
    slices = [node for node in readers.get(value, ()) if node.kind == "slice"]
    axes = {node.attributes.get("dim", 0) for node in slices}
    if len(axes) != 1 or any(node.attributes.get("step", 1) != 1 for node in slices):
        return []
    (axis,), place, found = axes, 0, list[tuple[Node, Node]]()
    for part in sorted(slices, key=_start):
        copies = readers.get(part.result, ())
        if (
            _start(part) != place
            or [copy.kind for copy in copies] != ["copy"]
            or copies[0].operands.get("self") != (part.result,)
            or not copies[0].operands.get("src")
            or readers.get(copies[0].result)
        ):
            return []
        place += shapes[part.result][axis]
        found.append((part, copies[0]))
    return found if place == shapes[value][axis] else []


def _start(part: Node) -> int:
    return int(part.attributes.get("start") or 0)
