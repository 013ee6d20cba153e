from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from hypar import Plan, check_plan, diff_plans, plan_model, read_plan, score_plan
from hypar.errors import PlanError, UnknownNameError
from hypar.plan.plan import rooted
from hypar.sharding.placement import ALONE, WHOLE, grid

if TYPE_CHECKING:
    from pathlib import Path


def test_a_copy_with_other_splits_derives_its_groups_from_them() -> None:
    plan = plan_model("lenet-c", levels=2)
    assert len(plan.groups[0].splits) == 2
    copied = plan.model_copy(update={"root": rooted(plan.splits[:1], None)})
    assert len(copied.groups[0].splits) == 1


def test_a_plan_is_a_table_in_a_terminal_and_a_grid_in_a_notebook() -> None:
    plan = plan_model("lenet-c", levels=2, inter_weight=0.5)
    assert repr(plan) == str(plan) == plan.render("table")
    assert "communication between layers counts 0.5 times" in str(plan)
    html = plan._repr_html_()
    assert html == plan.render("html")
    assert html.count('<span class="choice"') == len(plan.layers) * len(plan.array)
    assert "| fc1 | mp | mp |" in plan.render("markdown")


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
    """A plan of grids, some of whose layers leave devices idle."""
    pins = ["fc1=n2 c4", "fc2=c1", "pool2=rep", "conv2=n4 h2 w2"]
    return plan_model("lenet-c", array=[16], strategy="deepa", hardware="p100-4x4", pins=pins)


