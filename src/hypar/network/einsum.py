"""The contraction of a layer: which op dims each tensor carries, and the elements and operations of each phase."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.network.dims import CUTTABLE, atom_of, in_order
from hypar.network.training import PHASES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.windows import Window


class Roles(NamedTuple):
    """The op dims of each tensor of a layer, without sizes.

    Attributes:
        input: op dims of F_in and E_in.
        weight: op dims of W and dW.
        output: op dims of F_out and E_out.
        others: op dims of the further inputs of a product of activations.
    """

    input: tuple[str, ...]
    weight: tuple[str, ...]
    output: tuple[str, ...]
    others: tuple[tuple[str, ...], ...] = ()

    def dims(self, tensor: str) -> frozenset[str]:
        """Return the op dims of a tensor."""
        return _carried(self)[tensor]

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of all tensors: ``input``, ``weight``, ``output``, and ``input 1`` and so on for further inputs."""
        return tensors_of(len(self.others))

    @property
    def extra(self) -> tuple[str, ...]:
        """The dims besides those of convolutions that the tensors carry, in their order on devices."""
        return _extra(self)


@lru_cache(maxsize=4096)
def _carried(roles: Roles) -> Mapping[str, frozenset[str]]:
    own = (roles.input, roles.weight, roles.output, *roles.others)
    return {name: frozenset(dims) for name, dims in zip(roles.tensors, own, strict=True)}


@lru_cache(maxsize=4096)
def _extra(roles: Roles) -> tuple[str, ...]:
    dims = frozenset().union(*_carried(roles).values())
    return tuple(dim for dim in in_order(dims) if not (dim in CUTTABLE or dim.startswith("kernel_")))


@lru_cache(maxsize=16)
def tensors_of(others: int) -> tuple[str, ...]:
    """Return the names of the tensors of a layer with some further inputs.

    Examples:
        >>> tensors_of(1)
        ('input', 'weight', 'output', 'input 1')
    """
    return ("input", "weight", "output", *(operand_name(number) for number in range(1, others + 1)))


def operand_name(number: int) -> str:
    """Return the name of an input by its number among the operands, ``input`` or ``input 1``."""
    return f"input {number}" if number else "input"


