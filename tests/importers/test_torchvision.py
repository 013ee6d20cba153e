"""The networks of torchvision: all of them recognised, and three equal to the models that come with hypar."""

from __future__ import annotations

import resource
import time
from importlib import import_module
from typing import Any

import pytest

import hypar
from tests.importers.plans import facts


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch, imported where tests run and not where they are collected."""
    return pytest.importorskip("torch", reason="PyTorch is an extra")


@pytest.fixture(scope="module")
def vision(torch: Any) -> Any:
    """Torchvision's models; its own operators may be missing in a build for another PyTorch."""
    import importlib.util  # noqa: PLC0415

    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(
                f"torchvision::{name}", "(Tensor boxes, Tensor scores, float most) -> Tensor"
            )
    return pytest.importorskip("torchvision")


ROWS = {
    "resnet50": ({}, 224, {}),
    "vgg16": ({}, 224, {}),
    "inception_v3": ({"aux_logits": False, "init_weights": False}, 299, {}),
    "densenet121": ({}, 224, {}),
    "mobilenet_v2": ({}, 224, {}),
    "mobilenet_v3_small": ({}, 224, {"mul": 9}),
    "efficientnet_b0": ({}, 224, {"mul": 16}),
}
"""Arguments, size of the image, and what is opaque: the products of squeeze and excitation."""

SHIPPED = {"resnet50": "resnet50", "vgg16": "vgg16", "inception_v3": "inception-v3"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROWS)
def test_all_operations_and_parameters_are_recognised(name: str, torch: Any, vision: Any) -> None:
    counter_of = import_module("torch.utils.flop_counter").FlopCounterMode

    from hypar.importers.imported import imported  # noqa: PLC0415
    from hypar.importers.torch_capture import capture  # noqa: PLC0415
    from hypar.importers.torch_rules import TABLE  # noqa: PLC0415

    options, size, opaque = ROWS[name]
    begin = time.perf_counter()
    with torch.device("meta"):
        module = torch.nn.Sequential(getattr(vision.models, name)(**options), torch.nn.Softmax(1))
        example = torch.empty(2, 3, size, size)
    found = imported(capture(module, (example,), name=name, where=name), TABLE, batch=256, partial=True)
    network = found.graph()
    spent = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name}: {found.coverage}; {spent:.1f} s, {peak:.0f} MB")  # noqa: T201
    assert found.coverage.shares == (1.0, 1.0)
    assert found.coverage.opaque == opaque
    with counter_of(display=False) as counter:
        module.train()(example)
    assert 2 * network.macs(batch=2) == counter.get_total_flops()
    assert network.num_parameters == sum(held.numel() for held in module.parameters())
    if name in SHIPPED:
        for strategy in ("dp", "hypar"):
            assert facts(network, strategy=strategy) == facts(
                hypar.load_model(SHIPPED[name]), strategy=strategy
            )
