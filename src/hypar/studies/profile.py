"""Profiles: one device's time for each layer's shard under each choice of a level, measured by PyTorch on this machine.

A shard is that of the fullest device, with sizes rounded up to whole elements. A cut height or width includes the input rows
that its windows read, and counts padding as rows, so that such a shard is not padded again. Transposed windows make a few
rows beyond those of the shard; the output is then cut to its size. A run is the forward phase and then the backward and
gradient phases by PyTorch's own differentiation; the first warms up, and of the others the fastest counts, because other work
of the machine only makes a run slower.
"""

from __future__ import annotations

import importlib
import math
import operator
import os
import platform
import time
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Protocol

from hypar.activity import tell
from hypar.errors import OptionError, ProfileError
from hypar.machine.profiles import Profile, ProfiledModel
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.network.ops.add import Add
from hypar.network.ops.bases.windowed import Sliding
from hypar.network.ops.concat import Concat
from hypar.network.ops.conv_transpose import ConvTranspose
from hypar.network.ops.crop import Crop
from hypar.network.ops.linear import Linear
from hypar.network.ops.pool import Pool
from hypar.network.ops.upsample import Upsample
from hypar.network.windows import TransposedWindow
from hypar.planning.checks.words import space_text
from hypar.planning.strategies.base import load_strategy
from hypar.sharding.dims import grid_word
from hypar.sharding.grids.bounds import bounds
from hypar.sharding.placement import WHOLE
from hypar.sharding.space import parse_space
from hypar.sharding.tree import MOST_DEVICES
from hypar.units import DTYPE_BYTES, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hypar.network.einsum import Einsum
    from hypar.network.layer import Layer
    from hypar.network.windows import Window
    from hypar.sharding.placement import Choice

MOST_REPEATS = 1000

LEAST_SECONDS = 0.005
"""Seconds for which a shard is run, at least once, so that a short one is run often."""

MOST_RUNS = 1000

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShard:
    """The computation of one device; equal shards take equal time.

    Attributes:
        op: ``conv``, ``conv_transpose``, ``linear``, ``max``, ``average``, ``nearest``, ``bilinear``, ``crop``, ``add`` or ``concat``.
        dtype: number format of every tensor.
        inputs: ``[batch, channels, height, width]`` or ``[batch, channels]`` of each tensor that is read.
        weight: ``[out_channels, in_channels, kernel_height, kernel_width]`` or ``[out_channels, in_channels]``, with the
            ``in_channels`` of a group; of a ``conv_transpose`` ``in_channels`` first; empty without a weight.
        output: as ``inputs``.
        windows: along height and width.
        groups: of the convolution.
        round_up: whether a last window may hang over the edge.
    """

    op: str
    dtype: str
    inputs: tuple[Sizes, ...]
    weight: Sizes = ()
    output: Sizes
    windows: tuple[Window, ...] = ()
    groups: int = 1
    round_up: bool = False

    @property
    def num_bytes(self) -> int:
        """Return the bytes of all tensors and of a gradient for each."""
        tensors = (*self.inputs, self.output, *filter(None, [self.weight]))
        return 2 * DTYPE_BYTES[self.dtype] * sum(map(math.prod, tensors))


class Bench(Protocol):
    """A bench that measures shards on a device, with so many bytes of memory if that is known."""

    @property
    def device(self) -> str: ...  # noqa: D102 (as the class says)

    @property
    def memory_bytes(self) -> int | None: ...  # noqa: D102 (as the class says)

    def seconds(self, shard: LayerShard) -> float:
        """Return the seconds that a shard takes; ``MemoryError`` and ``RuntimeError`` say that it cannot be run."""
        ...


