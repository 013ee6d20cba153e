"""Bad input of unusual sizes and kinds, and files that cannot be read or written; most refusals are in tests/refusals."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hypar import HyparError, load_model, plan_model
from hypar.errors import DocumentError, InputError, ModelError
from hypar.files.text import MOST_BYTES, write
from hypar.files.validation import MOST_FAULTS
from hypar.files.yaml_file import parse_yaml
from hypar.machine.load import load_machine
from tests.kit import names, one_line, refused, run

pytestmark = pytest.mark.usefixtures("folder")

HEAD = "source: test\nbatch: 4\n"
IMAGE = "{op: input, channels: 3, height: 8, width: 8}"
HUGE = "1" + "0" * 400


def model(*layers: str, head: str = HEAD) -> str:
    """A model file with ``layers:`` on line 3 and layer ``i`` on line ``4 + i``."""
    return f"{head}layers:\n" + "".join(f"  - {layer}\n" for layer in layers)


@pytest.mark.parametrize(("text", "said"), [
    ("#" * (MOST_BYTES + 1), "bad.yaml: the file is too large; allowed: at most 67,108,864 bytes"),
    pytest.param("- a\n" * 200_001, "bad.yaml:1: too many values", marks=pytest.mark.slow),
    (f"source: a\nbatch: {'9' * 5000}\n", "cannot be read as int"),
    (f"source: a\nbatch: 0x{'f' * 5000}\n", "cannot be read as int"),
    (f"source: a\nbatch: {HUGE}\nlayers: []\n", "batch: found 1000"),
], ids=["bytes", "values", "digits", "hexadecimal digits", "batch"])  # fmt: skip
def test_a_model_file_of_unusual_size(text: str, said: str) -> None:
    Path("bad.yaml").write_text(text)
    assert said in run("plan", "bad.yaml").stderr


@pytest.mark.parametrize("option", ["--array {}", "--pin fc1=n{}"])
@pytest.mark.parametrize("number", [HUGE, "9" * 5000], ids=["1e400", "5000 nines"])
def test_an_option_of_unusual_size(option: str, number: str) -> None:
    assert "; allowed: " in refused("plan", "vgg16", "-o", "plan.json", *option.format(number).split())


def nested(depth: int, data: dict[str, Any]) -> dict[str, Any]:
    sides = [[{"group": f"{side}{n}", "received": 0, "computed": 0} for side in "ab"] for n in range(depth)]
    groups = ["all", *(f"a{n}" for n in range(depth))]
    first = {**data["splits"][0], "shares": [0.5, 0.5]}
    splits = [{**first, "level": n, "group": groups[n], "sides": sides[n]} for n in range(depth)]
    return {**data, "splits": splits}


def test_a_plan_file_of_unusual_size() -> None:
    plan = plan_model("lenet-c", levels=2).to_data()
    split = plan["splits"][0]
    deep = [split | {"level": level} for level in range(100)]
    uneven = plan_model("lenet-c", hardware="tpu-v2-v3", array=[2, 2], strategy="accpar", shares="linear")
    bad: list[tuple[Any, str]] = [
        (plan | {"schema": "x" * 10_000}, "bad.json: schema: found 'xxx"),
        (plan | {"model": plan["model"] | {"batch": 10**4000}}, "bad.json: found '1000"),
        (plan | {"array": [2] * 100, "splits": deep}, "; allowed: at most 1,048,576 devices"),
        (plan | {"array": [10**300] * 20, "splits": deep[:20]}, "; allowed: at most 1,048,576 devices"),
        (nested(100, uneven.to_data()), "splits[37].level: found 37; allowed: at most 36"),
    ]
    for data, said in bad:
        Path("bad.json").write_text(json.dumps(data))
        assert said in refused("show", "bad.json")
    Path("bad.json").write_text("[" * 100_000)
    assert refused("show", "bad.json").startswith("bad.json: nested too deeply")


def test_blocks_without_end_come_to_an_end() -> None:
    inner = "  b0: {layers: [{op: conv, out_channels: 3, kernel: 0}]}\n"
    blocks = [f"  b{n}: {{layers: [{{block: b{n - 1}, name: x, repeat: 1000}}]}}\n" for n in range(1, 30)]
    text = model(IMAGE, "{block: b29, name: y}", head=f"{HEAD}blocks:\n{inner}{''.join(blocks)}")
    Path("bad.yaml").write_text(text)
    (first,) = run("plan", "bad.yaml").stderr.splitlines()
    assert first.startswith("error: bad.yaml:4: blocks.b0.layers[0].kernel ")
    Path("bad.yaml").write_text(text.replace("kernel: 0", "kernel: 1"))
    (last,) = run("plan", "bad.yaml").stderr.splitlines()
    assert "too many layers, blocks expanded; allowed: at most 20,000" in last


def test_no_more_faults_of_a_model_than_a_screen_holds() -> None:
    Path("bad.yaml").write_text(model(IMAGE, *["{op: conv, out_channels: 0, kernel: 1}"] * 100))
    assert len(run("plan", "bad.yaml").stderr.splitlines()) == MOST_FAULTS


@pytest.mark.parametrize(("arguments", "part"), [
    (["nope"], "nope"),
    (["plan"], "MODEL"),
    (["plan", "vgg16", "sfc"], "sfc"),
    (["plan", "vgg16", "--nope"], "--nope"),
    (["plan", "vgg16", "--levels", "abc"], "'abc' is not a valid integer"),
    (["plan", "vgg16", "--inter-weight", "half"], "'half' is not a valid float"),
    (["plan", "vgg16", "-o", "sub"], "'sub' is a directory"),
    (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    (["diff", "a.json"], "AFTER"),
    (["export", "p.json"], "Missing option '-o' / '--output'"),
    (["explore", "lenet-c"], "Missing option '--vary'"),
    (["plan", "lenet-c", "--fit"], "--fit needs --hardware"),
    (["compare", "lenet-c", "--fit"], "--fit needs --hardware"),
    (["sweep", "lenet-c", "--hardware", "hmc", "--csv", "--json"], "--csv and --json exclude each other"),
    (["score", "p.json", "--picture", "a.svg", "--plot", "a.svg"],
        "two of --plot, --trace and --picture name one file"),
    (["pln", "vgg16"], "no command 'pln'; allowed: check, compare, "),
    (["pln", "sfc"], "did you mean 'plan'?"),
    (["qqq", "vgg16"], "strategies, sweep, verify"),
], ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "")  # fmt: skip
def test_a_usage_error(arguments: list[str], part: str) -> None:
    Path("sub").mkdir()
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr
    assert part in result.stderr.splitlines()[-1]
    assert names() == ["sub"]


def test_plans_of_different_costs_are_not_compared() -> None:
    for name, cost in (("a.json", "volume"), ("b.json", "time")):
        plan_model("lenet-c", levels=2, cost=cost, hardware="hmc").write(name)
    assert refused("diff", "a.json", "b.json").endswith(
        "cost: the plans differ: volume in bytes (inter_weight) and time in seconds (no parameters)"
        "; allowed: plans of one cost; hypar score compares their steps on a machine"
    )


def test_a_loaded_machine_is_not_changed_again() -> None:
    with pytest.raises(InputError, match="found a loaded machine"):
        load_machine(load_machine("tpu-v2-v3"), {"duplex": "half"})


@pytest.mark.parametrize(("command", "text", "said"), [
    ("plan bad.yaml", "source: " + "[" * 100_000, "bad.yaml:1: nested too deeply; allowed: 64"),
    ("show bad.yaml", "{", "bad.yaml:1: not JSON"),
    pytest.param("plan bad.yaml", "- " * 100_000, "bad.yaml:1: nested too deeply", marks=pytest.mark.slow),
], ids=["brackets", "JSON", "lists"])  # fmt: skip
def test_the_program_prints_one_line(command: str, text: str, said: str) -> None:
    """In a process of its own: what PyYAML does with deep nesting would end this one."""
    Path("bad.yaml").write_text(text)
    words = [sys.executable, "-m", "hypar", *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (3, "")
    assert one_line(done.stderr).startswith(said)


def test_a_pipe_is_read_but_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``/dev/zero`` would be: a file whose size nobody knows."""
    monkeypatch.setattr("hypar.files.text.MOST_BYTES", 10)
    reader, writer = os.pipe()
    os.write(writer, b"#" * 100)
    os.close(writer)
    with pytest.raises(DocumentError, match="the file is too large; allowed: at most 10 bytes"):
        load_model(Path(f"/dev/fd/{reader}"))
    os.close(reader)


