"""The checker of certificates: every number is computed again from the network, by the formulas of ``problem`` alone.

A round's bound holds for every plan whose layers are in states that are left: with the layers as a tree, messages are least
costs; a tensor beside the tree costs at least its floor; a block of layers has a table (``blocks``). States with which any plan costs more than the given
one leave before the next round. The plan is optimal if the last bound reaches its cost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import PlanError
from hypar.studies.certificates.blocks import Block, Tables, TooLargeError
from hypar.studies.certificates.problem import orders_of, problem_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.studies.certificates.problem import Counts, Problem, Table
    from hypar.studies.certificates.record import Block as BlockRecord
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
        tree = Tree(problem, states, [Turn(own.layer, own.to, own.block) for own in one.messages], place)
        _raise(one, tree, plan.cost.value, place)
        _require_equal(one, tree, place)
        if number + 1 < len(certificate.rounds):
            states = tree.left(plan.cost.value)
    if one.bound < plan.cost.value * (1 - ROUNDING):
        raise PlanError(f"{place}.bound", f"found {one.bound:,}", f"{plan.cost.value:,}, the plan's cost")


def _raise(one: Round, tree: Tree, cost: float, place: str) -> None:
    """Raise the entries of the tables of blocks, each to what follows.

    Raises:
        PlanError: one differs.
    """
    for number, message in enumerate(one.messages):
        for at, own in enumerate(message.block.raised if message.block else ()):
            where = f"{place}.messages[{number}].block.raised[{at}]"
            link = tree.links[number]
            entry = tree.entry(link, own.pivot, own.port)
            if entry is None:
                raise PlanError(
                    where, f"found {own.pivot} and {own.port}", "counts of both ends that are left"
                )
            least = tree.least_of(link, entry, cost, where)
            if own.bytes != least:
                raise PlanError(f"{where}.bytes", f"found {own.bytes}", f"{least}")
            tree.tables[link].costs[entry] = least
    if any(message.block for message in one.messages):
        tree.send()


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


class Turn(NamedTuple):
    """A layer and the next one towards the root of a tree, with the block between them if there is one."""

    layer: str
    to: str
    block: BlockRecord | None = None


class Tree:
    """The bounds of a spanning forest.

    Attributes:
        problem: the problem.
        states: the states of each layer that are left.
        links: each layer but the roots with the next one, outer layers first.
        tables: the tables of blocks, by link.
        messages: for each layer but the roots the least bytes of it and what is behind it, by states of the next layer.
        least: the least bytes of each layer and what is behind it, by its states.
        floors: the least bytes between other pairs of layers.
        bound: the least bytes of all.
        by_counts: the same before any entry of a table is raised.
    """

    def __init__(self, problem: Problem, states: Sequence[Counts], turns: Sequence[Turn], place: str) -> None:
        """Compute the messages.

        Args:
            problem: the problem.
            states: the states of each layer that are left.
            turns: each layer but the roots with the next one, outer layers first.
            place: the round, for errors.

        Raises:
            PlanError: these are no links of a forest, or not in this order, or a block has too many states.
        """
        self.problem, self.states = problem, states
        self._pairs: dict[tuple[int, int], Table] = {}
        found = checked(problem, turns, place)
        self.links = [link for link, _ in found]
        try:
            self.tables = {link: Tables(problem, states, block) for link, block in found if block}
        except TooLargeError:
            raise PlanError(place, "found too many states in a block", "fewer levels") from None
        used = {(min(link), max(link)) for link in self.links}
        used |= {pair for table in self.tables.values() for pair in table.block.pairs}
        self.floors = {
            pair: float(self.between(*pair).min()) for pair in sorted(problem.links) if pair not in used
        }
        self.send()
        self.by_counts = self.bound

    def send(self) -> None:
        """Compute the messages and the bound."""
        self.messages: list[Table] = []
        self.least = [self.problem.costs(layer, own) for layer, own in enumerate(self.states)]
        for link in self.links:
            layer, after = link
            self.messages.append((self.across(link) + self.least[layer][:, None]).min(axis=0))
            self.least[after] = self.least[after] + self.messages[-1]
        sent = {layer for layer, _ in self.links}
        # Layers inside blocks are counted by their tables.
        sent |= {node for table in self.tables.values() for node, _ in table.block.inner}
        self.roots = [layer for layer in range(len(self.states)) if layer not in sent]
        self.bound = math.fsum(
            [*(float(self.least[layer].min()) for layer in self.roots), *self.floors.values()]
        )

    def across(self, link: tuple[int, int]) -> Table:
        """Return the least bytes between a layer and the next one, with those of the block between them."""
        if link not in self.tables:
            return self.between(*link)
        table = self.tables[link]
        return table.costs if table.block.pivot == link[0] else table.costs.T

    def between(self, one: int, other: int) -> Table:
        """Return the least bytes of the tensors between two layers for each pair of their states."""
        pair = (min(one, other), max(one, other))
        if pair not in self._pairs:
            self._pairs[pair] = self.problem.shared(pair, (self.states[pair[0]], self.states[pair[1]]))
        return self._pairs[pair] if pair[0] == one else self._pairs[pair].T

    def entry(
        self, link: tuple[int, int], pivot: Sequence[int], port: Sequence[int]
    ) -> tuple[int, int] | None:
        """Return the entry of a block's table for counts of both ends; None if they are not left."""
        block = self.tables[link].block
        found = []
        for layer, counts in ((block.pivot, pivot), (block.port, port)):
            every = self.states[layer].tolist()
            if [*counts] not in every:
                return None
            found.append(every.index([*counts]))
        return found[0], found[1]

    def least_of(self, link: tuple[int, int], entry: tuple[int, int], cost: float, place: str) -> float:
        """Return the least bytes of an entry, or as many as no plan of a cost has room for.

        Raises:
            PlanError: a block has too many states.
        """
        table = self.tables[link]
        room = max(0.0, cost - self.by_counts)
        try:
            return table.exact(*entry, float(table.first[entry]) + room)
        except TooLargeError:
            raise PlanError(place, "found too many states in a block", "fewer levels") from None

    def left(self, cost: float) -> list[Counts]:
        """Return the states of each layer with which some plan may cost no more than a given one; those inside blocks all stay."""
        whole: dict[int, Table] = {}
        sent = dict(zip((layer for layer, _ in self.links), self.messages, strict=True))
        for layer in self.roots:
            others = self.bound - float(self.least[layer].min())
            whole[layer] = self.least[layer] + others
        for link in reversed(self.links):
            layer, after = link
            rest = whole[after] - sent[layer]
            whole[layer] = self.least[layer] + (self.across(link) + rest).min(axis=1)
        most = cost * (1 + ROUNDING)
        return [own[whole[layer] <= most] if layer in whole else own for layer, own in enumerate(self.states)]