class Behind(NamedTuple):
    """The traffic of an op that runs on a layer's output, or of the layer itself besides its phases, per element of F_out.

    Attributes:
        contracted: the tensor's dims that are no longer divided, as ops before have summed over them.
        forward: elements that the forward phase reads and writes.
        backward: elements that the backward phase reads and writes.
        mask_bytes: bytes that both phases read or write.
        flop: floating-point operations of each phase that moves anything.
    """

    contracted: frozenset[str]
    forward: float
    backward: float
    mask_bytes: float
    flop: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Einsum:
    """A layer's three phases as contractions of three tensors over named dims.

    Forward ``F_out = F_in . W``, backward ``E_in = E_out . W'``, gradient ``dW = F_in' . E_out``. A dim
    of the op is one dim of a tensor, under the tensor's own name for it: the ``in_channels`` of the op
    are the ``channels`` of F_in. Einsums are compared by identity, so results can be cached by einsum.

    Attributes:
        sizes: size of each op dim; height and width are those of the output. Whole numbers, except that an uneven split
            into fractional shares may give its dim a real size.
        input: op dims that F_in and E_in carry, with the tensor's name for each.
        weight: op dims that W and dW carry.
        output: op dims that F_out and E_out carry, with the tensor's name for each.
        input_elements: elements of F_in.
        windows: windows on F_in along the op's spatial dims.
        input_sizes: sizes of F_in along those dims.
        zeros: fraction of zeros in F_in and F_out, where the network gives it.
        others: op dims of the further inputs of a product of activations, with the tensor's name for each.
        products: the op dims of each product of two tensors, where the op is a chain of several; empty for one product.
        fraction: the part of these products that is computed, as a half below the diagonal of causal attention.
        whole: op dims that no choice may divide.
        behind: the traffic of the layer besides its phases, and of the ops behind it.
    """

    sizes: Mapping[str, int]
    input: Mapping[str, str]
    weight: tuple[str, ...]
    output: Mapping[str, str]
    input_elements: int
    windows: Mapping[str, Window] = field(default_factory=dict)
    input_sizes: Mapping[str, int] = field(default_factory=dict)
    zeros: Mapping[str, float] = field(default_factory=dict)
    others: tuple[Mapping[str, str], ...] = ()
    products: tuple[tuple[str, ...], ...] = ()
    fraction: float = 1.0
    whole: frozenset[str] = frozenset()
    behind: tuple[Behind, ...] = ()

    def dims(self, tensor: str) -> frozenset[str]:
        """Return the op dims of a tensor: ``input``, ``weight``, ``output`` or ``input 1``."""
        return self._carried[tensor]

    @cached_property
    def _carried(self) -> Mapping[str, frozenset[str]]:
        return _carried(self.roles)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of all tensors."""
        return tensors_of(len(self.others))

    @property
    def contracts(self) -> bool:
        """Whether tensors are multiplied: by a weight, by each other, or by a selection of elements."""
        return bool(self.weight or self.others or self.products)

    @cached_property
    def cuttable(self) -> tuple[str, ...]:
        """The dims that a choice may divide, in their order in plan files."""
        dims = in_order(dim for dim in self.sizes if not dim.startswith("kernel_") and dim not in self.whole)
        return tuple(dims)

    @cached_property
    def counted(self) -> tuple[str, ...]:
        """The dims for which degrees are counted: those of convolutions, and the layer's own."""
        return (*CUTTABLE, *self.roles.extra)

    def names(self, tensor: str) -> Mapping[str, str]:
        """Return the tensor's name for each op dim that it carries; none for a weight."""
        operands = {operand_name(number): own for number, own in enumerate((self.input, *self.others))}
        return {**operands, "output": self.output}.get(tensor, {})

    def read_at(self, operand: int) -> Einsum:
        """Return the einsum as a tensor's transfer to one of its inputs sees it: with that one as ``input``.

        The input that was first changes places with it, so that every dim keeps the tensors that carry it.
        """
        return self._read_at[operand] if operand else self

    @cached_property
    def _read_at(self) -> tuple[Einsum, ...]:
        found = [self]
        for number, own in enumerate(self.others):
            others = (*self.others[:number], self.input, *self.others[number + 1 :])
            elements = math.prod([self.sizes[dim] for dim in own])
            found.append(replace(self, input=own, others=others, input_elements=elements))
        return tuple(found)

    @cached_property
    def of_weight(self) -> Einsum:
        """The einsum as the transfers of its weight see it: with the weight as F_in and as F_out, without windows."""
        own = {dim: atom_of(dim) for dim in self.weight}
        size = self.elements("weight")
        return replace(self, input=own, output=own, input_elements=size, windows={}, input_sizes={})

    @property
    def content(self) -> object:
        """A key that einsums of equal fields share, as joins of two and of three inputs do."""
        mappings = (
            self.sizes,
            self.input,
            self.output,
            self.windows,
            self.input_sizes,
            self.zeros,
            *self.others,
        )
        chain = (self.products, self.fraction, self.whole, self.behind)
        return self.weight, self.input_elements, chain, *[tuple(mapping.items()) for mapping in mappings]

    def resized(self, **fields: Any) -> Einsum:
        """Return the einsum with other sizes of the same dims, which share all that does not depend on sizes."""
        found = replace(self, **fields)
        found.__dict__.update({name: getattr(self, name) for name in _WITHOUT_SIZES})
        return found

    def unsized(self) -> Einsum:
        """Return the einsum of the same dims without sizes; einsums with equal dims share one object."""
        return self._without_sizes

    @cached_property
    def _without_sizes(self) -> Einsum:
        others = tuple(tuple(own.items()) for own in self.others)
        return _unsized(tuple(self.input.items()), self.weight, tuple(self.output.items()), others)

    @cached_property
    def roles(self) -> Roles:
        """The op dims of each tensor."""
        others = tuple(tuple(own) for own in self.others)
        return Roles(tuple(self.input), self.weight, tuple(self.output), others)

    def elements(self, tensor: str) -> int:
        """Return the elements of the whole tensor; 0 for the weight of an op without one."""
        if tensor == "input":
            return self.input_elements
        dims = self.weight if tensor == "weight" else tuple(self.names(tensor))
        return math.prod([self.sizes[dim] for dim in dims]) if dims else 0

    @cached_property
    def steps(self) -> Mapping[str, int]:
        """The loop counts of the contraction: ``sizes``, but for inputs instead of outputs along transposed windows."""
        over = {
            dim: window.steps(self.input_sizes[dim], self.sizes[dim]) for dim, window in self.windows.items()
        }
        return {**self.sizes, **over} if over else self.sizes

    @cached_property
    def macs(self) -> int:
        """Number of multiply-accumulates in the forward phase; 0 where nothing is multiplied."""
        if self.products:
            return int(self.fraction * self.products_among({}))
        return math.prod(self.steps.values()) if self.contracts else 0

    def macs_among(self, degrees: Mapping[str, Any]) -> Any:
        """Return the multiply-accumulates of each of the devices that divide some dims alike."""
        if self.products:
            return self.fraction * self.products_among(degrees)
        return self.macs / math.prod(degrees.get(dim, 1) for dim in self.sizes)

    def products_among(self, degrees: Mapping[str, Any]) -> Any:
        """Return the multiply-accumulates of a chain's products on each of the devices that divide some dims."""
        if not degrees:
            return sum(math.prod(self.sizes[dim] for dim in dims) for dims in self.products)
        return sum(math.prod(self.sizes[dim] / degrees.get(dim, 1) for dim in dims) for dims in self.products)

    def flop(self, phase: str) -> int:
        """Return the floating-point operations of a phase: ``2 n - 1`` for every result element that contracts n terms.

        A contraction of less than one term, which a fractional share may leave, needs no additions. The outputs of
        transposed windows contract fewer terms at a border, so their products are counted together.

        Source: AccPar (HPCA 2020), the operation counts of its computation cost.
        """
        return _flop(self, phase)

    @cached_property
    def step_flop(self) -> int:
        """The floating-point operations of the three phases."""
        return sum(self.flop(phase) for phase in PHASES)


_WITHOUT_SIZES = ("roles", "_carried", "_without_sizes", "cuttable", "counted")
"""What is computed of the dims of an einsum alone."""


@lru_cache(maxsize=16384)
def _flop(einsum: Einsum, phase: str) -> int:
    if not einsum.macs:
        return 0
    if einsum.products or einsum.others:
        return 2 * einsum.macs
    result, steps = PHASES[phase].result, einsum.steps
    contracted = math.prod(size for dim, size in steps.items() if dim not in einsum.dims(result))
    if result == "output" and steps != einsum.sizes:
        return einsum.macs + max(0, einsum.macs - einsum.elements(result))
    return einsum.elements(result) * (contracted + max(0, contracted - 1))


@lru_cache(maxsize=1024)
def _unsized(
    carried: tuple[tuple[str, str], ...],
    weight: tuple[str, ...],
    left: tuple[tuple[str, str], ...],
    others: tuple[tuple[tuple[str, str], ...], ...],
) -> Einsum:
    further = tuple(dict(own) for own in others)
    return Einsum(
        sizes={}, input=dict(carried), weight=weight, output=dict(left), input_elements=0, others=further
    )
