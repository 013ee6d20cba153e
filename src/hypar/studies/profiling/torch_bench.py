"""How long pieces take on this machine: PyTorch, loaded when it is first asked for.

A run is the forward phase and then the backward and gradient phases, as PyTorch's own differentiation does them. A
run to warm up comes first; of the others the fastest counts, as whatever else a machine does only makes one slower.
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

    from hypar.studies.profiling.pieces import Piece

LEAST_SECONDS = 0.005
"""A piece is run for so long, and once at least, so that a short one is run often."""

MOST_RUNS = 1000


class Bench(Protocol):
    """What measures pieces."""

    @property
    def device(self) -> str:
        """What pieces run on."""
        ...

    @property
    def memory_bytes(self) -> int | None:
        """What pieces must fit into; None where that is not known."""
        ...

    def seconds(self, piece: Piece) -> float:
        """How long a piece takes.

        Raises:
            MemoryError: it does not fit.
            RuntimeError: it cannot be run.
        """
        ...


@dataclass(frozen=True, slots=True)
class TorchBench:
    """PyTorch on the processor.

    Attributes:
        torch: the package.
    """

    torch: Any

    @property
    def device(self) -> str:
        """Processor, version and threads."""
        threads = self.torch.get_num_threads()
        return f"cpu {platform.machine()}, torch {self.torch.__version__}, {threads} threads"

    @property
    def memory_bytes(self) -> int | None:
        """The memory of this machine."""
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            return None

    def seconds(self, piece: Piece) -> float:
        """As ``Bench.seconds``."""
        return least_seconds(self.step(piece))

    def step(self, piece: Piece) -> Callable[[], object]:
        """A run of all phases, on random numbers."""
        generator = self.torch.Generator().manual_seed(0)
        random = partial(self.torch.rand, generator=generator, dtype=getattr(self.torch, piece.dtype))
        shapes = [*piece.inputs, *filter(None, [piece.weight])]
        read = [random(shape, requires_grad=True) for shape in shapes]
        error, forward = random(piece.output), self.forward(piece)
        return lambda: self.torch.autograd.grad(forward(*read), read, error)

    def forward(self, piece: Piece) -> Callable[..., Any]:
        """The forward phase, from what is read to what is made."""
        functions = self.torch.nn.functional
        kernel, stride, padding, dilation = (
            tuple(getattr(window, name) for window in piece.windows)
            for name in ("kernel", "stride", "padding", "dilation")
        )
        match piece.op:
            case "conv":
                slide = {"stride": stride, "padding": padding, "dilation": dilation}
                return partial(functions.conv2d, **slide, groups=piece.groups)
            case "linear":
                linear: Callable[..., Any] = functions.linear
                return linear
            case "max" | "average":
                pool = functions.max_pool2d if piece.op == "max" else functions.avg_pool2d
                slide = {"kernel_size": kernel, "stride": stride, "padding": padding}
                return partial(pool, **slide, ceil_mode=piece.round_up)
            case "add":
                return lambda *read: reduce(operator.add, read)
            case _:
                return lambda *read: self.torch.cat(read, 1)


def load_bench() -> Bench:
    """PyTorch on this machine.

    Raises:
        OptionError: it is not installed.
    """
    try:
        return TorchBench(importlib.import_module("torch"))
    except (ImportError, OSError):
        hint = "pip install 'hypar-planner[profile]'"
        raise OptionError("profile", "torch is not installed", hint=hint) from None


def least_seconds(step: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The least time of some runs after one that warms up.

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
