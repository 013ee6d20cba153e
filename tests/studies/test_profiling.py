"""Every choice that a plan may ask for is measured, equal pieces once."""

import itertools
import sys
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hypar import load_model, plan_model, profile_model, read_profile
from hypar.activity import COUNTER, holding
from hypar.cli.main import main
from hypar.errors import InputError, OptionError, ProfileError
from hypar.network.graph import LayerGraph
from hypar.network.layer import Layer
from hypar.network.nodes import PlanNode
from hypar.ops.base import Op, Shape, Sliding
from hypar.ops.families.layout import Concat
from hypar.ops.windows import Window
from hypar.planning.strategies.base import load_strategy
from hypar.sharding.dims import grid_word
from hypar.sharding.placement import ALONE, WHOLE, Choice
from hypar.sharding.space import parse_space
from hypar.studies import profile as module
from hypar.studies.profile import LayerShard, TorchBench, least_seconds, shard_of, shards_of
from tests.benches import FakeBench, lenet_profile
from tests.effort import crossed, late
from tests.kit import known

SPACE = load_strategy("deepa").space


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    fake = FakeBench()
    monkeypatch.setattr(module, "TorchBench", lambda: fake)
    return fake


@pytest.mark.parametrize("model", late(["lenet-c", "googlenet", "resnet18"], "googlenet"))
@pytest.mark.parametrize("space", [SPACE, "batch,in_channels"])
def test_every_choice_and_the_whole_layer_has_its_time(model: str, space: str) -> None:
    graph = load_model(model, batch=16)
    profile = profile_model(graph, ways=16, space=space, repeats=1, bench=FakeBench())
    assert list(profile.seconds) == [layer.name for layer in graph.operators.layers]
    for layer in graph.operators.layers:
        choices = parse_space(space).choices(layer, 16, idle=True)
        assert all(profile.of(layer.name, dict(choice.degrees)) > 0 for choice in choices)
        words = dict.fromkeys(grid_word(dict(choice.degrees)) for choice in choices)
        assert list(profile.seconds[layer.name]) == list(words | {"n1 c1": None})
        assert profile.of(layer.name, {}) == max(profile.seconds[layer.name].values())


def test_equal_pieces_are_measured_once_a_round() -> None:
    graph = load_model("resnet18", batch=16)
    shards = shards_of(graph, SPACE, 16)
    every = [shard for by_choice in shards.values() for shard in by_choice.values()]
    bench = FakeBench()
    profile_model(graph, ways=16, repeats=2, bench=bench)
    half = len(bench.asked) // 2
    assert bench.asked[:half] == bench.asked[half:]
    assert len(set(bench.asked)) == half == len(set(every)) < 0.6 * len(every)
    tables = {id(layer.nest): shards[layer.name] for layer in graph.operators.layers}
    assert all(shards[layer.name] == tables[id(layer.nest)] for layer in graph.operators.layers)
    assert len(tables) < len(shards)


def test_of_several_rounds_the_least_counts() -> None:
    slow = profile_model("lenet-c", ways=2, repeats=1, bench=FakeBench(delays=(2.0, 1.0, 3.0)))
    best = profile_model("lenet-c", ways=2, repeats=3, bench=FakeBench(delays=(2.0, 1.0, 3.0)))
    none = profile_model("lenet-c", ways=2, repeats=1, bench=FakeBench())
    for layer, word in [("conv1", "n2 c1"), ("fc1", "n1 c1")]:
        times = [profile.seconds[layer][word] for profile in (slow, best, none)]
        assert times[0] > times[1] > times[2]


def test_progress_counts_to_the_end() -> None:
    told: list[tuple[int, int]] = []
    with holding(COUNTER, lambda done, of: told.append((done, of))):
        profile_model("sfc", ways=2, bench=FakeBench())
    assert [done for done, _ in told] == list(range(told[0][1] + 1))
    assert len({of for _, of in told}) == 1


@pytest.mark.parametrize(("asked", "found"), [
    ({"ways": 1}, "ways: found 1; allowed: a whole number from 2 to 1,048,576"),
    ({"ways": True}, "ways: found True; "),
    ({"ways": 2**21}, "ways: found 2097152; "),
    ({"repeats": 0}, "repeats: found 0; allowed: a whole number from 1 to 1,000"),
    ({"batch": 0}, "batch: found 0; "),
    ({"space": "nonsense"}, "space 'nonsense': found 'nonsense'; "),
    ({"model": "lenet"}, "no model 'lenet'; "),
])  # fmt: skip
def test_what_cannot_be_measured_is_refused(asked: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError) as caught:
        profile_model(**{"model": "lenet-c", "bench": FakeBench(), **asked})
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_piece_larger_than_the_memory_is_refused_before_any_is_measured() -> None:
    bench = FakeBench(memory_bytes=2**20)
    with pytest.raises(ProfileError) as caught:
        profile_model("lenet-c", ways=4, bench=bench)
    line = "profile: pool1, n1 c1: tensors and gradients of 29.5 MB; allowed: the memory's 1.05 MB; try a smaller batch"
    assert str(caught.value) == line
    assert not bench.asked


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("you tried to allocate 9 bytes\nframe #0: c10"), "you tried to allocate 9 bytes"),
        (MemoryError(), "out of memory"),
    ],
)
def test_a_piece_that_fails_is_named(error: Exception, said: str) -> None:
    class Failing(FakeBench):
        def seconds(self, shard: LayerShard) -> float:
            raise error

    with pytest.raises(ProfileError) as caught:
        profile_model("lenet-c", ways=4, bench=Failing())
    assert str(caught.value) == f"profile: pool1, n1 c1: {said}; try a smaller batch"


