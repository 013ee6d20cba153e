"""What only the engine can judge: the fastest of several plans, and refined choices.

A cost adds up times level by level, without overlap; the engine runs the whole step, so a plan of least cost may take
longer than plain data parallelism if transfers overlap with computation, or if the search is greedy. Nothing here claims an
optimum; each is no slower than what it starts from.

*Baselines:* each known strategy is planned as under its own name, with the pins of the request; the fastest of them and
the search's plan is taken, and plans that fit the memory come before plans that do not.

*Search and refinement:* as ``fastest`` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from hypar.errors import InputError, TableLimitError
from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanGraph, kept_with_graph
from hypar.plan.plan import Plan
from hypar.plan.records import SEARCHED, BaselinesRecord, RefinementRecord
from hypar.planning.chunks import Ran, faster, run_chunked
from hypar.planning.fastest import MOST_TASKS, Trials, is_least_time, proposer_of, searched
from hypar.planning.pins import Pin
from hypar.planning.question import latest, load_search, question_of
from hypar.planning.records import Leaf, Node
from hypar.planning.resolved import Resolved, baseline_request, of_strategy
from hypar.planning.uneven.planner import Planner
from hypar.schedule.memory import memory_of
from hypar.sharding.placement import WHOLE, Options, cut, dim_of
from hypar.sharding.tree import WHOLE_ARRAY


def timed(planner: Planner, graph: LayerGraph, found: Node) -> Plan:
    """Return the fastest of a planner's plan for a machine, those that a search for least time finds, and the baselines, with its score.

    It is refined if that is asked for. Raises ``InputError`` or ``TableLimitError`` as ``plan_model`` does.
    """
    request, names = planner.request, planner.request.baselines
    if isinstance(found, Leaf) and found.question is not None and found.question.leaves_no_choice:
        names = ()
    entrants = baselines(planner, graph, found, names)
    # They compete within the space that is asked for.
    nodes = {name: node for name, node in entrants if request.beyond_space or planner.within(node)}
    nodes = {SEARCHED: found, **nodes}
    trials, taken, refined = _trials(request, nodes), SEARCHED, None
    if isinstance(found, Leaf) and is_least_time(request, found.question):
        nodes[SEARCHED], trials[SEARCHED] = _fastest(planner, graph, found, nodes, trials)
    for name in [*nodes][1:]:
        taken = name if trials[name].beats(trials[taken]) else taken
    node, ran = nodes[taken], trials[taken]
    if request.refine:
        node, refined = _refined(planner, node, ran)
        ran = run_chunked(node.work, request.chunks)
    if node is not found:
        node = planner.costed(node)
    claim, record = planner.claim(node if taken == SEARCHED else nodes[SEARCHED]), None
    if len(nodes) > 1:
        claim = _claim(claim, trials, taken)
        record = BaselinesRecord(taken=taken, step_s={name: own.seconds for name, own in trials.items()})
    claim += f"{'; ' if record else ', '}then refined" * bool(refined)
    assert request.machine is not None  # noqa: S101 (the request is for a machine)
    own = {"baselines": record, "refined": refined, "chunks": ran.chunks, "score": ran.score(request.machine)}
    return planner.decided(graph, node, claim).model_copy(update=own)


def _fastest(
    planner: Planner, graph: LayerGraph, found: Leaf, nodes: Mapping[str, Node], trials: Mapping[str, Ran]
) -> tuple[Leaf, Ran]:
    """Return the fastest plan of a search for least time that fits, beside those of the space that have been run, with its step.

    Where nothing overlaps the least sum is the least time, if its plan fits.
    """
    assert found.question is not None  # noqa: S101 (there is something to search)
    if not found.question.overlaps and trials[SEARCHED].fits:
        return found, trials[SEARCHED]
    memory_bytes, limits = found.lane.setting.machine.memory_bytes, found.question.limits
    proposer = proposer_of(planner.request, graph, found.question)
    within = ((nodes[name], ran) for name, ran in trials.items() if planner.within(nodes[name]))
    known = {tuple(slot.chosen for slot in planner.slots(node)): ran for node, ran in within}
    slots, more = [*planner.slots(found)], None if proposer is None else proposer.more
    tried = Trials(slots, lambda chosen: run_chunked(found.taking(iter(chosen)).work), known, more)
    tried.tried(planner.request.proposed or None)
    # A plan that was proposed for how it trains is near what polish finds.
    most = MOST_TASKS // 4 if planner.request.proposed else MOST_TASKS
    bound, cut = latest(searched(proposer, tried, memory_bytes, most), limits)
    best = tried.ran[tried.best]
    answer = replace(found.answer, cut=cut or found.answer.cut, limits=limits if cut else found.answer.limits)
    if bound is not None:
        answer = replace(answer, bounds=(), exact=False, step=(best.seconds, *bound))
    if not best.fits and proposer is not None:
        answer = replace(answer, smallest=memory_of(tried.ran[tried.smallest].work.lanes[0]))
    node = replace(found, answer=answer).taking(iter(tried.best))
    return node, run_chunked(node.work, planner.request.chunks) if planner.request.chunks else best


def _refined(planner: Planner, node: Node, ran: Ran) -> tuple[Node, RefinementRecord]:
    slots = [*planner.slots(node)]
    before = tuple(slot.chosen for slot in slots)
    tried = Trials(slots, lambda chosen: run_chunked(node.taking(iter(chosen)).work), {before: ran})
    tried.polish(4 * MOST_TASKS)
    pairs = zip(before, tried.best, strict=True)
    changed = sum(one != other for own, new in pairs for one, other in zip(own, new, strict=True))
    after_s = tried.ran[tried.best].seconds
    record = RefinementRecord(before_s=ran.seconds, after_s=after_s, changed=changed)
    return node.taking(iter(tried.best)), record


def baselines(
    planner: Planner, graph: LayerGraph, found: Node, names: Iterable[str]
) -> Iterator[tuple[str, Node]]:
    """Yield the nodes of strategies that can be planned, beside a node of some plan of the planner's network."""
    nodes, pins, size = graph.nodes(planner.request.graph), tuple(planner.pins), planner.element_bytes
    plain = graph.without_rests.nodes(planner.request.graph)
    for name in names:
        request = baseline_request(planner.request, name)
        with suppress(InputError, TableLimitError):
            if isinstance(found, Leaf):
                choices = _strategy(plain, name, request.array, pins, size, beyond=request.beyond_elements)
                yield name, found.taking(iter(_as_made(nodes, choices, request.array)))
            else:
                other = Planner(request, nodes, pins, size).planned(nodes)
                yield name, replace(other, microbatch=request.microbatch(graph))