def checked(
    problem: Problem, turns: Sequence[Turn], place: str
) -> list[tuple[tuple[int, int], Block | None]]:
    """Return links by number, outer layers first, with the blocks between.

    Raises:
        PlanError: one is no link of a forest in this order.
    """
    numbers: Mapping[str, int] = {name: number for number, name in enumerate(problem.names)}
    found: list[tuple[tuple[int, int], Block | None]] = []
    done: set[int] = set()
    for at, (name, to, record) in enumerate(turns):
        layer, after = numbers.get(name, -1), numbers.get(to, -1)
        block = None
        if record is not None:
            pivot = numbers.get(record.pivot, -1)
            inner = tuple(
                (numbers.get(str(one), -1), -1 if of is None else numbers.get(of, -2))
                for one, of in record.inner
            )
            block = Block(pivot, after if pivot == layer else layer, inner)
        linked = (
            (min(layer, after), max(layer, after)) in problem.links
            if block is None
            else _is_block(block, (layer, after), done)
        )
        if not linked or layer in done or after in done or min(layer, after) < 0 or layer == after:
            allowed = "a layer and one that it is linked to, after all messages to the layer, once"
            raise PlanError(f"{place}.messages[{at}]", f"found {name!r} to {to!r}", allowed)
        done |= {layer, *(node for node, _ in block.inner)} if block else {layer}
        found.append(((layer, after), block))
    return found


def _is_block(block: Block, ends: tuple[int, int], done: set[int]) -> bool:
    """Return whether layers between two others are trees, of which no layer was used before, outer ones first."""
    seen: set[int] = {*done, *ends}
    for node, _ in block.inner:
        if node < 0 or node in seen:
            return False
        seen.add(node)
    places = {node: at for at, (node, _) in enumerate(block.inner)} | {
        block.port: len(block.inner),
        -1: len(block.inner),
    }
    return block.pivot in ends and all(places.get(after, -1) > places[node] for node, after in block.inner)