# Command line


def test_the_command_prints_a_table_and_writes_the_file(bench: FakeBench, tmp_path: Path) -> None:
    file = tmp_path / "lenet.json"
    asked = ["profile", "lenet-c", "--batch", "32", "--ways", "4", "--repeats", "1"]
    result = CliRunner().invoke(main, [*asked, "-o", str(file)])
    assert result.exit_code == 0, result.stderr
    assert result.stderr == f"wrote {file}\n"
    lines = result.stdout.splitlines()
    assert lines[0] == "lenet-c, batch 32, one level of 4 ways, on a fake"
    assert "\nfc2          6  " in result.stdout
    assert read_profile(file).seconds == lenet_profile().seconds
    assert (
        file.read_text() == CliRunner().invoke(main, [*asked, "--json"]).stdout == lenet_profile().to_json()
    )


def test_the_command_says_that_torch_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    file = tmp_path / "lenet.json"
    result = CliRunner().invoke(main, ["profile", "lenet-c", "--ways", "2", "-o", str(file)])
    line = "error: profile: torch is not installed; pip install '.[profile]' in a clone of hypar\n"
    assert (result.exit_code, result.stdout, result.stderr) == (3, "", line)
    assert not file.exists()


# With PyTorch


def test_a_measured_profile_plans_in_both_modes(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    file = tmp_path / "lenet.json"
    asked: dict[str, Any] = {"model": "lenet-c", "batch": 32, "space": "batch,out_channels"}
    profile, fake = (profile_model(ways=4, repeats=1, bench=bench, **asked) for bench in (None, FakeBench()))
    assert {layer: list(times) for layer, times in profile.seconds.items()} == {
        layer: list(times) for layer, times in fake.seconds.items()
    }
    profile.write(file)
    for mode in ("exact", "serial"):
        plan = plan_model(array=[4], strategy="deepa", hardware="h100-8x", mode=mode, profile=file, **asked)
        assert plan.cost.value > 0
        assert known(plan.profile).digest == profile.digest


def test_torch_refuses_what_does_not_fit() -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    with pytest.raises(ProfileError, match="try a smaller batch"):
        profile_model("vgg16", batch=2**20, ways=2)


# The piece of a layer is the largest of all pieces, looked at one by one


ENLARGED = Path(__file__).with_name("enlarged.yaml")
"""Windows of every kind that make an image larger, in groups and out of step with the shards too."""

SPACES = ["batch*out_channels*height*width", "all", "batch,in_channels,out_channels,height"]


def most(size: int, degree: int) -> int:
    return max(size * (part + 1) // degree - size * part // degree for part in range(degree))


@lru_cache
def reach(window: Window, size: int, degree: int) -> int:
    """Input elements between the first and the last that a part reads, of the part that reads most.

    A transposed window reads as many at least as it makes the part's outputs of.
    """
    found = []
    for part in range(degree):
        rows = range(size * part // degree, size * (part + 1) // degree)
        taps = [one for row in rows for one in read_at(window, row)]
        found.append(max(taps) - min(taps) + 1 if taps else 0)
    if window.transposed:
        alone, most_rows = replace(window, padding=0), most(size, degree)
        return next(n for n in itertools.count(max(1, *found)) if alone.output_size(n) >= most_rows)
    return max(found)


def read_at(window: Window, row: int) -> list[int]:
    """The input elements that an output reads, past the ends of the image too."""
    if not window.transposed:
        return [row * window.stride + tap * window.dilation for tap in range(window.kernel)]
    near = row // window.stride
    around = range(near - window.extent - 2, near + window.padding + 2)
    taps = range(window.extent)
    return [one for one in around if row - one * window.stride + window.padding in taps]


def expected(layer: Layer, node: PlanNode, choice: Choice) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    nest = node.nest
    own = {dim: most(size, choice.degree(dim)) for dim, size in nest.sizes.items()}
    rows = [
        nest.input_sizes[dim]
        if choice.degree(dim) == 1
        else reach(window, nest.sizes[dim], choice.degree(dim))
        for dim, window in nest.windows.items()
    ]
    image = [own[dim] for dim in ("height", "width") if dim in own]
    groups = own.get("groups", 1)
    if node.weighted:
        made, read = own["out_channels"] * groups, own["in_channels"] * groups
        return [(own["batch"], read, *rows)], (own["batch"], made, *image)
    if isinstance(layer.op, Sliding):
        return [(own["batch"], own["channels"], *rows)], (own["batch"], own["channels"], *image)
    channels = [most(shape["channels"], choice.degree("channels")) for shape in layer.input_shapes]
    total = sum(channels) if isinstance(layer.op, Concat) else channels[0]
    return [(own["batch"], each, *image) for each in channels], (own["batch"], total, *image)


def nodes(graph: LayerGraph) -> list[tuple[Layer, PlanNode]]:
    layers = {layer.name: layer for layer in graph.layers}
    return [(layers[node.name], node) for node in graph.operators.layers]


@crossed(
    {
        "model": ["lenet-c", "alexnet-2012", "resnet18", "googlenet", "unet", "mobilenet-v2", ENLARGED],
        "space": SPACES,
    }
)
def test_sizes_are_those_of_the_fullest_device(model: str, space: str) -> None:
    graph = load_model(model, batch=24)
    for layer, node in nodes(graph):
        for choice in (*parse_space(space).choices(node, 8, idle=True), WHOLE):
            shard = shard_of(layer, node.nest, choice, graph.dtype)
            inputs, output = expected(layer, node, choice)
            assert (list(shard.inputs), shard.output) == (inputs, output), (layer.name, choice)


def shard(model: str, name: str, choice: Choice) -> LayerShard:
    graph = load_model(model, batch=64)
    layer, node = next(pair for pair in nodes(graph) if pair[0].name == name)
    return shard_of(layer, node.nest, choice, graph.dtype)


def test_bytes_are_of_all_tensors_and_their_gradients() -> None:
    found = shard("lenet-c", "fc1", ALONE)
    assert found.num_bytes == 2 * 4 * (64 * 800 + 800 * 500 + 64 * 500)
    assert shard("lenet-c", "pool2", ALONE).num_bytes == 2 * 4 * 64 * 50 * (8 * 8 + 4 * 4)


def test_an_op_of_another_package_cannot_be_measured() -> None:
    class Mix(Op):
        pass

    shape: Shape = {"channels": 4}
    layer = Layer(name="m", op_name="mix", op=Mix(), inputs=("x",), input_shapes=(shape,), shape=shape)
    with pytest.raises(OptionError, match="op 'mix' of layer 'm' cannot be measured; allowed: conv, "):
        shard_of(layer, layer.nest(4), WHOLE, "float32")


def test_a_convolution_along_a_row_is_one_of_an_image_of_one_row() -> None:
    row = {"op": "input", "channels": 8, "height": 1, "width": 12}
    conv = {"name": "c", "op": "conv1d", "out_channels": 4, "kernel": 3}
    graph = load_model({"source": "made up", "batch": 2, "layers": [row, conv]})
    layer, node = nodes(graph)[0]
    found = shard_of(layer, node.nest, ALONE, graph.dtype)
    assert (found.op, found.inputs, found.output) == ("conv", ((2, 8, 1, 12),), (2, 4, 1, 10))


# PyTorch runs what a piece says; without it one line says so


def test_the_first_run_warms_up_and_the_fastest_counts() -> None:
    runs: list[str] = []
    times = iter([0.0, 0.9, 1.0, 1.2, 2.0, 2.7])
    assert least_seconds(lambda: runs.append("run"), lambda: next(times)) == 0.9
    assert len(runs) == 2


@pytest.mark.parametrize("model", late(
    ["lenet-c", "alexnet-2012", "googlenet", "resnet18", "unet", "mobilenet-v2", ENLARGED],
    "googlenet",
    "mobilenet-v2",
), ids=str)  # fmt: skip
def test_torch_makes_the_output_that_a_piece_says(torch: Any, model: str | Path) -> None:
    bench = TorchBench()
    by_layer = shards_of(load_model(model, batch=8), "all", 8).values()
    for shard in {shard for by_choice in by_layer for shard in by_choice.values()}:
        shapes = [*shard.inputs, *filter(None, [shard.weight])]
        read = [torch.empty(shape, device="meta") for shape in shapes]
        assert tuple(bench.forward(shard)(*read).shape) == shard.output, shard


@cache
def pieces() -> dict[str, LayerShard]:
    """The smallest piece of each op of some networks."""
    found: dict[str, LayerShard] = {}
    for model in ("lenet-c", "resnet18", "googlenet", "unet", ENLARGED):
        for by_choice in shards_of(load_model(model, batch=2), "all", 8).values():
            for own in by_choice.values():
                found[own.op] = min(found.get(own.op, own), own, key=lambda each: each.num_bytes)
    return found


OPS = ["conv", "linear", "max", "average", "conv_transpose", "nearest", "bilinear", "crop", "add", "concat"]


@pytest.mark.parametrize("op", OPS)
def test_all_phases_of_every_op_run(torch: Any, op: str) -> None:
    shard = replace(pieces()[op], dtype="float64")
    gradients: Any = TorchBench().step(shard)()
    shapes = [*shard.inputs, *filter(None, [shard.weight])]
    assert [tuple(gradient.shape) for gradient in gradients] == shapes
    assert TorchBench().seconds(shard) > 0


def test_measuring_leaves_the_random_numbers_of_others_alone(torch: Any) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    TorchBench().seconds(pieces()["linear"])
    assert torch.equal(before, torch.get_rng_state())
