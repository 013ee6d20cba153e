"""The transfers of a network, whatever the choices: the sums inside each layer, and those of each tensor between two.

The elements of a transfer are products of factors. ``parts_of`` is the table of what each transfer counts; which of its rows run is
decided by ``network_of`` for each convention.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.network.nodes import kept_with_graph
from hypar.sharding.amounts.between import Between, Change, Part
from hypar.sharding.amounts.factors import windowed
from hypar.sharding.amounts.windows import fraction_read, image_of
from hypar.sharding.conventions import BY_PRODUCTS, DIRECT, FUSED, PAPER

if TYPE_CHECKING:
    from hypar.network.nodes import PlanGraph, PlanNode, Tensor
    from hypar.sharding.amounts.windows import Image


class Sums(NamedTuple):
    """The partial sums of a layer that are added up inside it.

    Attributes:
        output: whether F_out is added up inside the layer.
        input: whether E_in is.
        weight: whether dW is; that of a weight that an earlier layer has too is added up with that layer's.
        as_read: elements of F_out as its readers see it, which ``paper`` adds up; None where they are added up before the ops
            behind the layer.
    """

    output: bool
    input: bool
    weight: bool = True
    as_read: float | None = None

    @property
    def apart(self) -> bool:
        """Whether each level is counted by itself: gaps between windows too, and rows beside borders as a transfer of their own."""
        return self.as_read is not None


Parts = tuple[Part, ...]
"""The transfers of a tensor in the order in which they run: of F, then of E."""


@lru_cache(maxsize=4096)
def parts_of(
    between: Between, elements: float, made: float = 0.0, *, error: bool = True, terms: bool = False
) -> Parts:
    """Return the transfers of a tensor.

    Args:
        between: its dims at both ends.
        elements: elements of F and of E that the consumer reads.
        made: elements of the producer's F_out before the ops between, where its sums go straight to the consumer.
        error: whether E is sent back.
        terms: whether E is sent as terms, which are not added up inside the consumer.
    """
    size, above = elements, "need" if between.apart else ""
    onward, sent = between.onward, "errors" if terms or between.onward else "backward"
    kept: tuple[Change, ...] = (Change(size, "kept", "back", above),)
    if terms:
        kept = (Change(size, "need", "owned"), Change(size, "kept"))
    every = (
        (onward, Part("forward", "output", "sums", (Change(made, "terms"), Change(made, "left", "placed")))),
        (between.contracted, Part("forward", "input", "sums", (Change(2 * size, "kept", "alone", above),))),
        (True, Part("forward", "input", "forward", (Change(size, "need", "both", above),))),
        (error, Part("backward", "input", sent, kept)),
        (error and onward, Part("backward", "output", "backward", (Change(made, "terms", "met"),))),
    )
    return tuple([part for runs, part in every if runs])


@lru_cache(maxsize=4096)
def parts_of_weight(elements: int) -> Parts:
    """Return the transfers of the gradient of a weight that two layers use, besides those among the producer's devices.

    A device with terms for the consumer that has none for the producer is one more that has terms, and gets the sum.
    """
    size = float(elements)
    return (
        Part("gradient", "weight", "backward", (Change(size, "need", "back"),)),
        Part("gradient", "weight", "forward", (Change(size, "need", "both"),)),
    )


@lru_cache(maxsize=4096)
def names_of(parts: Parts) -> tuple[str, ...]:
    """Return the names of the factors that transfers count."""
    return tuple({name: None for part in parts for change in part.changes for name in change[1:] if name})


def sends_back(parts: Parts) -> bool:
    """Return whether E is sent back."""
    return any(part.phase == "backward" for part in parts)


def phase_of(tensor: str) -> str:
    """Return the phase that computes a tensor: its value, its error, or its gradient.

    Examples:
        >>> phase_of("output"), phase_of("input 2"), phase_of("weight")
        ('forward', 'backward', 'gradient')
    """
    return {"output": "forward", "weight": "gradient"}.get(tensor, "backward")


@dataclass(frozen=True, eq=False, slots=True)
class Network:
    """The transfers of a network, whatever the choices.

    Attributes:
        sums: for each layer the sums that are added up inside it.
        between: for each tensor its dims at both ends.
        parts: for each tensor its transfers.
        images: for each tensor the image that it is.
        tensors: the tensors between layers, and the weights that two layers use.
    """

    sums: tuple[Sums, ...]
    between: tuple[Between, ...]
    parts: tuple[Parts, ...]
    images: tuple[Image, ...]
    tensors: tuple[Tensor, ...]


@kept_with_graph
def network_of(graph: PlanGraph, convention: str, *, tied: bool = True) -> Network:
    """Return the transfers of a network under a convention; equal dims and equal transfers share one object.

    Under ``paper`` every layer adds up all its sums, and every tensor has an error. ``direct`` sends the terms of errors to
    their readers. Under ``moved`` and ``fused`` no error is sent to a layer before which nothing is trained. Under ``fused``
    the sums of an output that one layer reads, and the terms of an error, are added up on the way to the next layer.

    Args:
        graph: the layers.
        convention: the convention.
        tied: whether the gradient of a weight that several layers use is added up once, and not once for each.
    """
    layers, apart, fused = graph.layers, convention not in BY_PRODUCTS, convention == FUSED
    needed = [apart or index in graph.fed for index in range(len(layers))]
    readers = Counter([*graph.sent, *(tensor.producer for tensor in graph.tensors)])
    sent_on, as_terms, found = set(), {}, {}
    for tensor in sorted(graph.tensors, key=lambda one: one.consumer):
        made, read = graph.ends(tensor)
        error = made.weighted or needed[tensor.producer]
        needed[tensor.consumer] |= error
        onward = fused and made.nest.multiplies and readers[tensor.producer] == 1
        sent_on |= {tensor.producer} if onward else set()
        terms = as_terms[tensor.consumer] = fused and read.nest.multiplies and error
        between = between_of(made, read, tensor, onward=onward, apart=apart)
        image = (
            ()
            if apart
            else image_of(read.nest, tensor.operand, tensor.content.shape, made.nest if onward else None)
        )
        size = tensor.elements * fraction_read(image)
        summed = float(made.nest.elements("output")) if onward else 0.0
        found[id(tensor)] = between, parts_of(between, size, summed, error=error, terms=terms), image
    ties = () if apart or not tied else graph.ties
    every = [found[id(tensor)] for tensor in graph.tensors]
    every += [(between_of(*graph.ends(tie), tie), parts_of_weight(tie.elements), ()) for tie in ties]
    kept: dict[Any, Any] = {}
    columns: list[Any] = [
        tuple([kept.setdefault(own, own) for own in column]) for column in zip(*every, strict=True)
    ]
    users = {tie.consumer for tie in ties}
    sums = [
        Sums(
            output=at not in sent_on,
            input=needed[at] and not as_terms.get(at) and convention != DIRECT,
            weight=at not in users,
            as_read=layer.output_elements if convention == PAPER else None,
        )
        for at, layer in enumerate(layers)
    ]
    between, parts, images = columns or [()] * 3
    return Network(tuple(sums), between, parts, images, (*graph.tensors, *ties))


def between_of(
    made: PlanNode, read: PlanNode, tensor: Tensor, *, onward: bool = False, apart: bool = False
) -> Between:
    """Return a tensor's dims at both ends."""
    ends, dims = (made.nest.unsized, read.nest.unsized), tuple(dim for dim, _ in tensor.content.shape)
    borders = tuple(windowed(read.nest).items()) if apart else ()
    return Between(*ends, dims, tensor.content.contracted, onward, apart, tensor.operand, borders)
