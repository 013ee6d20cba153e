"""The bytes of a ledger at each op, against a count of the buffers that are alive then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.schedule.lifetimes import Course, Ledger
from hypar.schedule.pipeline_orders import Moment
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.lifetimes import Bytes


TWO = np.array([2.0])


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    """Draw ops that read some buffers, read what was saved of some, and write one, in a memory of its own or that of another."""
    ledger = Ledger()
    for _ in range(draw(st.integers(1, 12))):
        known = range(len(ledger.sizes))
        some = st.lists(st.sampled_from(known), max_size=3) if known else st.just([])
        ledger.next(*draw(some), saved=draw(some))
        owner = draw(st.sampled_from([-1, *known]))
        ledger.write(np.array([draw(st.integers(1, 9))], float), owner)
        if draw(st.booleans()):
            ledger.end()
    ledger.end()
    return ledger


def half(ledger: Ledger, buffers: Sequence[int]) -> Bytes:
    return np.asarray(np.sum([ledger.sizes[buffer] for buffer in buffers], axis=0) / 2)


def bytes_at(ledger: Ledger, buffers: Sequence[int], op: int) -> Bytes:
    """The bytes of a memory during an op: of its largest buffer that is alive or else to come, then of what is saved."""
    ends = {buffer: (ledger.made[buffer], ledger.last[buffer]) for buffer in buffers}
    alive = [buffer for buffer, (made, last) in ends.items() if made <= op <= last]
    later = [buffer for buffer, (made, _) in ends.items() if made > op]
    until = max(last for _, last in ends.values())
    if op < min(made for made, _ in ends.values()):
        return np.zeros(1)
    if op <= until:
        return np.asarray(np.max([ledger.sizes[buffer] for buffer in alive or later], axis=0))
    saved = [buffer for buffer in buffers if ledger.later.get(buffer, -1) > until]
    return half(ledger, saved) if saved and op <= max(ledger.later[own] for own in saved) else np.zeros(1)


@settings(max_examples=examples(500, 50))
@given(ledgers())
def test_each_op_holds_the_buffers_that_are_alive(ledger: Ledger) -> None:
    during, _ = ledger.course(lambda buffers: half(ledger, buffers))
    memories: dict[int, list[int]] = {}
    for buffer, owner in enumerate(ledger.owners):
        memories.setdefault(owner, []).append(buffer)
    each = [[bytes_at(ledger, buffers, op) for buffers in memories.values()] for op in range(ledger.op + 1)]
    assert (during == np.sum(each, axis=1)).all()


@settings(max_examples=examples(200, 20))
@given(ledgers(), st.data())
def test_what_waits_is_what_lives_behind_its_piece(ledger: Ledger, data: st.DataObject) -> None:
    """Microbatches that have done a piece of work hold what is alive in both it and the next one."""
    most, behind = ledger.pieces(*ledger.course(lambda buffers: half(ledger, buffers)))
    assert behind[-1] == 0.0
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(most) - 1, max_size=len(most) - 1))
    at = data.draw(st.integers(0, len(most) - 1))
    waiting = sum(count * own for count, own in zip(counts, behind, strict=False))
    course = Course(most, behind, most, most[0])
    assert course.held([Moment(at, tuple(counts))])[1] == most[at] + waiting


def test_an_error_is_added_in_its_place_but_to_none_that_is_passed_on() -> None:
    """Three errors of two bytes each are two at once; of one that is passed on a third one is made."""
    for passed, most in ((False, 4.0), (True, 6.0)):
        ledger = Ledger()
        ledger.next()
        first = ledger.write(TWO)
        other = ledger.pass_on(first) if passed else first
        ledger.next()
        second = ledger.write(TWO)
        third = ledger.pass_on(second) if passed else None
        total = ledger.add([other, second if third is None else third], TWO)
        ledger.next(total, *([first, second] if passed else []))
        during, behind = ledger.course(lambda _: np.zeros(1))
        assert (max(during), behind[-1]) == (most, 0.0)


def test_what_another_stage_sends_is_added_in_the_buffer() -> None:
    """It takes the place of the error that it is added to."""
    ledger = Ledger()
    ledger.next()
    own = ledger.write(TWO)
    sent = ledger.receive(TWO)
    ledger.next(ledger.add([own, sent], TWO))
    assert max(ledger.course(lambda _: np.zeros(1))[0]) == 2.0
