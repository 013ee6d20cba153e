import json
from pathlib import Path
from typing import Any

import pytest

from hypar import Plan, check_plan, diff_plans, load_machine, plan_model, read_plan
from hypar.errors import HyparError, UnknownNameError
from hypar.plan.request import PARAMETERS, Request
from hypar.sharding.placement import ALONE, WHOLE, grid
from tests.kit import run


def test_a_difference_names_layers_that_only_one_plan_has(tmp_path: Path) -> None:
    changes = [str(change) for change in diff_plans(plan_model("lenet-c"), plan_model("sfc"))]
    assert "conv1 layer: planned -> not in the model" in changes
    assert "fc3 layer: not in the plan -> in the model" in changes


NET = """
source: made up
batch: 8
layers:
  - {op: input, channels: 4, height: 4, width: 4}
  - {name: a, op: conv, out_channels: 4, kernel: 1}
  - {name: b, op: conv, out_channels: 4, kernel: 1}
"""


def test_a_chain_that_becomes_a_graph_is_still_checked(tmp_path: Path) -> None:
    """The recorded solver no longer suits it; the difference is shown all the same."""
    model = tmp_path / "net.yml"
    model.write_text(NET + "  - {name: c, op: conv, out_channels: 4, kernel: 1}\n")
    plan = plan_model(model, levels=1)
    plan.write(tmp_path / "plan.json")
    assert plan.solver == "chain"
    assert check_plan(tmp_path / "plan.json").ok
    model.write_text(NET + "  - {name: c, op: add, inputs: [a, b]}\n")
    verdict = check_plan(tmp_path / "plan.json")
    assert verdict.model_changed
    assert verdict.fresh.solver == "elimination"
    assert any(change.layer == "c" for change in verdict.changes)


@pytest.fixture(scope="module")
def deepa() -> Plan:
    pins = ["fc1=n2 c4", "fc2=c1", "pool2=rep", "conv2=n4 h2 w2"]
    return plan_model("lenet-c", array=[16], strategy="deepa", hardware="p100-4x4", pins=pins)


class TestGrids:
    def test_choices_devices_and_dims(self, deepa: Plan) -> None:
        assert deepa.choices("conv2") == (grid({"batch": 4, "height": 2, "width": 2}),)
        assert (deepa.choices("fc2"), deepa.choices("pool2")) == ((ALONE,), (WHOLE,))
        assert {layer: deepa.devices(layer) for layer in ("conv2", "fc1", "fc2", "pool2")} == {
            "conv2": 16, "fc1": 8, "fc2": 1, "pool2": 16,
        }  # fmt: skip
        assert deepa.dims("conv2") == ("batch*height*width",)
        assert deepa.dims("fc1") == ("batch*out_channels",)
        assert deepa.dims("fc2") == deepa.dims("pool2") == (None,)
        for ask in (deepa.choices, deepa.devices, deepa.dims):
            with pytest.raises(UnknownNameError, match="no layer 'fc9'"):
                ask("fc9")

    def test_dims_in_any_order_are_one_choice(self, deepa: Plan, tmp_path: Path) -> None:
        data, file = deepa.to_data(), tmp_path / "plan.json"
        data["splits"][0]["choices"]["conv2"] = {"width": 2, "height": 2, "batch": 4}
        file.write_text(json.dumps(data), encoding="utf-8")
        assert read_plan(file).choices("conv2") == deepa.choices("conv2")
        assert read_plan(file).dims("conv2") == deepa.dims("conv2")
        assert check_plan(file).ok


# Options, and how a command line gives them


ASKED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a search": {"levels": 2, "strategy": "optimal", "space": "all", "solver": "elimination", "pins": ("fc1=dp", "fc2@H1=mp")},
    "stages": {"array": (2, "s2", 2), "hardware": load_machine("hmc", {"duplex": "half"}), "optimizer": "adam", "schedule": "gpipe"},
    "chunks": {"batch": 32, "hardware": load_machine("hmc"), "strategy": "dp", "chunks": 2, "refine": False},
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_a_request_is_written_as_a_command_line_that_asks_for_the_same(name: str) -> None:
    asked = ASKED[name]
    command = Request(**asked).command()
    given = {word for word in command if word.startswith("--")}
    assert given - {"--set"} == {
        PARAMETERS[key].flags.split()[0] for key, value in asked.items() if value is not False
    }
    plan = run("plan", "lenet-c", *command, "--json").stdout
    assert plan == plan_model("lenet-c", **asked).to_json()


@pytest.mark.parametrize(
    "given", [{"strategy": 3}, {"space": ["batch"]}, {"pins": 3}, {"array": 4}, {"graph": []}, {"shares": True}, {"hardware": 3}, {"profile": 3}]
)  # fmt: skip
def test_a_value_of_another_kind_is_one_line(given: dict[str, Any]) -> None:
    with pytest.raises(HyparError) as error:
        plan_model("lenet-c", **given)
    assert "\n" not in str(error.value)
    assert "allowed" in str(error.value)
