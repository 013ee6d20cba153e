import json
from pathlib import Path

import pytest

from hypar import load_model
from hypar.errors import DocumentError, InputError, ModelError, OptionError
from hypar.files.yaml_file import parse_yaml
from hypar.network.graph import LayerGraph, build_graph, gradients_of

HEAD = "source: made up\nbatch: 4\nlayers:\n  - {op: input, channels: 3, height: 8, width: 8}\n"


def build(*lines: str, head: str = HEAD) -> LayerGraph:
    text = head + "".join(f"  - {{{line}}}\n" for line in lines)
    return build_graph(parse_yaml(text, Path("net.yaml")), "net")


def test_flop_are_those_of_accpar() -> None:
    """FC forward B Do (2 Di - 1), and so on for the other phases and for CONV (AccPar, HPCA 2020)."""
    graph = build("name: conv, op: conv, out_channels: 5, kernel: 3", "op: flatten",
                  "name: fc, op: linear, out_features: 10")  # fmt: skip
    conv, fc = (layer.nest for layer in graph.contracted.layers)
    di, do, b = 180, 10, 4
    assert fc.flop["forward"] == b * do * (2 * di - 1)
    assert fc.flop["backward"] == b * di * (2 * do - 1)
    assert fc.flop["gradient"] == di * do * (2 * b - 1)
    assert fc.macs == b * di * do
    assert conv.flop["forward"] == b * 5 * 36 * (2 * 3 * 9 - 1)
    assert conv.flop["backward"] == b * 3 * 64 * (2 * 5 * 9 - 1)
    assert conv.flop["gradient"] == 3 * 5 * 9 * (2 * b * 36 - 1)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_convolution_multiplies_as_the_convolution_whose_gradient_it_is(groups: int) -> None:
    """Its phases are that one's, forward and backward exchanged; AccPar counts those by the results."""
    graph = build(f"name: up, op: conv_transpose, out_channels: 6, kernel: 2, stride: 2, groups: {groups}",
                  f"name: down, op: conv, out_channels: 4, kernel: 2, stride: 2, groups: {groups}",
                  head=HEAD.replace("channels: 3", "channels: 4"))  # fmt: skip
    up, down = (layer.nest for layer in graph.contracted.layers)
    assert up.macs == down.macs == 4 * 4 * 6 * 64 * 4 // groups
    assert up.flop["backward"] == down.flop["forward"] == 2 * up.macs - 4 * 4 * 64
    assert up.flop["gradient"] == down.flop["gradient"] == 2 * up.macs - 4 * 6 * 4 // groups
    assert up.flop["forward"] == 2 * up.macs - 4 * 6 * 256


def test_a_pool_rounded_up_has_no_window_wholly_in_the_padding() -> None:
    line = "op: pool, mode: max, kernel: 2, stride: 2, padding: 1, rounding: up"
    graph = build(line, "op: conv, out_channels: 1, kernel: 1", head=HEAD.replace("height: 8", "height: 7"))
    assert dict(graph.layers[1].shape) == {"channels": 3, "height": 4, "width": 5}


def test_layers_may_stand_in_any_order() -> None:
    graph = build(
        "name: last, op: conv, out_channels: 1, kernel: 1, inputs: first",
        "name: first, op: conv, out_channels: 2, kernel: 1, inputs: input",
    )
    assert [layer.name for layer in graph.layers] == ["input", "first", "last"]
    assert [layer.inputs for layer in graph.layers] == [(), ("input",), ("first",)]


def test_f_out_is_counted_as_its_readers_see_it() -> None:
    """After the pool, but before a fork."""
    graph = build(
        "name: a, op: conv, out_channels: 2, kernel: 1",
        "op: pool, mode: max, kernel: 2",
        "name: b, op: conv, out_channels: 2, kernel: 1",
        "name: r, op: relu",
        "name: p, op: pool, mode: max, kernel: 1",
        "op: add, inputs: [r, p]",
    )
    a, b, join = graph.contracted.layers
    assert (a.nest.elements("output"), a.output_elements) == (4 * 2 * 64, 4 * 2 * 16)
    assert (b.output_elements, b.nest.elements("weight"), join.join) == (4 * 2 * 16, 4, True)
    assert [(tensor.producer, tensor.consumer, tensor.elements) for tensor in graph.contracted.tensors] == [
        (0, 1, 128), (1, 2, 128), (1, 2, 128),
    ]  # fmt: skip


def test_the_digest_is_of_what_a_plan_depends_on() -> None:
    line = "name: a, op: conv, out_channels: 2, kernel: 1"
    base = build(line).digest
    assert (
        build(line, head=HEAD.replace("made up", "elsewhere").replace("batch: 4", "batch: 8")).digest == base
    )
    assert build(line, head=HEAD.replace("batch: 4", "batch: 4\ndtype: float16")).digest != base
    assert build(line.replace("2", "3")).digest != base
    assert build(line + ", stride: 1").digest == base


BLOCKS = """source: made up
batch: 4
blocks:
  pair:
    parameters: [channels]
    layers:
      - {name: conv, op: conv, out_channels: $channels, kernel: 3, padding: 1}
      - {name: relu, op: relu}
  group:
    parameters: [channels]
    layers:
      - {block: pair, name: first, with: {channels: $channels}}
      - {block: pair, name: rest, with: {channels: $channels}, repeat: 3}
layers:
  - {op: input, channels: 3, height: 8, width: 8}
  - {block: group, name: one, with: {channels: 8}}
  - {block: group, name: two, with: {channels: 8}}
"""


