"""Import of a PyTorch module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.importers.imported import Imported, imported
from hypar.importers.packages import package
from hypar.importers.running import named_object
from hypar.importers.torch_capture import build_on_meta, capture
from hypar.importers.torch_rules import TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph

EXAMPLE = 2
"""Samples of an example that is made for a command."""


def from_torch(
    module: Any,
    example_inputs: Any,
    *,
    batch: int | None = None,
    name: str | None = None,
    partial: bool = False,
) -> LayerGraph:
    """Read a PyTorch module as a network; nothing is computed, and weights may be on the meta device.

    Args:
        module: a ``torch.nn.Module``.
        example_inputs: a tensor, or one for each argument; the first dim counts samples.
        batch: samples in a mini-batch, if not those of the example.
        name: name of the network; that of the module's class if not given.
        partial: whether to accept a network of which less than 99 % is recognised.

    Raises:
        InputError: PyTorch is not installed, or the module cannot be captured or said by hypar's ops.
    """
    example = tuple(example_inputs) if isinstance(example_inputs, list | tuple) else (example_inputs,)
    own = type(module).__name__ if name is None else name
    trace = capture(module, example, name=own, where=own)
    return imported(trace, TABLE, batch=batch, partial=partial).graph()


def import_named(
    build: str,
    inputs: Sequence[tuple[int, ...]],
    tokens: frozenset[int],
    *,
    batch: int | None,
    partial: bool,
) -> Imported:
    """Run ``my_module:build`` and read the module that it returns.

    Args:
        build: a module of Python and a name in it.
        inputs: shape of one sample of each argument.
        tokens: numbers of the arguments that are whole numbers.
        batch: samples in a mini-batch.
        partial: whether little recognised is enough.

    Raises:
        InputError: as ``from_torch`` does, or the user's code fails.
    """
    torch = package("torch", "torch")
    module = build_on_meta(named_object(build), build)
    devices = {tensor.device for tensor in [*module.parameters(), *module.buffers()]}
    device = next(iter(devices), torch.device("meta"))
    example = [
        torch.zeros((EXAMPLE, *shape), device=device, dtype=torch.int64 if number in tokens else None)
        for number, shape in enumerate(inputs)
    ]
    trace = capture(module, example, name=build.rpartition(":")[2].rpartition(".")[2], where=build)
    return imported(trace, TABLE, batch=batch, partial=partial)
