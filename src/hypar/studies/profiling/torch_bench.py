"""Times of shards on this machine: PyTorch, loaded on first use.

A run is the forward phase and then the backward and gradient phases by PyTorch's own differentiation. A first run
warms up; of the others the fastest counts, because other work of the machine only makes a run slower.
"""

from __future__ import annotations

import importlib
import operator
import os
import platform
import time
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Protocol

from hypar.errors import OptionError
from hypar.network.windows import TransposedWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.studies.profiling.shards import LayerShard

LEAST_SECONDS = 0.005
"""Seconds for which a shard is run, at least once, so that a short one is run often."""

MOST_RUNS = 1000


class Bench(Protocol):
    """A bench that measures shards."""

    @property
    def device(self) -> str:
        """Return a description of the device."""
        ...

    @property
    def memory_bytes(self) -> int | None:
        """Return the memory of the device in bytes; None if unknown."""
        ...

    def seconds(self, shard: LayerShard) -> float:
        """Return the seconds that a shard takes.

        Raises:
            MemoryError: it does not fit.
            RuntimeError: it cannot be run.
        """
        ...


@dataclass(frozen=True, slots=True)
class TorchBench:
    """The bench for PyTorch on the processor.

    Attributes:
        torch: the package.
    """

    torch: Any

    @property
    def device(self) -> str:
        """Return the processor, the version and the number of threads."""
        threads = self.torch.get_num_threads()
        return f"cpu {platform.machine()}, torch {self.torch.__version__}, {threads} threads"

    @property
    def memory_bytes(self) -> int | None:
        """Return the memory of this machine."""
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            return None

    def seconds(self, shard: LayerShard) -> float:
        """Measure as ``Bench.seconds``."""
        return least_seconds(self.step(shard))

    def step(self, shard: LayerShard) -> Callable[[], object]:
        """Return a function that runs all phases on random numbers."""
        generator = self.torch.Generator().manual_seed(0)
        random = partial(self.torch.rand, generator=generator, dtype=getattr(self.torch, shard.dtype))
        shapes = [*shard.inputs, *filter(None, [shard.weight])]
        read = [random(shape, requires_grad=True) for shape in shapes]
        error, forward = random(shard.output), self.forward(shard)
        return lambda: self.torch.autograd.grad(forward(*read), read, error)

    def forward(self, shard: LayerShard) -> Callable[..., Any]:
        """Return the forward phase as a function of its inputs."""
        functions = self.torch.nn.functional
        match shard.op:
            case "linear":
                linear: Callable[..., Any] = functions.linear
                return linear
            case "add":
                return lambda *read: reduce(operator.add, read)
            case "concat":
                return lambda *read: self.torch.cat(read, 1)
            case "crop":
                return lambda read: _centre(read, shard.output).clone()
        slid = _slid(functions, shard)
        transposed = any(isinstance(window, TransposedWindow) for window in shard.windows)
        return (lambda *read: _centre(slid(*read), shard.output)) if transposed else slid


def _slid(functions: Any, shard: LayerShard) -> Callable[..., Any]:
    """Return an op with windows as a function of its inputs."""
    kernel, stride, padding, dilation, added = (
        tuple(getattr(window, name, 0) for window in shard.windows)
        for name in ("kernel", "stride", "padding", "dilation", "output_padding")
    )
    slide = {"stride": stride, "padding": padding}
    match shard.op:
        case "conv":
            return partial(functions.conv2d, **slide, dilation=dilation, groups=shard.groups)
        case "conv_transpose":
            slide = {**slide, "dilation": dilation, "output_padding": added}
            return partial(functions.conv_transpose2d, **slide, groups=shard.groups)
        case "nearest" | "bilinear":
            return partial(functions.interpolate, scale_factor=stride, mode=shard.op)
        case _:
            pool = functions.max_pool2d if shard.op == "max" else functions.avg_pool2d
            return partial(pool, kernel_size=kernel, **slide, ceil_mode=shard.round_up)


def _centre(image: Any, sizes: Sequence[int]) -> Any:
    """Return the middle of an image, as high and as wide as a shard's output."""
    for dim in (2, 3):
        image = image.narrow(dim, (image.shape[dim] - sizes[dim]) // 2, sizes[dim])
    return image


def load_bench() -> Bench:
    """Return PyTorch's bench on this machine.

    Raises:
        OptionError: PyTorch is not installed.
    """
    try:
        return TorchBench(importlib.import_module("torch"))
    except (ImportError, OSError):
        hint = "pip install '.[profile]' in a clone of hypar"
        raise OptionError("profile", "torch is not installed", hint=hint) from None


def least_seconds(step: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the least time of some runs after one that warms up.

    Examples:
        >>> times = iter([0.000, 0.003, 0.003, 0.004, 0.004, 0.006])
        >>> f"{least_seconds(lambda: None, lambda: next(times)):.3f}"
        '0.001'
    """
    step()
    taken: list[float] = []
    while not taken or (sum(taken) < LEAST_SECONDS and len(taken) < MOST_RUNS):
        start = clock()
        step()
        taken.append(clock() - start)
    return min(taken)
