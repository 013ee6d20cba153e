"""The search problem of a request for identical devices, and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.planning.question import ask
from hypar.planning.searches.base import load_search

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.planning.resolved import Resolved
    from hypar.planning.searches.base import Answer, Question
    from hypar.sharding.space import Pin


def searched(request: Resolved, graph: LayerGraph) -> tuple[Question, tuple[Pin, ...], Answer]:
    """Return the search problem of a request for identical devices, its pins, and its answer.

    Raises:
        InputError: the request does not suit the network.
        TableLimitError: the tables of an exact search would not fit.
    """
    if len(request.array) == 1:
        from hypar.planning.flat import by_digits  # noqa: PLC0415 (only for a single level, whose devices may be numbered)

        numbered = by_digits(request, graph)
        if numbered is not None:
            return numbered
    question, pins = ask(request, graph)
    return question, pins, load_search(request.search).run(question)
