"""Measurement of profiles: one device's time for each layer's shard under each choice of a level."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.activity import tell
from hypar.errors import OptionError, ProfileError
from hypar.machine.profiles import Profile, ProfiledModel
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.planning.checks.words import space_text
from hypar.planning.strategies.base import load_strategy
from hypar.sharding.dims import grid_word
from hypar.sharding.placement import WHOLE
from hypar.sharding.space import parse_space
from hypar.sharding.tree import MOST_DEVICES
from hypar.studies.profiling.shards import LayerShard, shard_of
from hypar.studies.profiling.torch_bench import Bench, load_bench
from hypar.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

MOST_REPEATS = 1000


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

    A time covers the forward, backward and gradient phases of the fullest device's shard, measured once for all
    equal shards. Biases, updates, and the ops between layers are left out.

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
    _require_whole("ways", ways, 2, MOST_DEVICES)
    _require_whole("repeats", repeats, 1, MOST_REPEATS)
    shards = shards_of(network, load_strategy("deepa").space if space is None else space_text(space), ways)
    bench = load_bench() if bench is None else bench
    times = _measured(shards, bench, repeats, progress)
    return Profile(
        model=ProfiledModel(name=network.name, digest=network.digest, batch=network.batch),
        device=bench.device,
        ways=ways,
        seconds={
            layer: {word: times[shard] for word, shard in by_choice.items()}
            for layer, by_choice in shards.items()
        },
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
    _require_fits(largest[0], bench, places[largest[0]])
    times = dict.fromkeys(largest, math.inf)
    for done, shard in enumerate(largest * repeats):
        progress(done, len(largest) * repeats)
        tell(places[shard].replace("profile:", "measuring"))
        times[shard] = min(times[shard], _seconds(shard, bench, places[shard]))
    progress(len(largest) * repeats, len(largest) * repeats)
    return {shard: float(f"{seconds:.4g}") for shard, seconds in times.items()}


def _seconds(shard: LayerShard, bench: Bench, where: str) -> float:
    """Measure once, or raise one line with the reason of the failure."""
    try:
        return bench.seconds(shard)
    except (MemoryError, RuntimeError) as error:
        said = next(iter(str(error).splitlines()), "out of memory")
        raise ProfileError(where, said, hint="try a smaller batch") from error


def _require_fits(shard: LayerShard, bench: Bench, where: str) -> None:
    if bench.memory_bytes is not None and shard.num_bytes > bench.memory_bytes:
        found = f"tensors and gradients of {format_bytes(shard.num_bytes)}"
        allowed = f"the memory's {format_bytes(bench.memory_bytes)}"
        raise ProfileError(where, found, allowed, "try a smaller batch")


def _require_whole(name: str, number: int, least: int, most: int) -> None:
    """Refuse a number that is not whole, or out of its range.

    Raises:
        OptionError: it is refused.
    """
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise OptionError(name, f"found {number!r}", f"a whole number from {least} to {most:,}")
