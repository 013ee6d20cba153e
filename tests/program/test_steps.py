from __future__ import annotations

from hypar.program.lowering import lower
from hypar.program.steps import Add, Copy
from hypar.sharding.placement import cut
from tests.program.machines import array_machine
from tests.program.networks import perceptron


def test_a_program_names_its_transfers_by_their_number() -> None:
    graph = perceptron(4, 6, 8, bias=True)
    machine = array_machine(graph, (2,), {"fc1": [cut("batch", 2)], "fc2": [cut("out_channels", 2)]})
    program = lower(graph, machine.places, machine.cuts)
    assert all(program.steps[number] is step for number, step in program.transfers.items())
    assert all(isinstance(step, Copy | Add) for step in program.transfers.values())
    assert len(program.transfers) == sum(isinstance(step, Copy | Add) for step in program.steps)


def test_microbatches_add_up_the_terms_of_gradients_and_those_that_need_no_sum() -> None:
    graph = perceptron(4, 6, 8, bias=True)
    machine = array_machine(graph, (2,), {"fc1": [cut("batch", 2)], "fc2": [cut("out_channels", 2)]})
    assert lower(graph, machine.places, machine.cuts).accumulated == {
        "d terms fc1 weight",
        "d terms fc1 bias",
        "d terms fc2 weight",
        "d terms fc2 bias",
    }
