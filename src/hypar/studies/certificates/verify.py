"""The checker of certificates: every number is computed again from the network, by the formulas of ``problem`` alone.

A round's bound holds for every plan whose layers are in states that are left: with the layers as a tree, messages are least
costs; a tensor beside the tree costs at least its floor. States with which any plan costs more than the given
one leave before the next round. The plan is optimal if the last bound reaches its cost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.errors import PlanError
from hypar.studies.certificates.problem import orders_of, problem_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.studies.certificates.problem import Counts, Problem, Table
    from hypar.studies.certificates.record import Certificate, Round

ROUNDING = 1e-12
"""Largest rounding error of a sum, relative to it."""


def verify_certificate(certificate: Certificate, plan: Plan, graph: LayerGraph, where: str) -> None:
    """Check that a certificate proves that no plan of a request costs less than a given one.

    Args:
        certificate: the certificate.
        plan: the plan.
        graph: its network, with the plan's batch.
        where: the certificate's file, for errors.

    Raises:
        PlanError: a number is not what follows from the network and the plan.
    """
    found = {
        "model": (certificate.model, graph.digest),
        "batch": (certificate.batch, plan.model.batch),
        "space": (certificate.space, plan.space),
        "array": (certificate.array, plan.array),
        "cost": (certificate.cost, plan.cost.value),
    }
    for name, (own, expected) in found.items():
        if own != expected:
            raise PlanError(f"{where}: {name}", f"found {own}", f"{expected}, as the plan and its network")
    problem = problem_of(plan, graph)
    cost = problem.cost(orders_of(plan))
    if not math.isclose(cost, plan.cost.value, rel_tol=ROUNDING):
        raise PlanError(
            f"{where}: cost", f"found {certificate.cost:,}", f"{cost:,.0f}, which the plan's choices move"
        )
    states = every_state(problem)
    for number, one in enumerate(certificate.rounds):
        place = f"{where}: rounds[{number}]"
        tree = Tree(problem, states, [(own.layer, own.to) for own in one.messages], place)
        _require_equal(one, tree, place)
        if number + 1 < len(certificate.rounds):
            states = tree.left(plan.cost.value)
    if one.bound < plan.cost.value * (1 - ROUNDING):
        raise PlanError(f"{place}.bound", f"found {one.bound:,}", f"{plan.cost.value:,}, the plan's cost")


def _require_equal(one: Round, tree: Tree, place: str) -> None:
    """Check every number of a round.

    Raises:
        PlanError: one differs.
    """
    for number, (message, expected) in enumerate(zip(one.messages, tree.messages, strict=True)):
        if len(message.bytes) != len(expected):
            count = len(message.bytes)
            raise PlanError(
                f"{place}.messages[{number}].bytes", f"found {count:,} states", f"{len(expected):,}"
            )
        for at, (own, least) in enumerate(zip(message.bytes, expected.tolist(), strict=True)):
            if own != least:
                raise PlanError(f"{place}.messages[{number}].bytes[{at}]", f"found {own}", f"{least}")
    names = tree.problem.names
    floors = {(names[one], names[other]): least for (one, other), least in tree.floors.items()}
    if [tuple(own.layers) for own in one.floors] != [*floors]:
        allowed = ", ".join(" and ".join(pair) for pair in floors) or "none"
        raise PlanError(
            f"{place}.floors", f"found {len(one.floors)}", f"those of the tensors beside the tree: {allowed}"
        )
    for number, floor in enumerate(one.floors):
        least = floors[floor.layers[0], floor.layers[1]]
        if floor.bytes != least:
            raise PlanError(f"{place}.floors[{number}].bytes", f"found {floor.bytes}", f"{least}")
    if one.bound != tree.bound:
        raise PlanError(f"{place}.bound", f"found {one.bound}", f"{tree.bound}")


def every_state(problem: Problem) -> list[Counts]:
    """Return all states of each layer."""
    return [problem.states(layer) for layer in range(len(problem.names))]


class Tree:
    """The bounds of a spanning forest.

    Attributes:
        problem: the problem.
        states: the states of each layer that are left.
        messages: for each layer but the roots the least bytes of it and what is behind it, by states of the next layer.
        floors: the least bytes between other pairs of layers.
        bound: the least bytes of all.
    """

    def __init__(
        self, problem: Problem, states: Sequence[Counts], links: Sequence[tuple[str, str]], place: str
    ) -> None:
        """Compute the messages.

        Args:
            problem: the problem.
            states: the states of each layer that are left.
            links: each layer but the roots with the next one, outer layers first.
            place: the round, for errors.

        Raises:
            PlanError: these are no links of a forest, or not in this order.
        """
        self.problem, self.states = problem, states
        self._pairs: dict[tuple[int, int], Table] = {}
        self.links = _checked(problem, links, place)
        self.messages: list[Table] = []
        self._least = [problem.costs(layer, own) for layer, own in enumerate(states)]
        for layer, after in self.links:
            self.messages.append((self.between(layer, after) + self._least[layer][:, None]).min(axis=0))
            self._least[after] = self._least[after] + self.messages[-1]
        used = {(min(link), max(link)) for link in self.links}
        self.floors = {
            pair: float(self.between(*pair).min()) for pair in sorted(problem.links) if pair not in used
        }
        sent = {layer for layer, _ in self.links}
        roots = [float(own.min()) for layer, own in enumerate(self._least) if layer not in sent]
        self.bound = math.fsum([*roots, *self.floors.values()])

    def between(self, one: int, other: int) -> Table:
        """Return the least bytes between two layers for each pair of their states."""
        pair = (min(one, other), max(one, other))
        if pair not in self._pairs:
            self._pairs[pair] = self.problem.shared(pair, (self.states[pair[0]], self.states[pair[1]]))
        return self._pairs[pair] if pair[0] == one else self._pairs[pair].T

    def left(self, cost: float) -> list[Counts]:
        """Return the states of each layer with which some plan may cost no more than a given one."""
        whole: dict[int, Table] = {}
        sent = dict(zip((layer for layer, _ in self.links), self.messages, strict=True))
        for layer in range(len(self.states)):
            if layer not in sent:
                others = self.bound - float(self._least[layer].min())
                whole[layer] = self._least[layer] + others
        for layer, after in reversed(self.links):
            rest = whole[after] - sent[layer]
            whole[layer] = self._least[layer] + (self.between(layer, after) + rest).min(axis=1)
        most = cost * (1 + ROUNDING)
        return [own[whole[layer] <= most] for layer, own in enumerate(self.states)]


def _checked(problem: Problem, links: Sequence[tuple[str, str]], place: str) -> list[tuple[int, int]]:
    """Return links by number, outer layers first.

    Raises:
        PlanError: one is no link of a forest in this order.
    """
    numbers: Mapping[str, int] = {name: number for number, name in enumerate(problem.names)}
    found: list[tuple[int, int]] = []
    done: set[int] = set()
    for at, (name, to) in enumerate(links):
        layer, after = numbers.get(name, -1), numbers.get(to, -1)
        linked = (min(layer, after), max(layer, after)) in problem.links
        if not linked or layer in done or after in done:
            allowed = "a layer and one that it is linked to, after all messages to the layer, once"
            raise PlanError(f"{place}.messages[{at}]", f"found {name!r} to {to!r}", allowed)
        done.add(layer)
        found.append((layer, after))
    return found
