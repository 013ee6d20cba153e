"""Steps of ops that the product form of the amounts leaves out, on networks whose amounts are counted by hand."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from hypar.execution.verify import verify_program
from hypar.program.lowering import lower
from hypar.sharding.placement import Choice, cut, grid
from tests.kit import agrees
from tests.program.machines import array_of, laid
from tests.program.networks import network

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph

Key = tuple[str, str | None, str, str]
"""A layer, the maker of what it reads, a phase and a tensor."""

CONV: dict[str, Any] = {"op": "conv", "kernel": 3, "padding": 1, "bias": False, "out_channels": 6}
HEIGHT: dict[str, tuple[Choice, ...]] = {"conv": (cut("height", 4),)}


def behind(*layers: dict[str, Any], channels: int = 4, batch: int = 2) -> LayerGraph:
    """Layers behind an image of 8 x 8."""
    image = {"op": "input", "name": "in", "channels": channels, "height": 8, "width": 8}
    return network(image, *layers, batch=batch)


def pooled(mode: str, **fields: Any) -> LayerGraph:
    return behind({**CONV, "name": "conv"}, {"op": "pool", "name": "pool", "mode": mode, **fields})


NORMED = network(
    {"op": "input", "channels": 4}, {"op": "linear", "name": "fc", "out_features": 6}, {"op": "batch_norm", "name": "bn"}
)  # fmt: skip
WINDOWS: dict[str, Any] = {"kernel": 3, "stride": 2, "padding": 1}
GROUPED = behind(
    {**CONV, "name": "one", "out_channels": 8}, {**CONV, "name": "two", "out_channels": 8, "groups": 2}, channels=8
)  # fmt: skip
SMALL: dict[str, Any] = {"op": "conv", "kernel": 1, "bias": False}
BOTH = behind(
    {**SMALL, "name": "a", "out_channels": 16},
    {**SMALL, "name": "b", "out_channels": 8, "inputs": ["in"]},
    {"op": "concat", "name": "both", "inputs": ["a", "b"]},
    {**SMALL, "name": "read", "out_channels": 4},
    channels=2,
    batch=8,
)
CONCATENATED: dict[str, tuple[Choice, ...]] = {
    **dict.fromkeys("ab", (cut("batch", 8),)),
    "both": (grid({"width": 2, "channels": 4}),),
    "read": (grid({"batch": 2, "in_channels": 2, "out_channels": 2}),),
}
STATISTICS: list[Key] = [("bn", None, phase, "statistics") for phase in ("forward", "backward")]
HALVES: dict[str, tuple[Choice, ...]] = {"conv": (cut("height", 2),)}
BORDER: dict[Key, list[int]] = {
    ("pool", "conv", "forward", "input"): [2 * 6 * 8],
    ("pool", None, "backward", "input"): [2 * 6 * 8],
}
Row = tuple["LayerGraph", dict[str, tuple[Choice, ...]], dict[Key, list[int]]]
MOVED: list[Row] = [
    # Two sums a channel are added up each way over samples, and over rows.
    (NORMED, {"fc": (cut("batch", 4),)}, {key: [2 * 2 * 3 * 6] for key in STATISTICS}),
    (NORMED, {"fc": (cut("in_channels", 4),)}, {key: [0] for key in STATISTICS}),
    (NORMED, {"fc": (cut("out_channels", 4),)}, {key: [0] for key in STATISTICS}),
    (
        behind({**CONV, "name": "conv"}, {"op": "batch_norm", "name": "bn"}),
        {"conv": (cut("height", 2), cut("width", 2))},
        {STATISTICS[0]: [2 * 2 * 6, 2 * 2 * 2 * 6]},
    ),
    (pooled("average", window="global"), HEIGHT, {("pool", None, "forward", "output"): [2 * 3 * 2 * 6]}),
    # The first window of the lower half reads the last row of the upper half, and sends its error back.
    (pooled("max", **WINDOWS), HALVES, BORDER),
    (pooled("average", **WINDOWS), HALVES, BORDER),
    # Two groups of four channels, read by halves of each: the inner halves change places.
    (
        GROUPED,
        {"one": (cut("out_channels", 2),), "two": (cut("in_channels", 2),)},
        {("two", "one", "forward", "input"): [2 * 8 * 8 * 8 // 2]},
    ),
    (
        GROUPED,
        {"one": (cut("out_channels", 2),), "two": (cut("groups", 2),)},
        {("two", "one", "forward", "input"): [0]},
    ),
    # Channels of a concatenation are no range, but a reader may take those that its devices have: not 20,480.
    (BOTH, CONCATENATED, {("read", "both", "forward", "input"): [18_432]}),
]  # fmt: skip


@pytest.mark.parametrize(("at", "convention"), [*((at, "moved") for at in range(len(MOVED))), (-1, "direct")])
def test_devices_receive_what_they_lack(at: int, convention: str) -> None:
    graph, choices, expected = MOVED[at]
    array = tuple(choice.devices(8) for choice in next(iter(choices.values())))
    found = verify_program(lower(graph, *laid(array_of(array, choices), choices), convention))
    assert agrees(found)
    total: Counter[tuple[tuple[str | None, ...], int]] = Counter()
    for transfer in found.transfers:
        for level, elements in enumerate(transfer.moved.tolist()):
            total[tuple(transfer.item), level] += elements
    assert expected == {key: [total[key, level] for level in range(len(array))] for key in expected}
