"""Arrays are held from the step that writes them to the last one that reads them."""

from __future__ import annotations

from hypar.execution.lifetimes import exchanges_gradients, last_reads, most_elements, reads, writes
from hypar.execution.reference import start
from hypar.execution.simulator import run
from hypar.program.of_plan import program_of
from tests.studies.verification.nets import chain, planned


def test_what_is_dropped_is_not_read_again_and_what_is_kept_is_needed_once_more() -> None:
    graph = chain()
    program = program_of(planned(graph, (2, 2), {"c1": ("in_channels", "height")}), graph)
    last = last_reads(program)
    dropped: set[str] = set()
    for number, step in enumerate(program.steps):
        assert not dropped & {*reads(step)}
        dropped |= {*last.get(number, ())}
    kept = {name for step in program.steps for name in writes(step)} - dropped
    once = {
        name for step in program.steps if exchanges_gradients(step) for name in (*reads(step), *writes(step))
    }
    assert kept == once | {step.gradient for step in program.steps if not writes(step)}  # type: ignore[union-attr]


def test_a_run_holds_no_more_than_was_estimated() -> None:
    graph = chain()
    program = program_of(planned(graph, (2, 2), {"c1": ("in_channels", "height")}), graph)
    devices = run(program, [start(graph)])
    names = {name for step in program.steps for name in writes(step)}
    left = sum(values.size for name, values in devices.values.items() if name in names)
    assert 0 < left < most_elements(program)
