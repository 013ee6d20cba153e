"""The closed form of the best meeting of two layers against all orders of their levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.solve.counts.forms import CountGraph, Link, Term, pair_costs
from hypar.solve.counts.solution import Columns
from hypar.solve.counts.states import Own, all_states
from tests.counts import LEVELS, cells_of, count_graphs, forms, groups_of, pairs_of, sequences
from tests.effort import examples

if TYPE_CHECKING:
    from hypar.solve.edge import Costs


def one_tensor(data: st.DataObject, *, stays: bool = False) -> CountGraph:
    """Two layers with a tensor between them."""
    depths, options = data.draw(st.sampled_from(LEVELS)), (3, data.draw(st.integers(1, 3)))
    return CountGraph(
        cells=cells_of(depths),
        offered=tuple((tuple(range(own)),) * len(depths) for own in options),
        nodes=tuple((Term(0.0, (0,) * own),) for own in options),
        links=(Link(0, 1, data.draw(forms(*options, stays=stays))),),
    )


def found_and_least(graph: CountGraph) -> tuple[Costs, Costs]:
    """The costs of pairs of states by the closed form, and the least ones over all orders."""
    link, groups = graph.links[0], groups_of(graph)
    every = [sequences(graph, node) for node in (0, 1)]
    pairs = pairs_of(graph, link, every)
    states = [graph.states_of(node) for node in (0, 1)]
    found = pair_costs(link.form, states[0], states[1], graph.cells)
    place = []
    for node in (0, 1):
        index = {own.tobytes(): at for at, own in enumerate(states[node])}
        counted = np.zeros((len(every[node]), len(graph.cells.ways), graph.options(node)), dtype=np.int8)
        for at, own in enumerate(every[node]):
            np.add.at(counted[at], (groups, np.array(own)), 1)
        place.append([index[own.tobytes()] for own in counted])
    least = np.full(found.shape, np.inf)
    np.minimum.at(least, (np.array(place[0])[:, None], np.array(place[1])[None]), pairs)
    return found, least


@settings(max_examples=examples(200))
@given(data=st.data())
def test_the_cost_of_two_counts_is_the_least_of_all_their_orders(data: st.DataObject) -> None:
    found, least = found_and_least(one_tensor(data))
    np.testing.assert_allclose(found, least, rtol=1e-12)


@settings(max_examples=examples(200))
@given(data=st.data())
def test_where_options_stay_it_is_the_least_of_all_orders_if_levels_are_alike(data: st.DataObject) -> None:
    graph = one_tensor(data, stays=True)
    found, least = found_and_least(graph)
    assert (found <= least + 1e-9 * np.abs(least)).all()
    if graph.cells.alike:
        np.testing.assert_allclose(found, least, rtol=1e-12)


@settings(max_examples=examples(100))
@given(graph=count_graphs(), data=st.data())
def test_the_cost_of_a_plan_is_that_of_its_levels_in_any_order(
    graph: CountGraph, data: st.DataObject
) -> None:
    chosen = [data.draw(st.sampled_from(sequences(graph, node))) for node in range(len(graph.nodes))]
    orders, search = np.array(chosen), Columns(graph)
    before = search.cost(orders)
    turn = np.array(data.draw(st.permutations(range(len(search.groups)))))
    search.groups, search.alike = search.groups[turn], search.alike[:, turn]
    assert np.isclose(before, search.cost(orders[:, turn]), rtol=1e-12)


def test_costs_of_states_are_looked_up_however_many_numbers_their_counts_could_be() -> None:
    """Two tiers of six levels with nine options of which a layer offers three: 784 states of 7^16 numbers."""
    depths, offered = (6, 6), ((0, 4, 8), (1, 4, 8))
    states = all_states(depths, offered, 9)
    own = Own(states=states, costs=np.arange(len(states), dtype=np.float64))
    turned = states[::-1].reshape(28, 28, 2, 9)
    np.testing.assert_array_equal(own.of(turned), np.arange(len(states))[::-1].reshape(28, 28))
    other = all_states(depths, ((2, 4, 8), (1, 4, 8)), 9)
    assert np.isinf(own.of(other)).tolist() == (other[:, 0, 2] > 0).tolist()