def test_equal_layers_are_one_object_in_whatever_form_a_file_says_them() -> None:
    blocks = build_graph(parse_yaml(BLOCKS, Path("net.yaml")), "net")
    conv = "op: conv, out_channels: 8, kernel: [3, 3], padding: [1, 1], stride: 1"
    written = build(*[conv, "op: relu"] * 8)
    assert [count for _, count in blocks.kinds] == [count for _, count in written.kinds] == [1, 1, 8, 7]
    for mine, theirs in zip(blocks.layers, written.layers, strict=True):
        assert mine.op is theirs.op
        assert mine.num_parameters == theirs.num_parameters
    changed = blocks.with_fields(
        {layer.name: {"bias": False} for layer in blocks.layers if "conv" in layer.name}
    )
    assert [count for _, count in changed.kinds] == [1, 1, 8, 7]


SMALL: dict[str, object] = {
    "source": "a test",
    "batch": 64,
    "layers": [{"op": "input", "channels": 784}, {"op": "linear", "name": "fc", "out_features": 10}],
}


def test_a_mapping_is_the_network_of_a_file_with_the_same_content(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps(SMALL), encoding="utf-8")
    assert load_model(SMALL, name="small").digest == load_model(file).digest
    assert load_model(SMALL, batch=8).name == "model"
    assert load_model(SMALL, batch=8).batch == 8


def test_what_is_wrong_in_a_mapping_has_no_line() -> None:
    layers = [{"op": "input", "channels": 784}, {"op": "linear", "name": "fc"}]
    wrong = {**SMALL, "layers": layers}
    with pytest.raises(ModelError) as caught:
        load_model(wrong)
    assert str(caught.value) == "model: layers[1] 'fc': one of out_features and out; give one of them"
    endless: list[object] = []
    endless.append(endless)
    for thing in ({1}, endless):
        with pytest.raises(DocumentError, match=r"^mine: found data that no file could hold"):
            load_model({**SMALL, "blocks": thing}, name="mine")
    with pytest.raises(OptionError, match=r"^name: given together with the file 'vgg16'"):
        load_model("vgg16", name="mine")


def test_other_fields_give_the_network_of_a_file_that_says_so() -> None:
    def network(channels: int, bias: str, head: str = HEAD) -> LayerGraph:
        conv = f"name: conv, op: conv, out_channels: {channels}, kernel: 3, bias: {bias}"
        return build(conv, "op: flatten", "name: fc, op: linear, out_features: 10", head=head)

    half = HEAD.replace("batch: 4", "batch: 4\ndtype: bfloat16")
    fields = {"conv": {"out_channels": 7, "bias": False}}
    assert network(5, "true").with_fields(fields, dtype="bfloat16") == network(7, "false", half)
    assert network(5, "true").with_fields({}, name="other").name == "other"


@pytest.mark.parametrize(("fields", "dtype", "message"), [
    ({"conv2": {}}, None, "no layer 'conv2'; allowed: input, conv, flatten1; did you mean 'conv'?"),
    ({"conv": {"size": 1}}, None, "conv.size: unknown key 'size'; allowed: input_zeros,"),
    ({"conv": {"kernel": 9}}, None, "conv: found a window of 9 on 8 elements padded by 0"),
    ({}, "float7", "dtype: found 'float7'; allowed: "),
])  # fmt: skip
def test_fields_that_no_file_may_have_are_refused(
    fields: dict[str, dict[str, int]], dtype: str | None, message: str
) -> None:
    graph = build("name: conv, op: conv, out_channels: 5, kernel: 3", "op: flatten")
    with pytest.raises(InputError) as caught:
        graph.with_fields(fields, dtype=dtype)
    assert str(caught.value).startswith(message)


# Gradients, in the order of the backward phase


def network(*layers: str, name: str = "own") -> LayerGraph:
    lines = "".join(f"  - {layer}\n" for layer in layers)
    text = f"source: made up\nbatch: 64\nlayers:\n{lines}"
    return build_graph(parse_yaml(text, Path(f"{name}.yaml")), name)


def test_gradients_are_all_trained_numbers_in_the_order_of_the_backward_phase() -> None:
    for model in ("alexnet", "resnet18", "inception-v3"):
        graph = load_model(model)
        gradients = gradients_of(graph)
        assert sum(each.num_bytes for each in gradients) == 4 * graph.num_parameters
        names = [name for each in gradients for name in each.parameters]
        assert len(set(names)) == len(names)
    conv = "Conv2d_1a_3x3"
    assert gradients[0].parameters == (f"{conv}.bn.weight", f"{conv}.bn.bias", f"{conv}.conv.weight")


def test_what_is_trained_before_the_first_weight_goes_with_it() -> None:
    graph = network("{op: input, channels: 8}", "{op: batch_norm}", "{op: linear, out_features: 2}")
    (gradients,) = gradients_of(graph)
    assert gradients.parameters == (
        "linear1.weight",
        "linear1.bias",
        "batch_norm1.weight",
        "batch_norm1.bias",
    )
    assert gradients.num_bytes == 4 * (18 + 16)
