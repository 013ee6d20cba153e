from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hypar.solve.edge
from hypar.solve.edge import Costs, Edge, min_plus


@st.composite
def edges(draw: st.DrawFn) -> Edge:
    """An edge of up to three levels with whole-number terms."""
    digits = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=3))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    above, terms = 1, []
    for x, y in digits:
        terms.append(generator.integers(0, 9, (x, above, y)).astype(np.float64))
        above *= y
    return Edge(source=0, target=1, terms=tuple(terms))


def summed(edge: Edge) -> Costs:
    """The matrix by going through all digits."""
    heights = [range(len(term)) for term in edge.terms]
    widths = [range(term.shape[2]) for term in edge.terms]
    rows = []
    for xs in itertools.product(*heights):
        row = []
        for ys in itertools.product(*widths):
            cost, above = 0.0, 0
            for term, x, y in zip(edge.terms, xs, ys, strict=True):
                cost += term[x, above, y]
                above = above * term.shape[2] + y
            row.append(cost)
        rows.append(row)
    return np.array(rows)


@given(edge=edges())
def test_terms_add_up_to_the_matrix(edge: Edge) -> None:
    whole = summed(edge)
    assert (edge.costs == whole).all()
    for x, y in itertools.product(*map(range, whole.shape)):
        assert edge.at(x, y) == whole[x, y]
    assert all((edge.beside(0, x) == whole[x]).all() for x in range(whole.shape[0]))
    assert all((edge.beside(1, y) == whole[:, y]).all() for y in range(whole.shape[1]))


@pytest.mark.parametrize("block", [2**16, 50, 7])
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 3), (11, 2, 30), (70, 40, 50)])
def test_min_plus_is_the_same_in_blocks(
    monkeypatch: pytest.MonkeyPatch, block: int, shape: tuple[int, int, int]
) -> None:
    monkeypatch.setattr(hypar.solve.edge, "BLOCK", block)
    terms, height, width = shape
    generator = np.random.default_rng(5)
    left, right = generator.random((terms, height)), generator.random((terms, width)) * 1e6
    expected = (left[:, :, None] + right[:, None, :]).min(axis=0)
    assert (min_plus(left, right) == expected).all()
    assert (min_plus(np.asfortranarray(left), right[:, ::-1]) == expected[:, ::-1]).all()
