"""Every choice that a plan may ask for is measured, equal pieces once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from hypar import load_model, plan_model, profile_model, read_profile
from hypar.activity import COUNTER, holding
from hypar.cli.main import main
from hypar.errors import InputError, ProfileError
from hypar.planning.strategies.base import load_strategy
from hypar.sharding.dims import grid_word
from hypar.sharding.space import parse_space
from hypar.studies import profile as module
from hypar.studies.profile import shards_of
from tests.benches import FakeBench, lenet_profile
from tests.effort import late

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.studies.profile import LayerShard

SPACE = load_strategy("deepa").space


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    """A fake in place of PyTorch."""
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


def test_the_largest_piece_is_measured_first() -> None:
    bench = FakeBench()
    profile_model("lenet-c", ways=4, repeats=1, bench=bench)
    sizes = [shard.num_bytes for shard in bench.asked]
    assert sizes == sorted(sizes, reverse=True)


def test_a_profile_says_what_was_measured() -> None:
    profile = lenet_profile()
    assert (profile.model.name, profile.model.batch, profile.ways) == ("lenet-c", 32, 4)
    assert profile.model.digest == load_model("lenet-c").digest
    assert (profile.device, profile.name) == ("a fake", "profile")
    assert profile == lenet_profile()
    assert profile.to_json() == lenet_profile().to_json()


def test_progress_counts_to_the_end() -> None:
    told: list[tuple[int, int]] = []
    with holding(COUNTER, lambda done, of: told.append((done, of))):
        profile_model("sfc", ways=2, bench=FakeBench())
    assert [done for done, _ in told] == list(range(told[0][1] + 1))
    assert len({of for _, of in told}) == 1


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"ways": 1}, "ways: found 1; allowed: a whole number from 2 to 1,048,576"),
        ({"ways": True}, "ways: found True; "),
        ({"ways": 2**21}, "ways: found 2097152; "),
        ({"repeats": 0}, "repeats: found 0; allowed: a whole number from 1 to 1,000"),
        ({"batch": 0}, "batch: found 0; "),
        ({"space": "nonsense"}, "space 'nonsense': found 'nonsense'; "),
        ({"model": "lenet"}, "no model 'lenet'; "),
    ],
)
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


def test_a_file_that_cannot_be_written_is_refused_first(bench: FakeBench, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["profile", "lenet-c", "-o", str(tmp_path / "none" / "p.json")])
    assert result.exit_code == 3
    assert "cannot be written" in result.stderr
    assert not bench.asked


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
        assert plan.profile is not None
        assert plan.profile.digest == profile.digest


def test_torch_refuses_what_does_not_fit() -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    with pytest.raises(ProfileError, match="try a smaller batch"):
        profile_model("vgg16", batch=2**20, ways=2)
