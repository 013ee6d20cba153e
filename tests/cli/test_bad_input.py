"""Bad input gets one line that says where, what was found and what is allowed, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hypar import HyparError, load_model, plan_model, read_plan
from hypar.cli.main import main
from hypar.errors import DocumentError, InputError, ModelError
from hypar.files.text import MOST_BYTES, write_text
from hypar.files.validation import MOST_FAULTS
from hypar.files.yaml_file import parse_yaml
from tests.effort import late

Where = tuple[str | int, ...]

IMAGE = "{op: input, channels: 3, height: 8, width: 8}"
VECTOR = "{op: input, channels: 8}"
CONV = "{name: conv1, op: conv, out_channels: 4, kernel: 3}"
FC = "{name: fc1, op: linear, out_features: 8}"
SAME = "{name: c, op: conv, out_channels: $n, kernel: 1}"
USE = "{block: res, name: a, with: {n: 3}}"
HEAD = "source: test\nbatch: 4\n"
HUGE = "1" + "0" * 400
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
DELETED = object()


def model(*layers: str, head: str = HEAD) -> str:
    """A model file with ``layers:`` on line 3 and layer ``i`` on line ``4 + i``."""
    return f"{head}layers:\n" + "".join(f"  - {layer}\n" for layer in layers)


def with_block(*layers: str, body: str = SAME, parameters: str = "n") -> str:
    """A model file with a block whose layer is on line 7; layer ``i`` on line ``9 + i``, the input first."""
    block = f"blocks:\n  res:\n    parameters: [{parameters}]\n    layers:\n      - {body}\n"
    return model(IMAGE, *layers, head=HEAD + block)


def chain_of_blocks(count: int, repeat: int = 1) -> str:
    """Blocks that use each other, one line each from line 4 on."""
    blocks = ["  b0: {layers: [{op: conv, out_channels: 3, kernel: 1}]}\n"]
    blocks += [
        f"  b{n}: {{layers: [{{block: b{n - 1}, name: x, repeat: {repeat}}}]}}\n" for n in range(1, count)
    ]
    return model(IMAGE, f"{{block: b{count - 1}, name: y}}", head=f"{HEAD}blocks:\n{''.join(blocks)}")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names() -> list[str]:
    return sorted(str(file) for file in Path().rglob("*"))


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, arguments)
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


def assert_refused(arguments: list[str], parts: tuple[str, ...], status: int = 3) -> None:
    """One line with these parts on stderr, an exit status, nothing on stdout, no file written or changed."""
    before = {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()}
    result = run(*arguments)
    assert_one_line(result.exit_code, result.stdout, result.stderr, parts, status)
    assert before == {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()}


def assert_one_line(found: int, stdout: str, stderr: str, parts: tuple[str, ...], status: int = 3) -> None:
    assert (found, stdout) == (status, "")
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1
    assert len(stderr) < 1000
    for part in parts:
        assert part in stderr


NOT_DOCUMENTS: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "empty": ("", ("bad.yaml: the file is empty",)),
    "only comments": ("# one\n\n# two\n", ("bad.yaml: the file is empty",)),
    "tab": ("source: a\n\tbatch: 4\n", ("bad.yaml:2: not YAML", "tab")),
    "unclosed bracket": (
        model(IMAGE, "{op: conv, kernel: [3, 3}"),
        ("bad.yaml:5: not YAML", "sequence", "']'"),
    ),
    "two documents": ("source: a\n---\nbatch: 4\n", ("bad.yaml:2: not YAML", "another document")),
    "undefined alias": ("source: *a\n", ("bad.yaml:1: not YAML", "undefined alias")),
    "unknown tag": ("source: !!python/name:os.system x\n", ("bad.yaml:1: not YAML", "tag")),
    "binary": (b"\x00\x01\xfe\xff", ("bad.yaml:1: found byte 0xfe; allowed: UTF-8 text",)),
    "Latin-1": (
        b"# \xc3\xa9\nsource: caf\xe9\n",
        ("bad.yaml:2: found byte 0xe9; allowed: UTF-8 text",),
    ),
    "UTF-16": ("source: a\n".encode("utf-16"), ("bad.yaml:1: found byte 0xff; allowed: UTF-8 text",)),
    "control character": (
        "source: a\nbatch: \0\n",
        ("bad.yaml:2: found the character U+0000; allowed: YAML text",),
    ),
    "alias bomb": (BOMB, ("bad.yaml:1: too many values", "allowed: at most 200,000")),
    "too many values": (
        "- a\n" * 200_001,
        ("bad.yaml:1: too many values", "allowed: at most 200,000"),
    ),
    "too many bytes": (b"#" * (MOST_BYTES + 1), ("bad.yaml: the file is too large", "67,108,864 bytes")),
    "alias in its own list": ("source: &a [*a]\n", ("bad.yaml:1: an alias inside its own anchor",)),
    "alias in its own mapping": (
        "b: 1\na: &a {b: {c: *a}}\n",
        ("bad.yaml:2: an alias inside its own anchor",),
    ),
    "deep by aliases": (
        f"a: &a {'[' * 40}{']' * 40}\nb: {'[' * 40}*a{']' * 40}\n",
        ("bad.yaml:1: nested too deeply; allowed: 64",),
    ),
    "deep mappings": ("{a: " * 100 + "}" * 100, ("bad.yaml:1: nested too deeply; allowed: 64",)),
    "key twice": (
        model(IMAGE, "{op: conv, kernel: 3,\n     kernel: 5}"),
        ("bad.yaml:6: key 'kernel' given twice; allowed: once",),
    ),
    "top-level key twice": (f"{HEAD}batch: 4\n", ("bad.yaml:3: key 'batch' given twice",)),
    "key that is a list": ("[a]: 1\n", ("bad.yaml:1", "a key that is a list or a mapping; allowed: a word")),
    "key with an escape sequence": (
        model(IMAGE, CONV) + '"\\e[31m\\n": 1\n',
        ("bad.yaml:6: ['\\x1b[31m\\n']: unknown key '\\x1b[31m\\n'",),
    ),
    "no such day": ("source: 2020-13-45\n", ("bad.yaml:1: source: found '2020-13-45'", "timestamp")),
    "no such number": ("batch: !!int four\n", ("bad.yaml:1: batch: found 'four', which", "as int")),
    "tagged nothing": ("source: !!float ''\n", ("bad.yaml:1: source: found '', which", "as float")),
    "tagged no truth": (
        "source: !!bool perhaps\n",
        ("bad.yaml:1: source: found 'perhaps', which", "as bool"),
    ),
    "tagged no time": ("- !!timestamp soon\n", ("bad.yaml:1: [0]: found 'soon', which", "as timestamp")),
    "number of 5000 digits": (
        model(IMAGE, CONV, head=f"source: a\nbatch: {'9' * 5000}\n"),
        ("bad.yaml:2: batch: found '999", "as int; allowed: at most 3,000 digits"),
    ),
    "hexadecimal of 5000 digits": (
        f"source: a\nbatch: 0x{'f' * 5000}\n",
        ("bad.yaml:2: batch: found '0xfff", "as int; allowed: at most 3,000 digits"),
    ),
}

NOT_MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "list": ("- a\n", ("bad.yaml:1: found ['a']; allowed: a mapping with layers",)),
    "text": ("hello\n", ("bad.yaml:1: found 'hello'; allowed: a mapping with layers",)),
    "null": ("null\n", ("bad.yaml:1: found nothing; allowed: a mapping with layers",)),
    "unknown key": (
        model(IMAGE, CONV, head="source: a\nbacth: 4\n"),
        ("bad.yaml:2: bacth: unknown key 'bacth'; allowed: source, batch, dtype", "did you mean 'batch'?"),
    ),
    "unknown key of a block": (
        model(IMAGE, head=f"{HEAD}blocks:\n  layers:\n    layrs: []\n"),
        ("bad.yaml:5: blocks.layers.layrs: unknown key", "allowed: parameters, layers", "mean 'layers'?"),
    ),
    "no source": (model(IMAGE, head="batch: 4\n"), ("bad.yaml:1: source: 'source' is missing",)),
    "no layers": (HEAD, ("bad.yaml:1: layers: 'layers' is missing",)),
    "null layers": (f"{HEAD}layers:\n", ("bad.yaml:3: layers: found nothing; allowed: a list",)),
    "empty layers": (f"{HEAD}layers: []\n", ("bad.yaml:3: layers: found []; allowed: at least 1",)),
    "layers by name": (f"{HEAD}layers: {{a: b}}\n", ("bad.yaml:3: layers: found {'a': 'b'}; allowed: a list",)),
    "layer that is a word": (model(IMAGE, "conv"), ("bad.yaml:5: layers[1]: found 'conv'; allowed: a mapping",)),
    "number format": (
        model(IMAGE, CONV, head=f"{HEAD}dtype: float31\n"),
        ("bad.yaml:3: dtype: found 'float31'; allowed: 'float64', 'float32'", "did you mean 'float32'?"),
    ),
    "merge key": (f"{model(IMAGE, CONV)}<<: {{b: 1}}\n", ("bad.yaml:6: ['<<']: unknown key '<<'",)),
}  # fmt: skip

NOT_LAYERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "unknown field": (
        model(IMAGE, "{op: conv,\n     out_channels: 4,\n     kernal: 3}"),
        ("bad.yaml:7: layers[1].kernal 'conv1': unknown key 'kernal'; allowed: op,", "did you mean 'kernel'?"),
    ),
    "field of another op": (
        model(IMAGE, CONV, "{op: relu, kernel: 3}"),
        ("bad.yaml:6: layers[2].kernel 'relu1': unknown key 'kernel'; allowed: op, name, inputs\n",),
    ),
    "missing field": (
        model(IMAGE, "{name: c, op: conv, kernel: 3}"),
        ("bad.yaml:5: layers[1].out_channels 'c': 'out_channels' is missing",),
    ),
    "no op": (model(IMAGE, "{kernel: 3}"), ("bad.yaml:5: layers[1].op: 'op' is missing",)),
    "unknown op": (
        model(IMAGE, "{op: convv, kernel: 3}"),
        ("bad.yaml:5: layers[1].op: no op 'convv'; allowed: add,", "did you mean 'conv'?"),
    ),
    "op that is no plug-in": (model(IMAGE, "{op: __init__}"), ("bad.yaml:5: layers[1].op: no op '__init__'",)),
    "op that is a number": (model(IMAGE, "{op: 3}"), ("bad.yaml:5: layers[1].op: found 3; allowed: a text",)),
    "name with a space": (
        model(IMAGE, "{name: a b, op: relu}"),
        ("bad.yaml:5: layers[1].name: found 'a b'; allowed: a name of letters, digits, _ and -",),
    ),
    "long name": (
        model(IMAGE, f"{{name: {'a' * 101}, op: relu}}"),
        ("bad.yaml:5: layers[1].name: found 'aaa", "aaa'; allowed: a name of", "at most 100"),
    ),
    "name twice": (
        model(IMAGE, CONV, CONV),
        ("bad.yaml:6: layers[2]: name 'conv1' given twice; allowed: each name once",),
    ),
    "misspelt input": (
        model(IMAGE, CONV, "{name: r, op: relu, inputs: conv}"),
        ("bad.yaml:6: layers[2].inputs: no layer 'conv'; allowed: input, conv1, r; did you mean 'conv1'?",),
    ),
    "input that is a number": (
        model(IMAGE, CONV, "{op: add, inputs: [conv1, 3]}"),
        ("bad.yaml:6: layers[2].inputs[1]: found 3; allowed: a text",),
    ),
    "long input": (
        model(IMAGE, f"{{op: relu, inputs: {'a' * 201}}}"),
        ("bad.yaml:5: layers[1].inputs: found 'aaa", "allowed: at most 200 characters"),
    ),
    "cycle": (
        model(IMAGE, "{name: a, op: relu, inputs: b}", "{name: b, op: relu, inputs: a}"),
        ("bad.yaml:5: layers[1] 'a': a cycle: a -> b -> a",),
    ),
    "layer that reads itself": (
        model(IMAGE, "{name: a, op: relu, inputs: a}"),
        ("bad.yaml:5: layers[1] 'a': a cycle: a -> a",),
    ),
    "output that nothing reads": (
        model(IMAGE, CONV, "{name: conv2, op: conv, out_channels: 4, kernel: 3, inputs: input}"),
        ("bad.yaml:5: layers[1] 'conv1': nothing reads its output",),
    ),
    "two outputs": (
        model(IMAGE, CONV, "{name: conv2, op: conv, out_channels: 4, kernel: 3}",
              "{name: conv3, op: conv, out_channels: 4, kernel: 3, inputs: conv1}"),
        ("bad.yaml:6: layers[2] 'conv2': nothing reads its output; allowed: a reader for every layer but the last",),
    ),
    "pool that nothing reads": (
        model(IMAGE, CONV, "{op: pool, mode: max, kernel: 2}", "{op: conv, out_channels: 4, kernel: 3, inputs: conv1}"),
        ("bad.yaml:6: layers[2] 'pool1': nothing reads its output",),
    ),
    "no input": (model(CONV), ("bad.yaml:4: layers[0] 'conv1': reads nothing; allowed: an input before it",)),
    "input last": (model(CONV, IMAGE), ("bad.yaml:4: layers[0] 'conv1': reads nothing",)),
    "no layer with a weight": (
        model(IMAGE, "{op: relu}"),
        ("bad.yaml:4: layers[0] 'input': no layer has a weight; allowed: one conv or linear",),
    ),
    "probability": (
        model(IMAGE, CONV, "{op: dropout, probability: .nan}"),
        ("bad.yaml:6: layers[2].probability 'dropout1': found nan; allowed: less than 1",),
    ),
    "more zeros than elements": (
        model(IMAGE, "{op: conv, out_channels: 4, kernel: 3, input_zeros: 1.5}"),
        ("bad.yaml:5: layers[1].input_zeros 'conv1': found 1.5; allowed: at most 1",),
    ),
    "fewer zeros than none": (
        model(IMAGE, "{op: conv, out_channels: 4, kernel: 3, output_zeros: -0.5}"),
        ("bad.yaml:5: layers[1].output_zeros 'conv1': found -0.5; allowed: at least 0",),
    ),
    "zeros in percent": (
        model(IMAGE, "{op: conv, out_channels: 4, kernel: 3, input_zeros: 38.7%}"),
        ("bad.yaml:5: layers[1].input_zeros 'conv1': found '38.7%'; allowed: a number",),
    ),
    "switch that is a word": (
        model(IMAGE, "{op: conv, out_channels: 4, kernel: 3, bias: 'no'}"),
        ("bad.yaml:5: layers[1].bias 'conv1': found 'no'; allowed: true or false",),
    ),
    "mode of a pool": (
        model(IMAGE, "{op: pool, mode: avg, kernel: 2}", CONV),
        ("bad.yaml:5: layers[1].mode 'pool1': found 'avg'; allowed: 'max' or 'average'; did you mean 'average'?",),
    ),
    "mode of an enlargement": (
        model(IMAGE, "{op: upsample, mode: bicubic, scale: 2}", CONV),
        ("bad.yaml:5: layers[1].mode 'upsample1': found 'bicubic'; allowed: 'nearest' or 'bilinear'",),
    ),
    "scale that is no whole number": (
        model(IMAGE, "{op: upsample, mode: nearest, scale: 1.5}", CONV),
        ("bad.yaml:5: layers[1].scale 'upsample1': found 1.5; allowed: a whole number, or two of them",),
    ),
    "kind of an opaque op": (
        model(IMAGE, "{op: opaque, kind: '', channels: 4}", CONV),
        ("bad.yaml:5: layers[1].kind", "'opaque1': found ''; allowed:"),
    ),
    "sizes of an opaque op": (
        model(IMAGE, "{op: opaque, kind: roll, channels: 4, height: 3}", CONV),
        ("bad.yaml:5: layers[1] 'opaque1': found one of height and width; allowed: both or neither",),
    ),
    "trained numbers of an opaque op": (
        model(IMAGE, "{op: opaque, kind: roll, channels: 4, trained: -1}", CONV),
        ("bad.yaml:5: layers[1].trained", "'opaque1': found -1; allowed:"),
    ),
    "pair of a convolution along one dim": (
        model(IMAGE, "{op: conv1d, out_channels: 4, kernel: [1, 3]}"),
        ("bad.yaml:5: layers[1].kernel 'conv1d1': found [1, 3]; allowed: a whole number",),
    ),
    "image of a convolution along one dim": (
        model(IMAGE, "{op: conv1d, out_channels: 4, kernel: 3}"),
        ("bad.yaml:5: layers[1] 'conv1d1': found an input of 3x8x8 (channels, height, width); allowed: a height of 1",),
    ),
    "image of a convolution of volumes": (
        model(IMAGE, "{op: conv3d, out_channels: 4, kernel: 3}"),
        ("bad.yaml:5: layers[1] 'conv3d1': found an input of 3x8x8 (channels, height, width); allowed: channels, depth, height, width",),
    ),
    "pair of a convolution of volumes": (
        model("{op: input, channels: 3, depth: 8, height: 8, width: 8}", "{op: conv3d, out_channels: 4, kernel: [3, 3]}"),
        ("bad.yaml:5: layers[1].kernel 'conv3d1': found [3, 3]; allowed: a whole number, or three of them as [depth, height, width]",),
    ),
    "pool of a volume": (
        model("{op: input, channels: 3, depth: 8, height: 8, width: 8}", "{op: pool, mode: max, kernel: 2}", CONV),
        ("bad.yaml:5: layers[1] 'pool1': found an input of 3x8x8x8 (channels, depth, height, width); allowed: channels, height and width",),
    ),
    "depth alone": (
        model("{op: input, channels: 3, depth: 8}", CONV),
        ("bad.yaml:4: layers[0] 'input': found depth without height and width; allowed: both or neither",),
    ),
    "negative margin": (
        model(IMAGE, "{op: crop, margin: -1}", CONV),
        ("bad.yaml:5: layers[1].margin", "'crop1': found -1; allowed:"),
    ),
    "pool without a kernel": (
        model(IMAGE, "{op: pool, mode: max}", CONV),
        ("bad.yaml:5: layers[1] 'pool1': kernel is missing; give one, or window: global",),
    ),
    "global pool with a kernel": (
        model(IMAGE, "{op: pool, mode: max, window: global, kernel: 2}", CONV),
        ("bad.yaml:5: layers[1] 'pool1': a global window takes no kernel",),
    ),
}  # fmt: skip

NOT_SHAPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "half an image": (
        model("{op: input, channels: 3, height: 8}", CONV),
        ("bad.yaml:4: layers[0] 'input': found one of height and width; allowed: both or neither",),
    ),
    "linear on an image": (
        model(IMAGE, FC),
        ("bad.yaml:5: layers[1] 'fc1': found an input of 3x8x8", "allowed: a vector, so put a flatten before"),
    ),
    "convolution of a vector": (
        model(VECTOR, CONV),
        ("bad.yaml:5: layers[1] 'conv1': found an input of 8 (channels); allowed: channels, height and width",),
    ),
    "kernel larger than the image": (
        model(IMAGE, "{op: conv, out_channels: 4, kernel: [3, 11], padding: 1}"),
        ("bad.yaml:5: layers[1] 'conv1': found a window of 11 on 8 elements padded by 1; allowed: at most 10",),
    ),
    "window of a pool larger than the image": (
        model(IMAGE, "{op: pool, mode: max, kernel: 9}", CONV),
        ("bad.yaml:5: layers[1] 'pool1': found a window of 9 on 8 elements", "allowed: at most 8"),
    ),
    "no output of a transposed convolution": (
        model(IMAGE, "{op: conv_transpose, out_channels: 4, kernel: 1, padding: [0, 4]}"),
        ("bad.yaml:5: layers[1] 'conv_transpose1': found padding 4 of 8 places; allowed: less than half of them",),
    ),
    "output padding": (
        model(IMAGE, "{op: conv_transpose, out_channels: 4, kernel: 2, stride: 2, output_padding: 2}"),
        ("bad.yaml:5: layers[1] 'conv_transpose1': found output_padding 2 for stride 2 and dilation 1; allowed: below 2",),
    ),
    "groups of a transposed convolution": (
        model(IMAGE, "{op: conv_transpose, out_channels: 4, kernel: 2, groups: 2}"),
        ("bad.yaml:5: layers[1] 'conv_transpose1': found 3 in_channels in 2 groups; allowed: a multiple of 2",),
    ),
    "transposed convolution of a vector": (
        model(VECTOR, "{op: conv_transpose, out_channels: 4, kernel: 2}"),
        ("bad.yaml:5: layers[1] 'conv_transpose1': found an input of 8 (channels)",),
    ),
    "enlargement of a vector": (
        model(VECTOR, "{op: upsample, mode: nearest, scale: 2}", FC),
        ("bad.yaml:5: layers[1] 'upsample1': found an input of 8 (channels)",),
    ),
    "enlargement past the largest size": (
        model(IMAGE, "{op: upsample, mode: nearest, scale: 16777216}", CONV),
        ("bad.yaml:5: layers[1] 'upsample1': found an output of", "allowed: sizes up to 16,777,216"),
    ),
    "margin of a crop": (
        model(IMAGE, "{op: crop, margin: [1, 4]}", CONV),
        ("bad.yaml:5: layers[1] 'crop1': found margin 4 at both ends of width 8; allowed: less than half of it",),
    ),
    "padding of a pool": (
        model(IMAGE, "{op: pool, mode: max, kernel: 2, padding: 2}", CONV),
        ("bad.yaml:5: layers[1] 'pool1': found padding 2 for kernel 2; allowed: at most half of it",),
    ),
    "groups of the input": (
        model(IMAGE, "{op: conv, out_channels: 4, kernel: 3, groups: 2}"),
        ("bad.yaml:5: layers[1] 'conv1': found 3 in_channels in 2 groups; allowed: a multiple of 2",),
    ),
    "groups of the output": (
        model(IMAGE, "{op: conv, out_channels: 4, kernel: 3, groups: 3}"),
        ("bad.yaml:5: layers[1] 'conv1': found 4 out_channels in 3 groups; allowed: a multiple of 3",),
    ),
    "sum of unequal shapes": (
        model(IMAGE, CONV, "{op: add, inputs: [input, conv1]}"),
        ("bad.yaml:6: layers[2] 'add1': found 3x8x8", "and 4x6x6", "allowed: equal shapes"),
    ),
    "sum of one": (model(IMAGE, CONV, "{op: add}"), ("bad.yaml:6: layers[2] 'add1': found 1 input; allowed: 2",)),
    "concat of unequal heights": (
        model(IMAGE, CONV, "{op: concat, inputs: [input, conv1]}"),
        ("bad.yaml:6: layers[2] 'concat1': found 3x8x8", "and 4x6x6", "allowed: equal but for channels"),
    ),
    "concat of one": (
        model(IMAGE, CONV, "{op: concat}"),
        ("bad.yaml:6: layers[2] 'concat1': found 1 input; allowed: 2",),
    ),
    "two inputs of a convolution": (
        model(IMAGE, CONV, "{op: conv, out_channels: 4, kernel: 1, inputs: [input, conv1]}"),
        ("bad.yaml:6: layers[2] 'conv2': found 2 inputs; allowed: 1",),
    ),
    "input that reads": (
        model(VECTOR, FC, "{op: input, channels: 3, inputs: fc1}"),
        ("bad.yaml:6: layers[2] 'input1': found 1 inputs; allowed: none",),
    ),
    "output too large": (
        model("{op: input, channels: 16777216, height: 2, width: 2}", "{op: flatten}", FC),
        ("bad.yaml:5: layers[1] 'flatten1': found an output of 67108864", "allowed: sizes up to 16,777,216"),
    ),
}  # fmt: skip

NOT_BLOCKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "unknown": (
        with_block("{block: rse, name: a, with: {n: 3}}"),
        ("bad.yaml:10: layers[1].block: no block 'rse'; allowed: res; did you mean 'res'?",),
    ),
    "that nothing uses": (with_block(CONV), ("bad.yaml:4: blocks.res: an unused block",)),
    "parameter twice": (
        with_block("{block: res, name: a, with: {n: 3}}", parameters="n, n"),
        ("bad.yaml:5: blocks.res.parameters: a parameter given twice; allowed: each once",),
    ),
    "none at all": (model(IMAGE, USE), ("bad.yaml:5: layers[1].block: no block 'res'",)),
    "without a name": (
        with_block("{block: res, with: {n: 3}}"),
        ("bad.yaml:10: layers[1].name: 'name' is missing",),
    ),
    "unknown key": (
        with_block("{block: res, name: a, wiht: {n: 3}}"),
        ("bad.yaml:10: layers[1].wiht: unknown key 'wiht'", "did you mean 'with'?"),
    ),
    "with an op": (
        with_block("{block: res, name: a, op: conv}"),
        ("bad.yaml:10: layers[1].op: unknown key 'op'; allowed: block, name, inputs, with, repeat",),
    ),
    "using itself": (
        with_block("{block: res, name: a}", body="{block: res, name: x}", parameters=""),
        ("bad.yaml:7: blocks.res.layers[0].block: a block that uses itself: res -> res",),
    ),
    "using each other": (
        model(
            IMAGE,
            "{block: a, name: y}",
            head=f"{HEAD}blocks:\n  a: {{layers: [{{block: b, name: x}}]}}\n"
            "  b: {layers: [{block: a, name: x}]}\n",
        ),
        ("bad.yaml:5: blocks.b.layers[0].block: a block that uses itself: a -> b -> a",),
    ),
    "nested too deeply": (
        chain_of_blocks(40),
        ("bad.yaml:12: blocks.b8.layers[0].block: blocks nested too deeply; allowed: 32",),
    ),
    "repeated too often, one inside another": (
        chain_of_blocks(4, repeat=1000),
        ("bad.yaml:4: blocks.b0.layers[0] 'y.x.0.", "too many layers", "allowed: at most 20,000"),
    ),
    "repeated 0 times": (
        with_block("{block: res, name: a, with: {n: 3}, repeat: 0}"),
        ("bad.yaml:10: layers[1].repeat: found 0; allowed: at least 1",),
    ),
    "repeated 10**12 times": (
        with_block("{block: res, name: a, with: {n: 3}, repeat: 1000000000000}"),
        ("bad.yaml:10: layers[1].repeat: found 1000000000000; allowed: at most 1,000",),
    ),
    "another parameter": (
        with_block("{block: res, name: a, with: {k: 3}}"),
        ("bad.yaml:10: layers[1].with 'a': found no n and unknown k; allowed: n",),
    ),
    "no parameter": (
        with_block("{block: res, name: a}"),
        ("bad.yaml:10: layers[1].with 'a': found no n; allowed: n",),
    ),
    "a parameter too many": (
        with_block(USE, body=CONV, parameters=""),
        ("bad.yaml:10: layers[1].with 'a': found unknown n; allowed: nothing",),
    ),
    "parameter that is nothing": (
        with_block("{block: res, name: a, with: {n: null}}"),
        ("bad.yaml:10: layers[1].with.n: found nothing; allowed: a whole number or a number or true or false",),
    ),
    "parameter of a bad size": (
        with_block("{block: res, name: a, with: {n: 0}}"),
        ("bad.yaml:7: blocks.res.layers[0].out_channels 'a.c': found 0; allowed: at least 1",),
    ),
    "unknown $parameter": (
        with_block(USE, body=SAME.replace("$n", "$m")),
        ("bad.yaml:7: blocks.res.layers[0].out_channels: no parameter 'm'; allowed: n",),
    ),
    "unknown $parameter in a list": (
        with_block(USE, body=SAME.replace("1}", "[$n, $k]}")),
        ("bad.yaml:7: blocks.res.layers[0].kernel[1]: no parameter 'k'; allowed: n",),
    ),
    "$parameter outside of a block": (
        model(IMAGE, SAME),
        ("bad.yaml:5: layers[1].out_channels: no parameter 'n'",),
    ),
    "two inputs": (
        with_block("{block: res, name: a, with: {n: 3}, inputs: [input, input]}"),
        ("bad.yaml:10: layers[1] 'a': found 2 inputs; allowed: 1 for a block",),
    ),
    "misspelt input inside": (
        with_block(USE, body=SAME.replace("1}", "1, inputs: inptu}")),
        ("bad.yaml:7: blocks.res.layers[0].inputs: no layer 'inptu'; allowed: c, input; did you mean 'input'?",),
    ),
    "layer inside named input": (
        with_block(USE, body=SAME.replace("name: c", "name: input")),
        ("bad.yaml:7: blocks.res.layers[0]: name 'input' given twice",),
    ),
    "reading itself": (
        with_block("{block: res, name: a, with: {n: 3}, inputs: a}"),
        ("bad.yaml:7: blocks.res.layers[0] 'a.c': a cycle: a.c -> a.c",),
    ),
    "empty": (
        model(IMAGE, head=f"{HEAD}blocks:\n  res:\n    layers: []\n"),
        ("bad.yaml:5: blocks.res.layers: found []; allowed: at least 1",),
    ),
    "named with a space": (
        model(IMAGE, head=f"{HEAD}blocks:\n  a b: {{layers: [{CONV}]}}\n"),
        ("bad.yaml:4: blocks['a b']: found 'a b'; allowed: a name of letters",),
    ),
}  # fmt: skip

SIZES: dict[str, tuple[str, str]] = {
    "-1": ("-1", "at least 1"),
    "0": ("0", "at least 1"),
    "1000000000000": ("1000000000000", "at most 16,777,216"),
    HUGE: ("1000", "at most 16,777,216"),
    ".nan": ("nan", "a whole number"),
    ".inf": ("inf", "a whole number"),
    "2.0": ("2.0", "a whole number"),
    "true": ("true", "a whole number"),
    "'3'": ("'3'", "a whole number"),
    "1e3": ("'1e3'", "a whole number"),
    "null": ("nothing", "a whole number"),
    "[]": ("[]", "a whole number"),
    "{}": ("{}", "a whole number"),
    "[1, 2, 3]": ("[1, 2, 3]", "a whole number"),
}
FIELDS = {
    "batch: 4": ("batch: {}", "bad.yaml:2: batch:"),
    "out_channels: 4": ("out_channels: {}", "bad.yaml:5: layers[1].out_channels 'conv1':"),
    "kernel: 3": ("kernel: {}", "bad.yaml:5: layers[1].kernel 'conv1':"),
    "kernel: 3}": ("kernel: [3, {}]}}", "bad.yaml:5: layers[1].kernel[1] 'conv1':"),
}

FILES = (
    NOT_DOCUMENTS | NOT_MODELS | NOT_LAYERS | NOT_SHAPES | {f"block {k}": v for k, v in NOT_BLOCKS.items()}
)


@pytest.mark.parametrize("case", late(FILES, "too many values"))
def test_a_bad_model_file(case: str) -> None:
    text, parts = FILES[case]
    Path("bad.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert_refused(["plan", "bad.yaml", "-o", "plan.json"], parts)


def refused_lines(text: str) -> list[str]:
    """Return the lines of a refusal, of which there are several."""
    Path("bad.yaml").write_text(text)
    result = run("plan", "bad.yaml", "-o", "plan.json")
    assert (result.exit_code, result.stdout) == (3, "")
    assert not Path("plan.json").exists()
    return result.stderr.removeprefix("error: ").rstrip().split("\nerror: ")


def test_every_fault_of_a_model_file_is_named_at_once() -> None:
    text = with_block(
        "{name: c1, op: conv, out_channels: x, kernel: 0}",
        "{block: res, name: b, repeat: 2, with: {n: 4, m: 1}}",
        "{name: c2, op: convv}",
        "{op: conv, out_chanels: 4, kernel: 1}",
        "{name: c2, op: relu}",
        "{op: add, inputs: [c1, b.1, c9]}",
        parameters="n, n",
    )
    lines = refused_lines(text.replace("batch: 4", "batch: 0"))
    assert [line.split("; allowed")[0] for line in lines] == [
        "bad.yaml:2: batch: found 0",
        "bad.yaml:10: layers[1].out_channels 'c1': found 'x'",
        "bad.yaml:10: layers[1].kernel 'c1': found 0",
        "bad.yaml:11: layers[2].with 'b': found unknown m",
        "bad.yaml:12: layers[3].op: no op 'convv'",
        "bad.yaml:13: layers[4].out_chanels 'conv1': unknown key 'out_chanels'",
        "bad.yaml:14: layers[5]: name 'c2' given twice",
        "bad.yaml:5: blocks.res.parameters: a parameter given twice",
        "bad.yaml:15: layers[6].inputs: no layer 'c9'",
    ]


def test_every_shape_that_does_not_fit_is_named_at_once() -> None:
    lines = refused_lines(
        model(
            "{op: input, channels: 3, height: 4, width: 4}",
            "{name: wide, op: conv, out_channels: 4, kernel: 9, inputs: input}",
            "{name: behind, op: relu}",
            "{name: deep, op: conv, out_channels: 4, kernel: 1, groups: 2, inputs: input}",
            "{name: unread, op: conv, out_channels: 4, kernel: 1, inputs: input}",
            "{name: last, op: add, inputs: [behind, deep]}",
        )
    )
    places = [line.partition("': ")[0] for line in lines]
    assert places == [
        "bad.yaml:5: layers[1] 'wide",
        "bad.yaml:7: layers[3] 'deep",
        "bad.yaml:8: layers[4] 'unread",
    ]


def test_a_block_with_a_fault_is_named_once_however_often_it_is_used() -> None:
    text = with_block(
        *[f"{{block: res, name: r{number}, repeat: 9, with: {{n: 4}}}}" for number in range(3)],
        "{op: linear, out_features: 0, inputs: r1.8}",
        body="{op: conv, out_channels: $n, kernel: none}",
    )
    lines = refused_lines(text)
    assert [line.split(": found")[0] for line in lines] == [
        "bad.yaml:7: blocks.res.layers[0].kernel 'r0.0.conv1'",
        "bad.yaml:13: layers[4].out_features 'linear1'",
    ]


def test_an_invalid_entry_makes_no_fault_elsewhere() -> None:
    lines = refused_lines(
        with_block(
            "{op: conv, out_channels: 4, kernel: 0, name: 3}",
            "{block: res, name: a, repeat: 9999, with: {n: 4}}",
            "{op: linear, out_features: 3, inputs: a.1}",
            "{op: relu, inputs: nowhere}",
        )
    )
    assert [line.split("; allowed")[0] for line in lines] == [
        "bad.yaml:10: layers[1].name: found 3",
        "bad.yaml:10: layers[1].kernel: found 0",
        "bad.yaml:11: layers[2].repeat: found 9999",
        "bad.yaml:13: layers[4].inputs: no layer 'nowhere'",
    ]
    assert "; allowed: input, a, a.0, a.1, " in lines[-1]


def test_faults_of_blocks_in_blocks_come_to_an_end() -> None:
    text = chain_of_blocks(30, repeat=1000).replace("kernel: 1", "kernel: 0")
    first, last = refused_lines(text)
    assert first.startswith("bad.yaml:4: blocks.b0.layers[0].kernel ")
    assert "too many layers, blocks expanded; allowed: at most 20,000" in last


def test_no_more_faults_of_a_model_than_a_screen_holds() -> None:
    assert len(refused_lines(model(IMAGE, *["{op: conv, out_channels: 0, kernel: 1}"] * 100))) == MOST_FAULTS


@pytest.mark.parametrize("value", SIZES, ids=lambda value: value[:16])
@pytest.mark.parametrize("field", FIELDS)
def test_a_bad_size(field: str, value: str) -> None:
    (written, place), (found, allowed) = FIELDS[field], SIZES[value]
    Path("bad.yaml").write_text(model(IMAGE, CONV).replace(field, written.format(value)))
    assert_refused(["plan", "bad.yaml"], (f"{place} found {found}", f"; allowed: {allowed}"))


def test_a_size_that_does_not_fit_a_pair() -> None:
    Path("bad.yaml").write_text(model(IMAGE, CONV).replace("kernel: 3", "kernel: [3, x]"))
    assert_refused(["plan", "bad.yaml"], ("layers[1].kernel[1] 'conv1': found 'x'; allowed: a whole number",))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("same_as: othre\n", ("bad.yaml:1: same_as: no model 'othre'; allowed: other", "mean 'other'?")),
        ("same_as: other\nbatch: 4\n", ("bad.yaml:2: batch: unknown key 'batch'; allowed: same_as",)),
        ("same_as: bad\n", ("bad.yaml:1: same_as: found 'bad', itself a second name; allowed: a model",)),
        ("same_as: ../other\n", ("bad.yaml:1: same_as: found '../other'; allowed: a name of letters",)),
        ("same_as: 3\n", ("bad.yaml:1: same_as: found 3; allowed: a text",)),
        ("same_as: other\n", ("other.yaml:5: layers[1] 'fc1': found an input of 3x8x8",)),
    ],
)
def test_a_bad_second_name(text: str, parts: tuple[str, ...]) -> None:
    Path("bad.yaml").write_text(text)
    Path("other.yaml").write_text(model(IMAGE, FC))
    assert_refused(["plan", "bad.yaml"], parts)


READERS = (
    ["plan", "{}"], ["compare", "{}"], ["models", "{}"], ["show", "{}"], ["check", "{}"],
    ["diff", "{}", "good.json"], ["diff", "good.json", "{}"], ["check", "good.json", "--model", "{}"],
)  # fmt: skip


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("missing.yaml", "No such file or directory"),
        ("sub.yaml/", "Is a directory"),
        (f"./{'x' * 300}", "File name too long"),
    ],
)
@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_file_that_cannot_be_read(command: list[str], file: str, reason: str) -> None:
    Path("sub.yaml").mkdir()
    plan_model("lenet-c", levels=2).write("good.json")
    folder = command == ["check", "{}"] and file.endswith("/")
    parts = ("sub.yaml: no plans below it",) if folder else ("cannot be read: ", reason)
    assert_refused([part.format(file) for part in command], parts)


VGG16 = ["plan", "vgg16", "-o", "plan.json"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["plan", "vgg61"], ("no model 'vgg61'; allowed: alexnet,", "; did you mean 'vgg1")),
        (["compare", "vgg61"], ("no model 'vgg61'", "did you mean 'vgg1")),
        (["models", "vgg61"], ("no model 'vgg61'", "did you mean 'vgg1")),
        (["plan", "VGG16"], ("no model 'VGG16'; allowed: alexnet,", "; did you mean 'vgg16'?")),
        (["plan", "resnet-50"], ("no model 'resnet-50'", "; did you mean 'resnet50'?")),
        (["plan", "vgg"], ("no model 'vgg'", "; did you mean 'vgg13', 'vgg16' or 'vgg19'?")),
        ([*VGG16, "--hardware", "HMC"], ("no hardware 'HMC'", "; did you mean 'hmc'?")),
        ([*VGG16, "--hardware", "hmc", "--set", "tpology=ring"], ("not a change; allowed: NAME=VALUE", "'topology'?")),
        ([*VGG16, "--stages", "bst"], ("stages: found 'bst'; allowed: a whole number, or best; did you mean 'best'?",)),
        ([*VGG16, "--cost", "deepa", "--mode", "exat"], ("mode: found 'exat'; allowed: exact,", "did you mean 'exact'?")),
        (["plan", ""], ("no model ''",)),
        (["plan", "x" * 300], ("no model 'xxx", "; allowed: alexnet,")),
        ([*VGG16, "--levels", "0"], ("levels: found 0; allowed: a whole number from 1 to 20",)),
        ([*VGG16, "--levels", "-1"], ("levels: found -1; allowed: a whole number from 1 to 20",)),
        ([*VGG16, "--levels", "40"], ("levels: found 40; allowed: a whole number from 1 to 20",)),
        ([*VGG16, "--levels", "2", "--array", "2"], ("levels: given together with an array",)),
        ([*VGG16, "--array", "1x2"], ("array: found 1x2; allowed: ways of 2 or more",)),
        ([*VGG16, "--array", "0"], ("array: found 0; allowed: ways of 2 or more",)),
        ([*VGG16, "--array", "4x-8"], ("array: found 4x-8; allowed: ways of 2 or more",)),
        ([*VGG16, "--array", "-4x-8"], ("array: found -4x-8; allowed: ways of 2 or more",)),
        ([*VGG16, "--array", "1024x1025"], ("array: found 1024x1025", "at most 1,048,576 devices")),
        ([*VGG16, "--array", "2x" * 20 + "2"], (f"array: found {'2x' * 20}2; allowed: ",)),
        ([*VGG16, "--array", HUGE], ("array: found 1000", "at most 1,048,576 devices")),
        ([*VGG16, "--array", ""], ("array: found ''; allowed: the ways of each level, as 4x8 or 16",)),
        ([*VGG16, "--array", "4,8"], ("array: found '4,8'; allowed: the ways of each level",)),
        ([*VGG16, "--array", "9" * 5000], ("array: found '999", "; allowed: the ways of each level")),
        ([*VGG16, "--batch", "0"], ("batch: found 0; allowed: a whole number from 1 to 16,777,216",)),
        ([*VGG16, "--batch", "-1"], ("batch: found -1; allowed: a whole number from 1 to 16,777,216",)),
        ([*VGG16, "--batch", "1000000000000"], ("batch: found 1000000000000; allowed: a whole number",)),
        ([*VGG16, "--inter-weight", "nan"], ("inter-weight: found nan; allowed: a number from 0 to 1,000,000",)),
        ([*VGG16, "--inter-weight", "-1"], ("inter-weight: found -1.0; allowed: a number from 0",)),
        ([*VGG16, "--inter-weight", "inf"], ("inter-weight: found inf; allowed: a number from 0",)),
        ([*VGG16, "--inter-weight", "1e300"], ("inter-weight: found 1e+300; allowed: a number from 0",)),
        ([*VGG16, "--strategy", "hyparr"], ("no strategy 'hyparr'; allowed: accpar,", "did you mean 'hypar'?")),
        ([*VGG16, "--search", "gredy"], ("no search 'gredy'; allowed: greedy, joint; did you mean 'greedy'?",)),
        ([*VGG16, "--solver", "chian"], ("no solver 'chian'; allowed: bounded, chain,", "did you mean 'chain'?")),
        ([*VGG16, "--cost", "volum"], ("no cost 'volum'; allowed: accpar, deepa, time, volume; did you mean 'volume'?",)),
        ([*VGG16, "--cost", "base"], ("no cost 'base'; allowed: accpar, deepa, time, volume",)),
        ([*VGG16, "--solver", "../chain"], ("no solver '../chain'",)),
        ([*VGG16, "--strategy", ""], ("no strategy ''; allowed: accpar,",)),
        ([*VGG16, "--search", ""], ("no search ''; allowed: greedy, joint",)),
        ([*VGG16, "--solver", ""], ("no solver ''; allowed: bounded, chain,",)),
        ([*VGG16, "--cost", ""], ("no cost ''; allowed: accpar, deepa, time, volume",)),
        ([*VGG16, "--space", ""], ("space '': names no dim; allowed: batch,",)),
        ([*VGG16, "--space", "batsh"], ("space 'batsh': found 'batsh'; allowed: batch,",)),
        ([*VGG16, "--space", "all,batch"], ("space 'all,batch': found 'all'; allowed: batch,",)),
        ([*VGG16, "--space", "conv:"], ("space 'conv:': names no dim; allowed: batch,",)),
        ([*VGG16, "--space", "height"], ("space 'height': no dim of linear 'fc1'; allowed: batch,",)),
        ([*VGG16, "--space", "linaer:batch"], ("no op 'linaer'; allowed: add,", "did you mean 'linear'?")),
        (["compare", "vgg16", "--strategy", "hyparr"], ("no strategy 'hyparr'", "did you mean 'hypar'?")),
        (["compare", "vgg16", "--levels", "0"], ("levels: found 0; allowed: a whole number from 1 to 20",)),
        ([*VGG16, "--pin", "fc1"], ("pin 'fc1': not a pin; allowed: LAYER=CHOICE or LAYER@LEVEL=CHOICE",)),
        ([*VGG16, "--pin", "=mp"], ("pin '=mp': not a pin; allowed: LAYER=CHOICE",)),
        ([*VGG16, "--pin", "fc9=mp"], ("pin 'fc9=mp': no layer that is cut is named 'fc9'", "did you mean 'fc")),
        ([*VGG16, "--pin", "relu1=mp"], ("pin 'relu1=mp': no layer that is cut is named 'relu1'",)),
        ([*VGG16, "--pin", "fc1@H9=mp"], ("pin 'fc1@H9=mp': found level 'H9'; allowed: H1 to H4, or 0 to 3",)),
        ([*VGG16, "--pin", "fc1@H0=mp"], ("found level 'H0'; allowed: H1 to H4",)),
        ([*VGG16, "--pin", "fc1@-1=mp"], ("found level '-1'; allowed: H1 to H4",)),
        ([*VGG16, "--pin", "fc1@=mp"], ("found level ''; allowed: H1 to H4",)),
        ([*VGG16, "--pin", "fc1@²=mp"], ("found level '²'; allowed: H1 to H4",)),
        ([*VGG16, "--pin", "fc1=height"], ("'fc1' has no such choice; allowed: batch, in_channels, out_channels",)),
        ([*VGG16, "--pin", "fc1=rep"], ("pin 'fc1=rep': 'fc1' has no such choice; allowed: batch,",)),
        ([*VGG16, "--pin", "fc1=mpp"], ("pin 'fc1=mpp': found 'mpp'; allowed: batch,",)),
        ([*VGG16, "--pin", "fc1="], ("pin 'fc1=': found ''; allowed: batch,",)),
        (["plan", "vgg16", "-o", "missing/plan.json"], ("missing/plan.json: cannot be written: No such file",)),
        (["plan", "vgg16", "--space", ":batch"], ("space ':batch': no op before ':batch'; allowed: OP:dims, once",)),
        (["plan", "vgg16", "-o", ""], ("cannot be written: ",)),
        (["plan", "vgg16", "-o", "x" * 300], ("cannot be written: File name too long",)),
        (
            [*VGG16, "--strategy", "optimal", "--solver", "chain", "--levels", "20"],
            ("solver 'chain' would hold tables of ", "; allowed: ", "; solver 'bounded' says how far"),
        ),
        ([*VGG16, "--solver", "exhaustive", "--space", "all"], ("solver 'exhaustive'", " entries", "; allowed: ")),
        (["plan", "resnet18", "-o", "plan.json", "--solver", "chain"], ("solver 'chain'", "a branch", "; allowed: paths")),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)  # fmt: skip
def test_a_bad_option(arguments: list[str], parts: tuple[str, ...]) -> None:
    assert_refused(arguments, parts)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nope"], "nope"),
        (["plan"], "MODEL"),
        (["plan", "vgg16", "sfc"], "sfc"),
        (["plan", "vgg16", "--nope"], "--nope"),
        (["plan", "vgg16", "--levels", "abc"], "'abc' is not a valid integer"),
        (["plan", "vgg16", "--levels", "1.5"], "'1.5' is not a valid integer"),
        (["plan", "vgg16", "--levels", ""], "'' is not a valid integer"),
        (["plan", "vgg16", "--batch", "all"], "'all' is not a valid integer"),
        (["plan", "vgg16", "--inter-weight", "half"], "'half' is not a valid float"),
        (["plan", "vgg16", "-o", "sub"], "'sub' is a directory"),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
        (["show"], "PLAN"),
        (["diff", "a.json"], "AFTER"),
        (["check"], "PLANS"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_a_usage_error(arguments: list[str], part: str) -> None:
    Path("sub").mkdir()
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr
    assert part in result.stderr.splitlines()[-1]
    assert names() == ["sub"]


DEEPA = ["plan", "alexnet", "-o", "plan.json", "--strategy", "deepa"]
P100 = [*DEEPA, "--hardware", "p100-4x4"]
WITHIN_16 = "allowed: at most 16, all that it has"


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([*DEEPA, "--array", "16"], ("cost 'deepa': no machine is named; allowed: one, as --hardware hmc",)),
        ([*DEEPA, "--array", "16", "--mode", "serial"], ("cost 'deepa': no machine is named",)),
        ([*DEEPA, "--hardware", "nosuch"], ("no hardware 'nosuch'; allowed: ",)),
        ([*P100, "--mode", "nonsense"], ("mode: found 'nonsense'; allowed: exact, serial",)),
        ([*P100, "--mode", ""], ("mode: found ''; allowed: exact, serial",)),
        ([*P100, "--mode", "exact", "--cost", "volume"], ("cost 'volume': has no parameter 'mode'; allowed: inter_weight",)),
        ([*P100, "--mode", "exact", "--cost", "time"], ("cost 'time': has no parameter 'mode'; allowed: none",)),
        ([*VGG16, "--mode", "exact"], ("cost 'volume': has no parameter 'mode'; allowed: inter_weight",)),
        ([*P100, "--inter-weight", "0.5"], ("cost 'deepa': has no parameter 'inter_weight'; allowed: mode",)),
        ([*P100, "--graph", "nonsense"], ("no graph 'nonsense'; allowed: contracted, operators",)),
        ([*P100, "--graph", "operator"], ("no graph 'operator'; ", "did you mean 'operators'?")),
        ([*P100, "--graph", ""], ("no graph ''; allowed: contracted, operators",)),
        ([*P100, "--array", "512"], ("hardware 'p100-4x4': found an array of 512 devices (512); ", WITHIN_16)),
        ([*P100, "--array", "4096"], ("hardware 'p100-4x4': found an array of 4096 devices (4096); ", WITHIN_16)),
        ([*P100, "--array", "8x8"], ("hardware 'p100-4x4': found an array of 64 devices (8x8); ", WITHIN_16)),
        ([*P100, "--array", "12"], ("hardware 'p100-4x4': found an array of 12 devices (12); allowed: a divisor of 16",)),
        ([*P100, "--pin", "pool1=n3"], ("pin 'pool1=n3': degree 3 of batch does not divide 2 ways; allowed: 1, 2",)),
        ([*P100, "--graph", "contracted", "--pin", "pool1=n2"], ("no layer that is cut is named 'pool1'",)),
        ([*P100, "--solver", "exhaustive", "--array", "16"], ("solver 'exhaustive'", " entries", "; allowed: ")),
        (
            [*VGG16, "--space", "all divisors", "--array", "5040"],
            ("space 'all divisors': more than 65,536 grids of 5040 ways; allowed: fewer dims, or levels of fewer ways",),
        ),
        (
            [*VGG16, "--space", "n*c*h*w divisors", "--array", "55440", "--batch", "55440"],
            ("space 'n*c*h*w divisors': more than ", " of 55440 ways; allowed: fewer dims, or levels of fewer ways"),
        ),
        (
            [*VGG16, "--space", "batch*mp", "--array", "16384", "--batch", "16384"],
            ("grids of ", " shards of batch would take ", " entries; allowed: 134,217,728, so levels of fewer ways"),
        ),
        ([*VGG16, "--space", "deepa,batch"], ("space 'deepa,batch': found 'deepa'; allowed: batch,",)),
        ([*VGG16, "--space", "batch*"], ("space 'batch*': found ''; allowed: batch,",)),
        ([*VGG16, "--space", "height*width"], ("space 'height*width': no dim of linear 'fc1'; allowed: batch,",)),
        ([*VGG16, "--pin", f"fc1=n{'9' * 5000}"], ("pin 'fc1=n999", "allowed: a dim or paper's word and its degree",)),
        (["compare", "alexnet", "--strategy", "deepa"], ("cost 'deepa': no machine is named",)),
        (
            ["sweep", "alexnet", "--hardware", "p100-4x4", "--strategy", "deepa", "--inter-weight", "0.5"],
            ("cost 'deepa': has no parameter 'inter_weight'; allowed: mode",),
        ),
        (["explore", "alexnet", "--strategy", "deepa", "--vary", "fc1"], ("hardware: no machine is named",)),
        (
            ["explore", "alexnet", "--strategy", "deepa", "--hardware", "p100-4x4", "--array", "16", "--vary", "conv*"],
            ("vary: found 1,540,716,800 points; allowed: ",),
        ),
    ],
    ids=lambda value: " ".join(value[1:])[:110] if isinstance(value, list) else "",
)  # fmt: skip
def test_a_bad_option_of_grids(arguments: list[str], parts: tuple[str, ...]) -> None:
    assert_refused(arguments, parts)


def test_grids_of_a_level_of_very_many_ways() -> None:
    """A level of thousands of ways is planned where its pieces are few enough."""
    result = run("plan", "lenet-c", "--array", "4096", "--space", "n*c*h*w", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["splits"][0]["choices"]["fc1"] == {"batch": 64, "out_channels": 64}


PLAN: dict[str, Any] = json.loads(plan_model("lenet-c", levels=2).to_json())
GOOD = json.dumps(PLAN)


def put(where: Where, value: Any) -> str:
    """The text of a good plan with one value replaced, added or, by ``DELETED``, taken out."""
    data = deepcopy(PLAN)
    inside = data
    for part in where[:-1]:
        inside = inside[part]  # type: ignore[index]
    if value is DELETED:
        del inside[where[-1]]  # type: ignore[arg-type]
    else:
        inside[where[-1]] = value  # type: ignore[index]
    return json.dumps(data)


def deep_array(ways: int, levels: int) -> str:
    """The text of a plan of an array that is as long or as wide as one likes."""
    split = PLAN["splits"][0]
    splits = [split | {"level": level, "ways": ways} for level in range(levels)]
    return json.dumps(PLAN | {"array": [ways] * levels, "splits": splits})


FC1: Where = ("splits", 0, "choices", "fc1")
PLANS: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "empty": ("", ("bad.json: the file is empty",)),
    "truncated": (GOOD[: len(GOOD) // 2], ("bad.json:1: not JSON",)),
    "not JSON": ("{\n'a': 1}", ("bad.json:2: not JSON",)),
    "not UTF-8": (b'{\n"a": "\xff"}', ("bad.json:2: found byte 0xff; allowed: UTF-8 text",)),
    "not an object": ("[]", ("bad.json: found []; allowed: an object",)),
    "deep": ("[" * 100_000, ("bad.json: nested too deeply; allowed: 64",)),
    "less deep": ("[" * 100 + "]" * 100, ("bad.json: nested too deeply; allowed: 64",)),
    "no schema": (put(("schema",), DELETED), ("bad.json: schema: found", "allowed: hypar.plan/1")),
    "newer schema": (
        put(("schema",), "hypar.plan/2"),
        ("bad.json: schema: found 'hypar.plan/2'; allowed: hypar.plan/1; it was written by a newer hypar",),
    ),
    "older schema": (put(("schema",), "hypar.plan/0"), ("schema: found 'hypar.plan/0'; allowed: hypar.plan/1\n",)),
    "much newer schema": (put(("schema",), "hypar.plan/10"), ("it was written by a newer hypar",)),
    "no version": (put(("schema",), "hypar.plan/"), ("schema: found 'hypar.plan/'; allowed: hypar.plan/1\n",)),
    "other schema": (put(("schema",), "other"), ("bad.json: schema: found 'other'; allowed: hypar.plan/1\n",)),
    "long schema": (put(("schema",), "x" * 10_000), ("bad.json: schema: found 'xxx", "; allowed: hypar.plan/1")),
    "key twice": ('{"schema": 1, ' + GOOD[1:], ("bad.json: key 'schema' given twice; allowed: once",)),
    "unknown key": (
        put(("arrray",), 1),
        ("bad.json: arrray: unknown key 'arrray'; allowed: schema, model,", "did you mean 'array'?"),
    ),
    "unknown key inside": (
        put(("splits", 1, "lvel"), 1),
        ("bad.json: splits[1].lvel: unknown key 'lvel'; allowed: level, group,", "did you mean 'level'?"),
    ),
    "missing key": (put(("cost", "unit"), DELETED), ("bad.json: cost.unit: 'unit' is missing",)),
    "number for a text": (put(("strategy",), 1), ("bad.json: strategy: found 1; allowed: a text",)),
    "text for a number": (
        put(("splits", 0, "cost"), "1"),
        ("bad.json: splits[0].cost: found '1'; allowed: a whole number or a number",),
    ),
    "truth for a number": (put(("cost", "value"), True), ("bad.json: cost.value: found true; allowed: a whole",)),
    "text for a list": (put(("array",), "2x2"), ("bad.json: array: found '2x2'; allowed: a list",)),
    "list for a mapping": (put(("model",), []), ("bad.json: model: found []; allowed: a mapping",)),
    "NaN": (put(("cost", "value"), float("nan")), ("bad.json: found 'NaN'; allowed: finite numbers",)),
    "Infinity": (put(("cost", "value"), float("inf")), ("bad.json: found 'Infinity'; allowed: finite numbers",)),
    "1e999": (
        GOOD.replace('"inter_weight": 1', '"inter_weight": 1e999'),
        ("bad.json: found '1e999'; allowed: finite numbers",),
    ),
    "10**400": (put(("cost", "value"), 10**400), ("bad.json: found '1000", "allowed: finite numbers")),
    "10**4000": (put(("model", "batch"), 10**4000), ("bad.json: found '1000", "allowed: finite numbers")),
    "half a character": (
        put(("claim",), "\ud800"),
        ("bad.json: found '\\ud800'; allowed: whole characters",),
    ),
    "negative cost": (
        put(("splits", 1, "cost"), -1),
        ("bad.json: splits[1].cost: found -1; allowed: at least 0",),
    ),
    "negative cost of a layer": (
        put(("splits", 1, "costs", "a b"), -0.5),
        ("bad.json: splits[1].costs['a b']: found -0.5; allowed: at least 0",),
    ),
    "no batch": (put(("model", "batch"), 0), ("bad.json: model.batch: found 0; allowed: at least 1",)),
    "fewer splits than levels": (put(("splits", 1), DELETED), ("bad.json: splits do not match the array [2, 2]",)),
    "no splits": (put(("splits",), []), ("bad.json: splits: found []; allowed: at least 1",)),
    "other ways": (put(("array",), [2, 3]), ("bad.json: splits do not match the array [2, 3]",)),
    "level of one way": (put(("array",), [2, 1]), ("bad.json: array[1]: found 1; allowed: at least 2",)),
    "levels in disorder": (put(("splits", 0, "level"), 1), ("bad.json: splits do not match the array",)),
    "choices of fewer layers": (put(FC1, DELETED), ("bad.json: splits[0]: ", "name different layers")),
    "costs of more layers": (put(("splits", 1, "costs", "x"), 1), ("bad.json: splits[1]: ", "different layers")),
    "degree 0": (put(FC1, {"batch": 0}), ("bad.json: splits[0].choices.fc1.batch: found 0; allowed: at least 1",)),
    "degree 1 of a dim": (
        put(FC1, {"in_channels": 1}),
        ("bad.json: splits[0].choices.fc1: found {'in_channels': 1}; allowed: degrees that divide 2 ways",),
    ),
    "degree 2.0": (put(FC1, {"batch": 2.0}), ("splits[0].choices.fc1.batch: found 2.0; allowed: a whole number",)),
    "unknown dim": (
        put(FC1, {"bach": 2}),
        ("bad.json: splits[0].choices.fc1.bach: found 'bach'; allowed: 'batch',", "did you mean 'batch'?"),
    ),
    "degree that is not the ways": (
        put(FC1, {"batch": 4}),
        ("bad.json: splits[0].choices.fc1: found {'batch': 4}; allowed: degrees that divide 2 ways, at most 2 devices",),
    ),
    "huge degree": (
        put(FC1, {"batch": 10**12}),
        ("bad.json: splits[0].choices.fc1: found {'batch': 1000000000000}; allowed: degrees that divide 2 ways",),
    ),
    "two dims": (
        put(FC1, {"batch": 2, "in_channels": 2}),
        ("bad.json: splits[0].choices.fc1: found {'batch': 2, 'in_channels': 2}; allowed: degrees that divide 2 ways, at most 2",),
    ),
    "shares of fewer": (
        put(("splits", 1, "shares"), [1.0]),
        ("bad.json: splits[1].shares: found [1.0]; allowed: 2 that sum to 1",),
    ),
    "shares of more than all": (
        put(("splits", 1, "shares"), [0.5, 0.75]),
        ("bad.json: splits[1].shares: found [0.5, 0.75]; allowed: 2 that sum to 1",),
    ),
    "space": (put(("space",), "batsh"), ("bad.json: space: found 'batsh'; allowed: batch,",)),
    "cost past all sums": (
        put(("splits", 0, "cost"), 10**308),
        ("bad.json: splits[0].cost: found 1000", "; allowed: at most 1e+200"),
    ),
    "array of many levels": (
        deep_array(2, 100),
        ("bad.json: array: found 2x2x2x", "; allowed: at most 1,048,576 devices"),
    ),
    "array of many ways": (
        deep_array(10**7, 2),
        ("bad.json: array: found 10000000x10000000; allowed: at most 1,048,576 devices",),
    ),
    "array of very many ways": (
        deep_array(10**300, 20),
        ("bad.json: array: found 1000", "; allowed: at most 1,048,576 devices"),
    ),
    "no layers": (
        json.dumps(PLAN | {"splits": [old | {"choices": {}, "costs": {}} for old in PLAN["splits"]]}),
        ("bad.json: splits[0].choices: found {}; allowed: at least 1",),
    ),
    "share of more than all": (
        put(("splits", 0, "shares"), [1.5]),
        ("bad.json: splits[0].shares[0]: found 1.5; allowed: at most 1",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANS)
@pytest.mark.parametrize(
    "command",
    [["show", "bad.json"], ["check", "bad.json", "--update"], ["diff", "good.json", "bad.json"]],
    ids=" ".join,
)
def test_a_bad_plan_file(command: list[str], case: str) -> None:
    text, parts = PLANS[case]
    Path("bad.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    Path("good.json").write_text(GOOD)
    assert_refused(command, parts)


@pytest.mark.parametrize(
    ("where", "value", "parts"),
    [
        (("model", "name"), "nosuch", ("p.json: model.name: no model 'nosuch'; looked beside the plan",)),
        (("model", "name"), "../nosuch", ("p.json: model.name: no model '../nosuch'; looked beside",)),
        (("model", "name"), "x" * 300, ("p.json: model.name: no model 'xxx", "xxx'; looked beside")),
        (("model", "name"), "a\0b", ("p.json: model.name: no model 'a\\x00b'; looked beside",)),
        (("model", "batch"), 10**12, ("batch: found 1000000000000; allowed: a whole number from 1",)),
        (("search",), "gredy", ("no search 'gredy'", "did you mean 'greedy'?")),
        (("solver",), "chian", ("no solver 'chian'", "did you mean 'chain'?")),
        (("cost", "name"), "volum", ("no cost 'volum'", "did you mean 'volume'?")),
        (("cost", "parameters"), {"inter_weight": -1}, ("inter-weight: found -1; allowed: a number from 0",)),
        (("pins",), ["fc9=mp"], ("p.json: pin 'fc9=mp': no layer that is cut is named 'fc9'",)),
        (("pins",), ["fc1=h"], ("p.json: pin 'fc1=h': 'fc1' has no such choice; allowed: batch,",)),
    ],
)
def test_a_plan_that_cannot_be_followed(where: Where, value: Any, parts: tuple[str, ...]) -> None:
    Path("p.json").write_text(put(where, value))
    assert_refused(["check", "p.json", "--update"], parts)


@pytest.mark.parametrize("command", [["show", "p.json"], ["diff", "good.json", "p.json"]], ids=" ".join)
def test_brackets_in_a_plan_are_plain_text(command: list[str]) -> None:
    """To rich they would be markup."""
    split = {"choices": {"[/b]": {"batch": 2}}, "costs": {"[/b]": 1}, "cost": 1}
    Path("p.json").write_text(json.dumps(PLAN | {"splits": [old | split for old in PLAN["splits"]]}))
    Path("good.json").write_text(GOOD)
    result = run(*command)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "[/b]" in result.stdout


def test_plans_of_different_costs_are_not_compared() -> None:
    for name, cost in (("a.json", "volume"), ("b.json", "time")):
        plan_model("lenet-c", levels=2, cost=cost, hardware="hmc").write(name)
    assert_refused(
        ["diff", "a.json", "b.json"],
        (
            "cost: the plans differ: volume in bytes (inter_weight) and time in seconds (no parameters)",
            "; allowed: plans of one cost; hypar score compares their steps on a machine",
        ),
    )


def test_an_unknown_report() -> None:
    Path("p.json").write_text(GOOD)
    assert_refused(["show", "p.json", "--format", "htm"], ("no report 'htm'; allowed: html,", "mean 'html'?"))


@pytest.mark.parametrize(
    ("arguments", "text", "parts"),
    [
        (["plan", "bad.yaml"], "source: " + "[" * 100_000, ("bad.yaml:1: nested too deeply; allowed: 64",)),
        pytest.param(
            *(["plan", "bad.yaml"], "- " * 100_000, ("bad.yaml:1: nested too deeply; allowed: 64",)),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(
                ["plan", "bad.yaml"],
                model(IMAGE, FC),
                ("bad.yaml:5: layers[1] 'fc1': found an input of 3x8x8",),
            ),
            marks=pytest.mark.slow,
        ),
        (["show", "bad.yaml"], "{", ("bad.yaml:1: not JSON",)),
    ],
)
def test_the_program_prints_one_line(arguments: list[str], text: str, parts: tuple[str, ...]) -> None:
    """In a process of its own: what PyYAML does with deep nesting would end this one."""
    Path("bad.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "hypar", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert_one_line(done.returncode, done.stdout, done.stderr, parts)


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
    """A file is written whole or not at all."""

    @pytest.mark.parametrize(
        ("file", "text", "reason"),
        [
            ("missing/p.json", "new", "No such file or directory"),
            ("sub", "new", "directory"),
            ("a\0b", "new", "null byte"),
            ("p.json", "\ud800", "surrogates"),
            ("new.json", "\ud800", "surrogates"),
        ],
    )
    def test_a_failure_leaves_nothing_behind(self, file: str, text: str, reason: str) -> None:
        Path("sub").mkdir()
        Path("p.json").write_text("old")
        with pytest.raises(DocumentError, match=f"cannot be written: .*{reason}"):
            write_text(Path(file), text)
        assert names() == ["p.json", "sub"]
        assert Path("p.json").read_text() == "old"

    def test_a_full_disk_leaves_the_old_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        Path("p.json").write_text("old")
        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(DocumentError, match=r"^p\.json: cannot be written: No space left on device$"):
            plan_model("lenet-c", levels=1).write("p.json")
        assert names() == ["p.json"]
        assert Path("p.json").read_text() == "old"

    def test_a_device_is_not_replaced_by_a_file(self) -> None:
        Path("null").symlink_to("/dev/null")
        result = run("plan", "lenet-c", "--levels", "1", "-o", "null")
        assert (result.exit_code, names()) == (0, ["null"])
        assert Path("null").is_char_device()

    def test_what_is_written_reads_back(self) -> None:
        plan = plan_model("lenet-c", levels=1)
        plan.write("p.json")
        assert read_plan("p.json") == plan
