"""Lowering of a plan to a program: the forward pass, the loss, the backward pass and the updates, from the fragment of each layer.

The steps of a program are what every device computes, gets of others, and updates. They name the arrays that they read and write; an
array is written once. Every array is as large as its tensor on every device, of which a device has the elements of its holding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from hypar.network.graph import LayerGraph
from hypar.network.layer import Layer, Tie
from hypar.network.nodes import LayerOp, block_of
from hypar.network.training import GATHERED
from hypar.ops.nest import operand_name
from hypar.ops.run import Piece
from hypar.plan.plan import Plan
from hypar.program.fragments import Fragment, Rest, following, gathered_again, gradient_of, rest_of
from hypar.program.holding import Holding, Members, Transfer, members, pieces_of
from hypar.sharding.layout import PART, Layout, Places, given_in, laid

Arrays = Mapping[str, str]


class Item(NamedTuple):
    """What a transfer is for: an ``input``, ``output``, ``weight``, ``bias`` or ``statistics`` in a phase.

    It happens inside the layer, or brings to it what the ``maker`` makes. The phase of a weight that is gathered is ``weight``.
    """

    layer: str
    maker: str | None
    phase: str
    tensor: str


@dataclass(frozen=True, eq=False, slots=True)
class Move:
    """Devices get of each other what they need of an array, the ``source``, as another one, perhaps ``once``.

    What moves once does so behind all microbatches; the ``item`` is what it is for.
    """

    source: str
    target: str
    item: Item
    transfer: Transfer
    once: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Compute:
    """Every device computes on its own piece, and moves nothing, for each microbatch.

    Attributes:
        kind: ``forward``, ``finish`` (the bias), ``statistics`` (the terms of a phase's sums), ``backward``, ``loss``, or a sum
            that each device takes of what it has: ``error`` (what all readers of a tensor send back), ``tied`` (the terms of
            all layers that use a weight).
        layer: name of the layer.
        pieces: the piece of each device; None for a device that computes nothing.
        reads: the arrays that it reads, by their role.
        writes: the arrays that it writes, by their role.
        due: for a kind that reads what not all devices have, who has what of each array, by its role.
    """

    kind: str
    layer: str
    pieces: tuple[Piece | None, ...]
    reads: Mapping[str, str]
    writes: Mapping[str, str]
    due: Mapping[str, Holding] = field(default_factory=dict)
    once: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, slots=True)
class Update:
    """Every device updates its own elements of a trained tensor, once behind all microbatches.

    Attributes:
        layer: name of the layer.
        parameter: name of the tensor, as ``weight``.
        gradient: the array of its summed gradient.
        holding: who holds what of it between steps.
        ties: the other layers that use the tensor.
        rest: who updates what; None for all that devices hold.
        writes: the array of what is updated, where it is gathered.
        gathered: the array behind that; the next step begins with it.
    """

    layer: str
    parameter: str
    gradient: str
    holding: Holding
    ties: tuple[Tie, ...] = ()
    rest: Holding | None = None
    writes: str = ""
    gathered: str = ""
    once: ClassVar[bool] = True


Step = Move | Compute | Update


@dataclass(frozen=True, eq=False, kw_only=True)
class Program:
    """A training step on the devices of a plan: its steps in order, and the fragments of the layers, by name."""

    graph: LayerGraph
    places: Places
    steps: tuple[Step, ...]
    fragments: Mapping[str, Fragment]

    @property
    def transfers(self) -> dict[int, Move]:
        """The steps that may move elements, by their number among all steps."""
        return {number: step for number, step in enumerate(self.steps) if isinstance(step, Move)}

    @property
    def updates(self) -> list[Update]:
        """The updates of trained tensors."""
        return [step for step in self.steps if isinstance(step, Update)]


def layouts_of(plan: Plan) -> tuple[Places, dict[str, Layout]]:
    """Return the devices of a plan and the layout of each of its layers.

    Pieces are laid digit by digit, transfers are counted level by level.
    """
    splits = given_in(plan.root)
    each = {name: laid(plan.root, name, splits) for name in plan.layers}
    levels, _ = next(iter(each.values()))
    digits, places = (
        Places(tuple(own[PART][:, 0].astype(np.int64) for own in every))
        for every in (levels, laid(plan.root, "", {})[0])
    )
    for own in (level for levels, _ in each.values() for level in levels):
        del own[PART]
    return places, {name: Layout(digits, tuple(own), working) for name, (own, working) in each.items()}


def lower(
    graph: LayerGraph,
    places: Places,
    layouts: Mapping[str, Layout],
    convention: str = "moved",
    zero: int = 0,
    again: frozenset[str] = frozenset(),
    shards: frozenset[str] = frozenset(),
) -> Program:
    """Lower a training step to a program, by the layout of each layer that has choices and the stage of ZeRO.

    By ``moved`` partial sums are added up for all who have a term, by ``fused`` for those who need them next;
    ``direct`` sends the terms of errors straight to those who need their sums. The backward phase computes the
    blocks of ``again`` once more, and gathers the inputs of the layers of ``shards``, of which devices keep shards.
    """
    whole = Layout(places, ({},) * len(places.parts), np.ones(places.devices, bool))
    ops = [LayerOp(layer, layer.nest(graph.batch)) for layer in graph.layers]
    flow = _Flow(graph=graph, zero=zero, shards=shards)
    fragments = following(ops, layouts, whole, convention)
    for layer, fragment in zip(graph.layers, fragments.values(), strict=True):
        flow.made[layer.name] = _Lowered(flow, layer, fragment)
    for name in reversed([*flow.made]):
        if (block := block_of(name)) in again and block != name and not flow.made[name].again:
            for own in [own for own in flow.made.values() if block_of(own.name) == block and own.sources]:
                flow.made[own.name] = _Lowered(flow, own.layer, own.fragment, own)
        if flow.made[name].fragment.trained:
            flow.made[name].backward()
    steps = (*flow.steps, *flow.updates, *flow.gathers)
    return Program(graph=graph, places=places, steps=steps, fragments=fragments)


@dataclass(frozen=True, kw_only=True)
class _Flow:
    """A lowering under way: its arguments, the layers so far, and their steps; updates come last."""

    graph: LayerGraph
    zero: int
    shards: frozenset[str]
    made: dict[str, _Lowered] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    gathers: list[Step] = field(default_factory=list)


class _Lowered:
    """A layer of which the forward pass is lowered.

    Attributes:
        array: the array of its output.
        dims: for each dim of the op the indices that each device computes, ``[devices, size]``.
        reads: the arrays that it reads, by their role.
        errors: the arrays of what its readers have sent back, and who has what of them.
        users: the layers that use its weight, with the arrays of their terms of the gradient.
        anew: the arrays of inputs that are gathered again, by their number.
    """

    def __init__(self, flow: _Flow, layer: Layer, fragment: Fragment, before: _Lowered | None = None) -> None:
        """Lower the forward phase, perhaps once more for the backward phase of a layer as it was ``before``."""
        self.flow, self.layer, self.name, self.fragment = flow, layer, layer.name, fragment
        self.nest = fragment.nest
        self.holding, self.output = fragment.left[0], fragment.output
        self.sources = [flow.made[name] for name in layer.inputs]
        self.errors: dict[str, tuple[str, Holding]] = {} if before is None else before.errors
        self.users: list[tuple[Tie, str, Fragment]] = [] if before is None else before.users
        self.again, self.tag = before is not None, self.name if before is None else f"{self.name} again"
        self.array, self.anew = f"F {self.tag}", dict[int, str]()
        tied = any(self.name in {tie.owner, tie.user} for tie in flow.graph.ties)
        self.rest = self._rest() if flow.zero >= GATHERED and not tied else None
        if layer.inputs:
            partial = {f"input_{axis}": own for axis, own in fragment.partial.items()}
            self.dims: Mapping[str, Members] = {**fragment.dims, **partial}
            self._forward({} if before is None else before.reads)

    def _rest(self) -> Rest | None:
        """Return how its weight rests in shares, that of a node."""
        weighs = self.flow.zero and self.layer.weighted and self.nest.weight
        return rest_of((self.fragment, *(own for *_, own in self.users))) if weighs else None

    def _for(self, phase: str, tensor: str, maker: str | None = None) -> Item:
        return Item(self.name, maker, phase, tensor)

    def _move(self, own: Transfer, source: str, target: str, item: Item, *, once: bool = False) -> str:
        """Add a transfer, and return the array that it writes; where it moves nothing, the one that it would read."""
        if not own.moves:
            return source
        self.flow.steps.append(Move(source, target, item, own, once))
        return target

    def _weight(self, phase: str) -> dict[str, str]:
        """Gather the weight for a phase where it rests in shares between its uses, and return its array by its role.

        What is gathered for a phase that is computed again stays until the layer goes backward.
        """
        if self.rest is None:
            return {}
        if phase == "backward" and self.again:
            return {"weight": f"W forward {self.tag}"}
        target, item = f"W {phase} {self.tag}", self._for("weight", "weight")
        return {"weight": self._move(self.rest.gathered, f"W share {self.name}", target, item)}

    def _compute(self, kind: str, of: Holding | None, reads: Arrays, writes: Arrays, **due: Holding) -> None:
        dims = self.dims if of is None else dict(zip(self.nest.result.axes, of.members, strict=True))
        self.flow.steps.append(Compute(kind, self.name, pieces_of(dims), reads, writes, due))

    # Forward

    def _forward(self, kept: Arrays) -> None:
        """Bring the inputs to the devices that compute, add up statistics and partial sums, and add the bias.

        What has come from other stages is ``kept`` for a second time.
        """
        nest, summed, self.reads = self.nest, self.fragment.summed, dict[str, str]()
        for at, (source, own) in enumerate(zip(self.sources, self.fragment.reads, strict=True)):
            role, item = operand_name(at), self._for("forward", "input", source.name)
            if kept and own.moves and not own.have.meets(own.need):
                self.reads[role] = kept[role]
            else:
                self.reads[role] = self._move(own, source.array, f"in {self.tag} {at}", item)
        self.reads = self.reads | self._statistics(self.reads)
        array = f"terms {self.tag}" if summed else self.array
        self._compute("forward", None, {**self.reads, **self._weight("forward")}, {"output": array})
        if summed:
            target = f"sums {self.tag}" if nest.multiplies else self.array
            array = self._move(summed, array, target, self._for("forward", "output"))
        if summed and nest.multiplies:
            self._compute("finish", self.holding, {"output": array}, {"output": self.array})
        else:
            self.array = array

    def _statistics(self, reads: Arrays, before: str = "") -> dict[str, str]:
        """Add up the sums of a phase, and return their arrays by role, their name; of the backward phase with ``back `` before it.

        A sum over dims that every device has whole needs no other device, unless it is a gradient. Devices that compute
        nothing need the sum only if it is the gradient of a tensor that they hold.
        """
        nest, dims, own = self.nest, self.dims, self.layer.trained
        needed, active = list[str](), np.all([each.any(axis=1) for each in dims.values()], axis=0)
        for name, sum_ in nest.sums.items():
            whole = all(each[active].all() for dim, each in dims.items() if dim not in sum_.dims)
            if sum_.backward is bool(before) and (name in own or sum_.together or not whole):
                needed.append(name)
        if not needed:
            return {}
        writes = {name: f"{before}{name} terms {self.tag}" for name in needed}
        self._compute("statistics", None, reads, writes)
        item, found = self._for("backward" if before else "forward", "statistics"), {}
        for name, terms in writes.items():
            trained, sum_, role = nest.trained.get(name), nest.sums[name], f"{before}{name}"
            held = Holding(members(trained, dims) if trained else tuple(dims[dim] for dim in sum_.dims))
            have, runs = held.on(active), [sum_.together.get(dim, 1) for dim in sum_.dims]
            need = held if name in own else Holding(tuple(map(_whole, have.members, runs)))
            found[role] = self._move(self.fragment.adding(have, need), terms, f"{role} {self.tag}", item)
        return found

    # Backward

    def backward(self) -> None:
        """Add up what readers have sent back, or take the loss; compute what is sent back from here, and gradients."""
        error, kind, gathered = f"E {self.name}", "error" if self.errors else "loss", self.fragment.gathered
        sent = self.errors or {"output": (self.array, self.holding)}
        reads = {role: own for role, (own, _) in sent.items()}
        due = {role: own for role, (_, own) in sent.items()}
        self._compute(kind, self.holding, reads, {"error": error}, **due)
        if gathered:
            error = self._move(gathered, error, f"E all {self.name}", self._for("backward", "output"))
        reads = {**self.reads, **self._gathered_again(), "error": error}
        sums = self._statistics(reads, "back ")
        trained = [number for number, source in enumerate(self.sources) if source.fragment.trained]
        writes = {operand_name(number): f"E terms {self.name} {number}" for number in trained}
        if self.layer.weighted:
            writes |= {name: f"d terms {self.name} {name}" for name in self.nest.trained}
        pieces, reads = pieces_of(self.dims, self.nest.result.dims), reads | sums | self._weight("backward")
        self.flow.steps.append(Compute("backward", self.name, pieces, reads, writes))
        for number in trained:
            self._return(number)
        for name in dict.fromkeys((*(["weight"] if self.layer.op.tied else []), *self.layer.trained)):
            self._update(name, sums.get(f"back {name}"))

    def _gathered_again(self) -> dict[str, str]:
        """Return the arrays, by their role, of the inputs of which devices keep shards, gathered once for all that read them."""
        made, inputs, found = self.flow.made, self.layer.inputs, dict[str, str]()
        fragments = {name: made[name].fragment for name in (*inputs, self.name)}
        for at, name, number in gathered_again(self.name, inputs, fragments, self.flow.shards):
            own = made[name]
            if number not in own.anew:
                source, target = own.sources[number], f"in {name} {number} again"
                item = own._for("forward", "input", source.name)
                own.anew[number] = own._move(own.fragment.reads[number], source.array, target, item)
            found[operand_name(at)] = own.anew[number]
        return found

    def _return(self, number: int) -> None:
        array, source, name = f"E terms {self.name} {number}", self.sources[number], f"{self.name} {number}"
        *sums, last = self.fragment.returned[number]
        for own in sums:
            array = self._move(own, array, f"E sums {name}", self._for("backward", "input"))
        error = self._move(last, array, f"E {name}", self._for("backward", "input", source.name))
        stays = last.kind == "return" and error == array
        source.errors[str(len(source.errors))] = error, last.have if stays else last.need

    def _update(self, name: str, summed: str | None) -> None:
        """Add up the gradient of a trained tensor, and update it where it is held.

        The terms of a weight that an earlier layer has are left to that one, which adds up those of all its users at once.
        """
        flow, users = self.flow, self.users if name == "weight" else []
        added, rest = self.fragment.gradient(name), None
        if summed is None:
            source = f"d terms {self.name} {name}"
            for tie in flow.graph.ties:
                if (tie.user, "weight") == (self.name, name):
                    flow.made[tie.owner].users.append((tie, source, self.fragment))
                    return
            source, added = self._of_users(source) if users else (source, added)
            rest = self._rest() if name == "weight" else None
            own, once = rest.summed if rest else added, not rest or flow.zero == 1 or bool(users)
            summed = self._move(own, source, f"d {self.name} {name}", self._for("gradient", name), once=once)
        found = Update(self.name, name, summed, added.need, tuple(tie for tie, *_ in users))
        if rest and self.rest:
            found = replace(found, holding=rest.summed.need)
        elif rest:
            made, whole = f"new share {self.name}", f"new {self.name}"
            found = replace(found, rest=rest.summed.need, writes=made, gathered=whole)
            flow.gathers.append(Move(made, whole, self._for("weight", name), rest.gathered, once=True))
        flow.updates.append(found)

    def _of_users(self, source: str) -> tuple[str, Transfer]:
        """Return how the terms of all users of a weight are added up, after each device has added up those that it has."""
        users = self.fragment, *(own for *_, own in self.users)
        gradient, target = gradient_of(users), f"d terms {self.name} of all"
        whole = {str(axis): np.arange(size) for axis, size in enumerate(gradient.have.shape)}
        pieces = tuple(None if copy < 0 else whole for copy in gradient.copies.number)
        reads = {"": source, **{tie.user: array for tie, array, _ in self.users}}
        # Where several devices have the terms of one piece, those of the first count.
        firsts = [own.gradient("weight").copies.number == 0 for own in users]
        each = zip(reads, gradient.have.each, firsts, strict=True)
        due = {role: Holding(box).on(first) for role, box, first in each}
        self.flow.steps.append(Compute("tied", self.name, pieces, reads, {"weight": target}, due))
        return target, gradient


def _whole(each: Members, size: int) -> Members:
    """Return the indices of a dim that devices have, with all others of runs of some size of which they have one."""
    return each.reshape(len(each), -1, size).any(axis=2).repeat(size, axis=1)
