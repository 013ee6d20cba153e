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

if TYPE_CHECKING:
    from collections.abc import Callable

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
        kernel, stride, padding, dilation = (
            tuple(getattr(window, name) for window in shard.windows)
            for name in ("kernel", "stride", "padding", "dilation")
        )
        match shard.op:
            case "conv":
                slide = {"stride": stride, "padding": padding, "dilation": dilation}
                return partial(functions.conv2d, **slide, groups=shard.groups)
            case "linear":
                linear: Callable[..., Any] = functions.linear
                return linear
            case "max" | "average":
                pool = functions.max_pool2d if shard.op == "max" else functions.avg_pool2d
                slide = {"kernel_size": kernel, "stride": stride, "padding": padding}
                return partial(pool, **slide, ceil_mode=shard.round_up)
            case "add":
                return lambda *read: reduce(operator.add, read)
            case _:
                return lambda *read: self.torch.cat(read, 1)


def load_bench() -> Bench:
    """Return PyTorch's bench on this machine.

    Raises:
        OptionError: PyTorch is not installed.
    """
    try:
        return TorchBench(importlib.import_module("torch"))
    except (ImportError, OSError):
        hint = "pip install 'hypar-planner[profile]'"
        raise OptionError("profile", "torch is not installed", hint=hint) from None


def least_seconds(step: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the least time of some runs after one that warms up.

    Example:
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
