"""Networks from a trace of any framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.importers.imported import imported
from hypar.importers.trace import Node, Trace

if TYPE_CHECKING:
    import pytest


def chain(blocks: int) -> Trace:
    """Residual blocks of a linear layer, a function and a sum."""
    shapes, parameters, nodes, last = {"x": (2, 64)}, {}, [], "x"
    for number in range(blocks):
        weight, *made = (f"{letter}{number}" for letter in "wlra")
        parameters[weight] = weight
        shapes |= {weight: (64, 64)} | dict.fromkeys(made, (2, 64))
        linear, relu, add = made
        letters = {"left": (0, 1), "right": (2, 1), "made": (0, 2)}
        rows: tuple[tuple[str, dict[str, tuple[str, ...]], str, dict[str, Any]], ...] = (
            ("dot", {"left": (last,), "right": (weight,)}, linear, letters),
            ("relu", {"input": (linear,)}, relu, {}),
            ("add", {"input": (last, relu)}, add, {}),
        )
        nodes += [
            Node(
                kind=op, op=op, operands=read, attributes=said, result=result, scope=("body", str(number)),
                shapes=shapes,
            )
            for op, read, result, said in rows
        ]  # fmt: skip
        last = add
    return Trace(
        name="chain", source="", batch=2, dtype="float32", inputs=("x",), parameters=parameters,
        shapes=shapes, nodes=tuple(nodes), output=last,
    )  # fmt: skip


def test_equal_blocks_are_one_entry_and_more_than_an_entry_may_have_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hypar.importers.writing.MOST_REPEATS", 4)
    found = imported(chain(7), batch=4, partial=False)
    turns = [entry.get("repeat") for entry in found.content["layers"]]
    assert turns == [None, 4, 3]
    assert found.graph().num_weighted == 7
