"""Networks of torchvision and transformers as ONNX files that PyTorch writes, their weights beside them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hypar
from tests.importers.plans import facts, import_network
from tests.importers.test_known_networks import ROWS, Built, language

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.filterwarnings("ignore")]

SMALL = {"num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 512, "num_key_value_heads": 8}

FILES: dict[str, tuple[Callable[[], Built], int, str | None]] = {
    # The exporter folds batch normalisations into convolutions.
    "resnet50": (ROWS["resnet50"], 18, None),
    "vit_b_16": (ROWS["vit_b_16"], 18, "vit-b16"),
    "gpt2": (ROWS["gpt2"], 18, "gpt2"),
    "gpt2, opset 23": (ROWS["gpt2"], 23, "gpt2"),
    "bert, two layers": (
        language("BertForMaskedLM", "BertConfig", length=128, num_hidden_layers=2),
        18,
        None,
    ),
    "llama, two layers": (language("LlamaForCausalLM", "LlamaConfig", length=128, **SMALL), 18, None),
}
"""How to build a network, the version of the operators, and the model that comes with hypar."""


@pytest.mark.parametrize("name", FILES)
def test_all_of_a_file_is_recognised(name: str, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is an extra")
    pytest.importorskip("onnxscript", reason="torch.onnx needs onnxscript")
    build, version, shipped = FILES[name]
    module, example = build()
    for held in module.parameters():
        # Tensors of equal values would be stored as one.
        held.data.normal_()
    file = tmp_path / "net.onnx"
    torch.onnx.export(module.train(), example, file, dynamo=True, opset_version=version, external_data=True)
    found = import_network("onnx", str(file), (), partial=True)
    network = found.graph()
    assert found.coverage.shares[0] == 1.0
    assert found.coverage.shares[1] > 0.999
    assert file.stat().st_size < 2**23
    if shipped:
        assert facts(network, strategy="hypar") == facts(hypar.load_model(shipped), strategy="hypar")