def _trials(request: Resolved, nodes: Mapping[str, Node]) -> dict[str, Ran]:
    """Run the step of every node, equal choices once; without chunks before a refinement, which has none."""
    keys = {name: node.lane.choices if isinstance(node, Leaf) else node for name, node in nodes.items()}
    asked = None if request.refine else request.chunks
    different = dict(zip(keys.values(), nodes.values(), strict=True))
    ran = {key: run_chunked(node.work, asked) for key, node in different.items()}
    return {name: ran[key] for name, key in keys.items()}


def _claim(claim: str, trials: Mapping[str, Ran], taken: str) -> str:
    """Return the claim of the plan that was taken, given the claim of the search's plan."""
    fits = ", of those that fit" * any(faster(own.seconds, trials[taken].seconds) for own in trials.values())
    others = [name for name in trials if name not in {SEARCHED, taken}]
    if taken == SEARCHED:
        return f"{claim}; by the engine no slower than {_listed(others)}{fits}"
    listed = _listed(["the search's plan", *others])
    return f"the plan of {taken}, by the engine no slower than {listed}{fits}; the search's plan is {claim}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


@kept_with_graph
def _strategy(
    graph: PlanGraph,
    name: str,
    array: tuple[int, ...],
    pins: tuple[Pin, ...],
    element_bytes: int,
    *,
    beyond: bool,
) -> tuple[Options, ...]:
    """Plan by a strategy, whatever the machine; raises ``InputError`` or ``TableLimitError`` where that is not possible."""
    request = Resolved(**of_strategy(name), arrays={WHOLE_ARRAY: array}, pins=(), beyond=beyond)
    question = question_of(request, graph, pins, element_bytes)
    return load_search(request.search).run(question).choices


def _as_made(graph: PlanGraph, choices: Sequence[Options], array: tuple[int, ...]) -> tuple[Options, ...]:
    """Return choices with those of tensors at rest, which lie as they are made; given are those of all other layers."""
    makers = {tensor.consumer: tensor.producer for tensor in graph.tensors}
    given = iter(choices)
    found: list[Options] = []
    for at, layer in enumerate(graph.layers):
        if not layer.rest:
            found.append(next(given))
            continue
        made, dims = found[makers[at]], graph.layers[makers[at]].nest.names["output"]
        pairs = zip([dims.get(dim_of(choice) or "", "") for choice in made], array, strict=True)
        found.append(tuple([cut(dim, ways) if dim in layer.nest.sizes else WHOLE for dim, ways in pairs]))
    return tuple(found)