@pytest.mark.parametrize("text", ["source: \ud800", "source: a\nbatch: \x07"])
def test_text_that_no_file_can_hold(text: str) -> None:
    line = text.count("\n") + 1
    with pytest.raises(DocumentError, match=rf"^a\.yaml:{line}: found the character U\+[0-9A-F]{{4}}"):
        parse_yaml(text, Path("a.yaml"))


def test_an_error_has_its_parts() -> None:
    Path("bad.yaml").write_text(model(IMAGE, "{op: conv, out_channels: 0, kernel: 3}"))
    with pytest.raises(ModelError) as caught:
        load_model(Path("bad.yaml"))
    error = caught.value
    assert isinstance(error, InputError)
    assert isinstance(error, HyparError)
    assert (error.where, error.found) == ("bad.yaml:5: layers[1].out_channels 'conv1'", "found 0")
    assert (error.allowed, error.hint) == ("at least 1", "")
    assert str(error) == f"{error.where}: found 0; allowed: at least 1"


class TestWritingAFile:
    @pytest.mark.parametrize(("file", "text", "reason"), [
        ("missing/p.json", "new", "No such file or directory"),
        ("sub", "new", "directory"),
        ("a\0b", "new", "null byte"),
    ])  # fmt: skip
    def test_a_failure_leaves_nothing_behind(self, file: str, text: str, reason: str) -> None:
        Path("sub").mkdir()
        Path("p.json").write_text("old")
        with pytest.raises(DocumentError, match=f"cannot be written: .*{reason}"):
            write(Path(file), text)
        assert names() == ["p.json", "sub"]
        assert Path("p.json").read_text() == "old"