def profile_model(
    model: LayerGraph | str | Path,
    *,
    ways: int = 16,
    batch: int | None = None,
    space: str | None = None,
    repeats: int = 3,
    bench: Bench | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Profile:
    """Measure one device's time for its shard of each layer, pools included, under each choice of a level.

    Biases, updates, and the ops between layers are left out.

    Args:
        model: a network, the path of a model file, or a bare name as ``vgg16``.
        ways: devices of the level; some may be idle.
        batch: samples in a mini-batch, if not the model's own number.
        space: choices other than those of the strategy ``deepa``, as in ``plan_model``.
        repeats: rounds over all shards; the shortest time of each counts.
        bench: the bench that measures shards; PyTorch on this machine if not given.
        progress: a function that takes the number of finished measurements and the number of all.

    Raises:
        InputError: the request cannot be met: PyTorch is missing, or a shard does not fit.
    """
    network = model if isinstance(model, LayerGraph) else load_model(model)
    network = network if batch is None else network.with_batch(batch)
    for name, number, least, most in (("ways", ways, 2, MOST_DEVICES), ("repeats", repeats, 1, MOST_REPEATS)):
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise OptionError(name, f"found {number!r}", f"a whole number from {least} to {most:,}")
    shards = shards_of(network, load_strategy("deepa").space if space is None else space_text(space), ways)
    bench = load_bench() if bench is None else bench
    times = _measured(shards, bench, repeats, progress)
    return Profile(
        model=ProfiledModel(name=network.name, digest=network.digest, batch=network.batch),
        device=bench.device,
        ways=ways,
        seconds={layer: {word: times[own] for word, own in each.items()} for layer, each in shards.items()},
    )


def shards_of(graph: LayerGraph, space: str, ways: int) -> dict[str, dict[str, LayerShard]]:
    """Return the fullest device's shard of each layer under each choice, most devices first, the whole layer last.

    Raises:
        OptionError: the space does not suit the network, or an op cannot be measured.
    """
    layers = {layer.name: layer for layer in graph.layers}
    allowed = parse_space(space)
    return {
        cut.name: {
            grid_word(choice.as_degrees()): shard_of(layers[cut.name], cut.einsum, choice, graph.dtype)
            for choice in (*allowed.choices(cut, ways, idle=True), WHOLE)
        }
        for cut in graph.operators.layers
    }


def _measured(
    shards: Mapping[str, Mapping[str, LayerShard]],
    bench: Bench,
    repeats: int,
    progress: Callable[[int, int], None],
) -> dict[LayerShard, float]:
    """Return the shortest seconds of each distinct shard, to four digits.

    Rounds go over all shards, so that a busy moment of the machine spoils one measurement of several shards instead of
    all measurements of one. The largest shard, which may not fit, comes first.
    """
    places: dict[LayerShard, str] = {}
    for layer, by_choice in shards.items():
        for word, shard in by_choice.items():
            places.setdefault(shard, f"profile: {layer}, {word}")
    largest = sorted(places, key=lambda shard: -shard.num_bytes)
    need, room = largest[0].num_bytes, bench.memory_bytes
    if room is not None and need > room:
        found, allowed = (
            f"tensors and gradients of {format_bytes(need)}",
            f"the memory's {format_bytes(room)}",
        )
        raise ProfileError(places[largest[0]], found, allowed, "try a smaller batch")
    times = dict.fromkeys(largest, math.inf)
    for done, shard in enumerate(largest * repeats):
        progress(done, len(largest) * repeats)
        tell(places[shard].replace("profile:", "measuring"))
        try:
            times[shard] = min(times[shard], bench.seconds(shard))
        except (MemoryError, RuntimeError) as error:
            said = next(iter(str(error).splitlines()), "out of memory")
            raise ProfileError(places[shard], said, hint="try a smaller batch") from error
    progress(len(largest) * repeats, len(largest) * repeats)
    return {shard: float(f"{seconds:.4g}") for shard, seconds in times.items()}


def shard_of(layer: Layer, einsum: Einsum, choice: Choice, dtype: str) -> LayerShard:
    """Return the shard of a layer on the fullest device.

    Args:
        layer: the layer.
        einsum: its dims and tensors for the mini-batch.
        choice: the degree of each dim.
        dtype: number format of every tensor.

    Raises:
        OptionError: an op of another package.
    """
    sizes = {dim: -(-size // choice.degree(dim)) for dim, size in einsum.sizes.items()}
    batch, op, name = sizes["batch"], layer.op, layer.op_name
    rows, windows = _read(einsum, choice, sizes)
    image, slid = tuple(sizes[dim] for dim in windows), tuple(windows.values())
    match op:
        case Sliding() | ConvTranspose():
            groups, made, read = sizes.get("groups", 1), sizes["out_channels"], sizes["in_channels"]
            ends = (groups * made, read) if isinstance(op, Sliding) else (groups * read, made)
            read_sizes, made_sizes = (batch, groups * read, *rows), (batch, groups * made, *image)
            name = "conv" if isinstance(op, Sliding) else name
            weight = (*ends, *op.kernel)
            return LayerShard(op=name, dtype=dtype, inputs=(read_sizes,), weight=weight, output=made_sizes,
                              windows=slid, groups=groups)  # fmt: skip
        case Linear():
            made, read = sizes["out_channels"], sizes["in_channels"]
            return LayerShard(
                op=name, dtype=dtype, inputs=((batch, read),), weight=(made, read), output=(batch, made)
            )
        case Pool() | Upsample() | Crop():
            channels, name = sizes["channels"], name if isinstance(op, Crop) else op.mode
            inputs, output = ((batch, channels, *rows),), (batch, channels, *image)
            up = isinstance(op, Pool) and op.rounding == "up"
            return LayerShard(op=name, dtype=dtype, inputs=inputs, output=output, windows=slid, round_up=up)
        case Add() | Concat():
            each = tuple(
                (batch, *(-(-size // choice.degree(dim)) for dim, size in shape.items()))
                for shape in layer.input_shapes
            )
            channels = sum(shape[1] for shape in each) if isinstance(op, Concat) else each[0][1]
            return LayerShard(op=name, dtype=dtype, inputs=each, output=(batch, channels, *each[0][2:]))
    found = f"op {name!r} of layer {layer.name!r} cannot be measured"
    raise OptionError("profile", found, "conv, conv_transpose, linear, pool, upsample, crop, add, concat")


def _read(einsum: Einsum, choice: Choice, sizes: dict[str, int]) -> tuple[Sizes, dict[str, Window]]:
    """Return the input's rows along each dim that windows slide over, and those windows, padded unless cut."""
    rows, windows = [], dict(einsum.windows)
    for dim, window in einsum.windows.items():
        if choice.degree(dim) == 1:
            rows.append(einsum.input_sizes[dim])
        else:
            shards = bounds((choice.degree(dim),), einsum.sizes[dim], whole=True)
            low, high = window.reads(shards.low, shards.high)
            windows[dim] = replace(window, padding=0)
            rows.append(max(windows[dim].least_input(sizes[dim]), int((high - low).max())))
    return tuple(rows), windows


@dataclass(frozen=True, slots=True)
class TorchBench:
    """The bench for PyTorch, the package ``torch``, on the processor."""

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
        plain: dict[str, Callable[..., Any]] = {
            "linear": functions.linear,
            "add": lambda *read: reduce(operator.add, read),
            "concat": lambda *read: self.torch.cat(read, 1),
            "crop": lambda read: _centre(read, shard.output).clone(),
        }
        if shard.op in plain:
            return plain[shard.op]
        slid = _slid(functions, shard)
        transposed = any(isinstance(window, TransposedWindow) for window in shard.windows)
        return (lambda *read: _centre(slid(*read), shard.output)) if transposed else slid


def _slid(functions: Any, shard: LayerShard) -> Callable[..., Any]:
    """Return an op with windows as a function of its inputs."""
    fields = ("kernel", "stride", "padding", "dilation", "output_padding")
    kernel, stride, padding, dilation, added = (
        tuple(getattr(window, name, 0) for window in shard.windows) for name in fields
    )
    slide: dict[str, Any] = {"stride": stride, "padding": padding}
    match shard.op:
        case "conv":
            return partial(functions.conv2d, **slide, dilation=dilation, groups=shard.groups)
        case "conv_transpose":
            slide |= {"dilation": dilation, "output_padding": added}
            return partial(functions.conv_transpose2d, **slide, groups=shard.groups)
        case "nearest" | "bilinear":
            return partial(functions.interpolate, scale_factor=stride, mode=shard.op)
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
