"""The product form of the amounts against the counts of programs, which list who holds and who needs each element."""

from __future__ import annotations

import random
from collections import Counter

from hypar.program.cuts import array_cuts
from hypar.program.lowering import lower
from hypar.program.places import array_places
from hypar.sharding.amounts.listing import amounts
from tests.conventions import drawn, network, question_of
from tests.effort import crossed


@crossed(
    {
        "seed": range(4),
        "array": [(2,), (4,), (2, 2), (4, 2), (2, 2, 2)],
        "convention": ["moved", "fused"],
    }
)
def test_programs_of_even_plans_count_what_products_do(
    seed: int, array: tuple[int, ...], convention: str
) -> None:
    rng = random.Random(seed)
    lines = [f"{{name: fc{at}, op: linear, out_features: 16, bias: false}}" for at in range(4)]
    graph = network(["{op: input, channels: 16}", *lines], 16)
    choices = drawn(question_of(graph, array, convention), rng)
    names = [layer.name for layer in graph.contracted.layers]
    cuts = {name: array_cuts(array, own) for name, own in zip(names, choices, strict=True)}
    program = lower(graph, array_places(array), cuts, convention)
    listed: Counter[tuple[str, int]] = Counter()
    for step in program.transfers.values():
        for level, elements in enumerate(step.counted(program.places)):
            listed[step.item.phase, level] += int(elements)
    counted: Counter[tuple[str, int]] = Counter()
    for one in amounts(graph.contracted, array, choices, convention):
        counted[one.phase, one.level] += round(one.elements, 6)  # type: ignore[assignment]
    assert +listed == +counted
