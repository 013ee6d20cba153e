"""The ops of a network in order, by hand on small ones, and on those that are shipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar.network.build import load_model
from hypar.schedule.tape import tape_of

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.schedule.tape import Block

CHAIN = """
source: a test
batch: 2
layers:
  - {op: input, channels: 4, height: 8, width: 8}
  - {name: first, op: conv, out_channels: 6, kernel: 3, padding: 1}
  - {op: batch_norm}
  - {op: relu}
  - {name: whole, op: pool, mode: average, window: global}
  - {name: flat, op: flatten}
  - {name: last, op: linear, out_features: 3}
"""


def tape(model: str | Path) -> tuple[Block, ...]:
    return tape_of(load_model(model).contracted, 4, ()).blocks


def test_the_ops_of_a_chain(tmp_path: Path) -> None:
    file = tmp_path / "chain.yaml"
    file.write_text(CHAIN, encoding="utf-8")
    first, last = tape(file)
    assert (first.start, first.own, first.stop, last.own, last.stop) == (0, 1, 5, 6, 7)
    assert [written.amount.num_bytes for _, written in first.ahead] == [4 * 2 * 4 * 64]
    assert [written.amount.num_bytes for written in first.written] == [4 * 2 * 6 * 64] * 3 + [4 * 2 * 6]
    conv, norm, relu, pooled = first.written
    assert (conv.readers, conv.keeper) == ((2,), 2)
    assert (norm.readers, norm.keeper) == ((3,), None)
    assert (relu.readers, relu.keeper) == ((4,), 3)
    assert (pooled.readers, pooled.source) == ((), 2)
    ((number, index),) = first.leaving
    assert index == 3
    assert [(read.producer, read.number) for read in last.read] == [(0, number)]


@pytest.mark.parametrize("model", ["vgg16", "resnet50", "inception-v3", "unet"])
def test_ops_are_numbered_without_gaps_and_read_only_what_is_written_before(model: str) -> None:
    blocks = tape(model)
    numbers = [
        op
        for block in blocks
        for op in (
            *(written.amount.op for _, written in block.ahead),
            *(read.op for read in block.read),
            *(written.amount.op for written in block.written),
        )
    ]
    assert numbers == [*range(blocks[-1].stop)]
    for block in blocks:
        for at, written in enumerate(block.written):
            assert written.source is None or written.source < at
            assert all(block.own <= reader < block.stop for reader in written.readers)
        assert all(not block.written[index].readers for _, index in block.leaving)


def test_the_tape_is_kept_with_the_network() -> None:
    graph = load_model("vgg16").contracted
    assert tape_of(graph, 4, ()) is tape_of(graph, 4, ())
    assert tape_of(graph, 2, ()) is not tape_of(graph, 4, ())