def written(plan: Plan, tmp_path: Path, **changes: Any) -> Path:
    """The file of a plan with some values replaced, each by the path to it."""
    data = plan.to_data()
    for path, value in changes.items():
        inside = data
        *way, last = (int(part) if part.isdecimal() else part for part in path.split("__"))
        for part in way:
            inside = inside[part]  # type: ignore[index]
        inside[last] = value  # type: ignore[index]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


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
        turned = {"width": 2, "height": 2, "batch": 4}
        file = written(deepa, tmp_path, splits__0__choices__conv2=turned)
        assert read_plan(file).choices("conv2") == deepa.choices("conv2")
        assert read_plan(file).dims("conv2") == deepa.dims("conv2")
        assert check_plan(file).ok

    @pytest.mark.parametrize(
        ("path", "value", "found"),
        [
            ("graph", "contracted", "graph: found 'contracted'; allowed: 'operators'"),
            ("graph", "operater", "graph: found 'operater'; allowed: 'operators'; did you mean 'operators'?"),
            ("profile", {"name": "p"}, "profile.digest: 'digest' is missing"),
            ("cost__parameters", {"mode": []}, "cost.parameters.mode: found []; allowed: "),
            ("space", "batch*batch", "space: found 'batch*batch'; allowed: each dim once"),
        ],
    )
    def test_another_record_that_is_none_is_refused(
        self, deepa: Plan, tmp_path: Path, path: str, value: Any, found: str
    ) -> None:
        file = written(deepa, tmp_path, **{path: value})
        with pytest.raises(PlanError) as caught:
            read_plan(file)
        assert str(caught.value).startswith(f"{file}: {found}")

    @pytest.mark.parametrize(
        ("path", "value", "checked", "scored"),
        [
            ("cost__parameters", {"mode": "nonsense"}, "mode: found 'nonsense'; allowed: exact, serial",
             "cost: found 'nonsense'; allowed: exact, serial"),
            ("cost__parameters", {"inter_weight": 1}, "cost 'deepa': has no parameter 'inter_weight'; allowed: mode",
             "cost: has no parameter 'inter_weight'; allowed: mode"),
            ("cost__name", "depa", "no cost 'depa'; allowed: accpar, deepa, time, volume; did you mean 'deepa'?",
             "cost: no cost 'depa'; allowed: accpar, deepa, time, volume; did you mean 'deepa'?"),
            ("space", "height*width", "space 'height*width': no dim of linear 'fc1'", ""),
            ("pins", ["fc1=n3"], "pin 'fc1=n3': found 3 devices at a level of 16 ways", ""),
            ("profile", {"name": "p", "digest": "x"}, "profile.name: no profile 'p'; looked beside the plan", ""),
            ("splits__0__choices__fc1", {"height": 2}, "", "splits: 'fc1' is cut in height; allowed: its dims, batch, "),
            ("splits__0__choices__pool1", {"out_channels": 2}, "", "splits: 'pool1' is cut in out_channels; allowed: "),
            ("splits__0__choices__fc1", {}, "", "splits: 'fc1' is done whole; allowed: a dim that is cut; joins are done whole"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_followed_names_the_file(
        self, deepa: Plan, tmp_path: Path, path: str, value: Any, checked: str, scored: str
    ) -> None:
        """A score needs less of a plan than a check does."""
        file = written(deepa, tmp_path, **{path: value})
        for judge, found in ((check_plan, checked), (score_plan, scored)):
            if not found:
                judge(file)
                continue
            with pytest.raises(PlanError) as caught:
                judge(file)
            assert str(caught.value).startswith(f"{file}: {found}")

    def test_a_plan_without_its_pools_is_another_model_s(self, deepa: Plan, tmp_path: Path) -> None:
        data = deepa.to_data() | {"pins": []}
        del data["graph"]
        file = tmp_path / "plan.json"
        file.write_text(json.dumps(data), encoding="utf-8")
        with pytest.raises(PlanError, match="splits: the layers are not those of 'lenet-c'"):
            score_plan(file)
        assert "pool1 layer: planned -> not in the model" in map(str, check_plan(file).changes)

    def test_a_table_counts_devices_and_says_which_are_one_or_all(self, deepa: Plan) -> None:
        rows = {line.split()[0]: line.split() for line in str(deepa).splitlines() if line}
        assert rows["conv2"][1:5] == ["n4", "c1", "h2", "w2"]
        assert rows["fc2"][1:3] == ["n1", "c1"]
        assert rows["pool2"][1] == "rep"
        devices = [
            re.findall(r"(?:\b[a-z]\d+|rep) (\d+) ", " ".join(rows[layer]))[-1]
            for layer in ("conv2", "fc1", "fc2", "pool2")
        ]
        assert devices == ["16", "8", "1", "16"]
        assert " devices  received " in str(deepa)
        assert " devices  received " not in str(plan_model("lenet-c", levels=2, hardware="hmc"))

    def test_differences_name_degrees(self, deepa: Plan) -> None:
        other = plan_model(
            "lenet-c",
            array=[16],
            strategy="deepa",
            hardware="p100-4x4",
            pins=["conv2=n4 h4", "fc2=n2", "fc1=n16"],
        )
        changes = [str(change) for change in diff_plans(deepa, other)]
        assert "conv2 H1: batch x4, height, width -> batch x4, height x4" in changes
        assert "fc2 H1: batch x1 -> batch" in changes
        assert "fc1 H1: batch, out_channels x4 -> batch x16" in changes
        assert not diff_plans(deepa, deepa)


@pytest.mark.parametrize(
    ("numbering", "message"),
    [
        ({"fc1": [{"batch": 2}, {"batch": 4}]}, "allowed: several dims"),
        ({"fc1": [{"in_channels": 2}, {"out_channels": 2}]}, "allowed: several dims"),
        ({"fc1": [{"batch": 2, "in_channels": 2}]}, "numbering.fc1"),
    ],
)
def test_numberings_that_do_not_suit_are_refused(tmp_path: Path, numbering: Any, message: str) -> None:
    plan = plan_model("sfc", array=[8], strategy="optimal")
    data = plan.to_data()
    data["splits"][0]["numbering"] = numbering
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(data))
    with pytest.raises(PlanError, match=re.escape(message)):
        read_plan(file)
