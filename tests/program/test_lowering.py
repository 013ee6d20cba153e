"""The rules by which layers become steps, each on a network on which the amounts are counted by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hypar.execution.verify import verify_program
from hypar.program.lowering import lower
from hypar.sharding.placement import WHOLE, Choice, cut, grid
from tests.program.machines import array_machine
from tests.program.networks import network, perceptron

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph

CONV: dict[str, Any] = {"op": "conv", "kernel": 3, "padding": 1, "bias": False}


def image(channels: int = 4, height: int = 8, width: int = 8) -> dict[str, Any]:
    return {"op": "input", "name": "in", "channels": channels, "height": height, "width": width}


def moved(
    graph: LayerGraph,
    array: tuple[int, ...],
    choices: Mapping[str, Sequence[Choice]],
    convention: str = "moved",
) -> dict[tuple[str, str | None, str, str], list[int]]:
    """Run a program, and return what the transfers of each item moved at each level."""
    machine = array_machine(graph, array, choices)
    found = verify_program(lower(graph, machine.places, machine.cuts, convention))
    assert found.agrees
    total: dict[tuple[str, str | None, str, str], list[int]] = {}
    nothing = [0] * len(array)
    for transfer in found.transfers:
        if transfer.moved.any():
            layer, maker, phase, tensor = transfer.item
            key = (layer, maker, phase, tensor)
            total[key] = (transfer.moved + total.get(key, nothing)).tolist()
    return total


def without_gradients(
    found: dict[tuple[str, str | None, str, str], list[int]],
) -> dict[tuple[object, ...], list[int]]:
    return {key: own for key, own in found.items() if key[2] != "gradient"}


class TestWeighted:
    def test_partial_sums_are_added_up_in_the_phase_that_contracts_the_dim(self) -> None:
        graph = perceptron(4, 6, 8, batch=2)
        for dim, key, size in [
            ("in_channels", ("fc2", None, "forward", "output"), 2 * 8),
            ("out_channels", ("fc2", None, "backward", "input"), 2 * 6),
            ("batch", ("fc2", None, "gradient", "weight"), 6 * 8),
        ]:
            found = moved(graph, (2,), {"fc1": [cut("batch", 2)], "fc2": [cut(dim, 2)]})
            assert {own: found[own] for own in found if own[:2] == ("fc2", None)} == {key: [2 * size]}

    @pytest.mark.parametrize(("dim", "elements"), [("batch", 2 * 6), ("in_channels", 0), ("out_channels", 0)])
    def test_the_gradient_of_a_bias_is_added_up_over_samples_alone(self, dim: str, elements: int) -> None:
        found = moved(perceptron(4, 6, bias=True), (2,), {"fc1": [cut(dim, 2)]})
        assert found.get(("fc1", None, "gradient", "bias"), [0]) == [elements]

    def test_weights_follow_the_rows_of_an_image_that_is_cut(self) -> None:
        """Of a flattened image every device has the channels of its rows, which are no range."""
        layers = [image(), {**CONV, "name": "conv", "out_channels": 4}, {"op": "flatten"}]
        graph = network(*layers, {"op": "linear", "name": "fc", "out_features": 6, "bias": False})
        found = moved(graph, (4,), {"conv": [cut("height", 4)], "fc": [cut("in_channels", 4)]})
        assert without_gradients(found) == {("fc", None, "forward", "output"): [2 * 3 * 8 * 6]}


class TestBatchNorm:
    graph = network(
        {"op": "input", "channels": 4},
        {"op": "linear", "name": "fc", "out_features": 6},
        {"op": "batch_norm", "name": "bn"},
    )

    @pytest.mark.parametrize(
        ("dim", "elements"), [("batch", 2 * 2 * 3 * 6), ("in_channels", 0), ("out_channels", 0)]
    )
    def test_two_sums_a_channel_are_added_up_each_way(self, dim: str, elements: int) -> None:
        found = moved(self.graph, (4,), {"fc": [cut(dim, 4)]})
        for phase in ("forward", "backward"):
            assert found.get(("bn", None, phase, "statistics"), [0]) == [elements]

    def test_sums_run_over_rows(self) -> None:
        graph = network(
            image(), {**CONV, "name": "conv", "out_channels": 6}, {"op": "batch_norm", "name": "bn"}
        )
        found = moved(graph, (2, 2), {"conv": [cut("height", 2), cut("width", 2)]})
        assert found["bn", None, "forward", "statistics"] == [2 * 2 * 6, 2 * 2 * 2 * 6]


class TestPools:
    def pooled(self, mode: str, **fields: Any) -> LayerGraph:
        conv = {**CONV, "name": "conv", "out_channels": 6}
        return network(image(), conv, {"op": "pool", "name": "pool", "mode": mode, **fields}, batch=2)

    def test_a_global_average_is_added_up(self) -> None:
        found = moved(self.pooled("average", window="global"), (4,), {"conv": [cut("height", 4)]})
        assert without_gradients(found) == {("pool", None, "forward", "output"): [2 * 3 * 2 * 6]}

    @pytest.mark.parametrize("mode", ["max", "average"])
    def test_windows_over_a_cut_read_its_rows_and_return_their_error(self, mode: str) -> None:
        """The lower half's first window reads the last row of the upper half, and sends its error back."""
        graph = self.pooled(mode, kernel=3, stride=2, padding=1)
        row = 2 * 6 * 8
        found = without_gradients(moved(graph, (2,), {"conv": [cut("height", 2)]}))
        assert found.pop(("pool", "conv", "forward", "input")) == [row]
        assert found == {("pool", None, "backward", "input"): [row]}


class TestHalos:
    def test_a_window_reads_the_rows_beside_its_own(self) -> None:
        graph = network(
            image(), {**CONV, "name": "a", "out_channels": 4}, {**CONV, "name": "b", "out_channels": 4}
        )
        row = 8 * 4 * 8
        found = moved(graph, (4,), {"a": [cut("height", 4)], "b": [cut("height", 4)]})
        assert found["b", "a", "forward", "input"] == [2 * 3 * row]
        assert found["b", None, "backward", "input"] == [2 * 3 * row]

    def test_terms_of_border_rows_go_straight_to_their_owner_under_direct(self) -> None:
        graph = network(
            image(), {**CONV, "name": "a", "out_channels": 4}, {**CONV, "name": "b", "out_channels": 4}
        )
        found = moved(graph, (4,), {"a": [cut("height", 4)], "b": [cut("height", 4)]}, "direct")
        assert found["b", "a", "backward", "input"] == [2 * 3 * 8 * 4 * 8]

    def test_windows_with_gaps_read_what_they_meet(self) -> None:
        graph = network(
            image(), {**CONV, "name": "a", "out_channels": 4},
            {"op": "conv", "name": "b", "out_channels": 4, "kernel": 1, "stride": 2}, batch=4,
        )  # fmt: skip
        found = moved(graph, (2,), {"a": [cut("batch", 2)], "b": [cut("out_channels", 2)]})
        assert found["b", "a", "forward", "input"] == [4 * 4 * 8 * 8 // 4]


class TestGroups:
    def grouped(self, *groups: int) -> LayerGraph:
        convs = [
            {**CONV, "name": f"conv{number}", "out_channels": 8, "groups": own}
            for number, own in enumerate(groups)
        ]
        return network(image(8), *convs, batch=2)

    def test_groups_and_channels_are_matched_by_their_pieces(self) -> None:
        """Two groups of four channels, read by halves of each: the inner halves change places."""
        found = moved(
            self.grouped(1, 2), (2,), {"conv0": [cut("out_channels", 2)], "conv1": [cut("in_channels", 2)]}
        )
        assert found["conv1", "conv0", "forward", "input"] == [2 * 8 * 8 * 8 // 2]
        found = moved(
            self.grouped(1, 2), (2,), {"conv0": [cut("out_channels", 2)], "conv1": [cut("groups", 2)]}
        )
        assert found == {}


class TestJoins:
    def test_a_join_of_two_orders_takes_that_of_one(self) -> None:
        """Samples in two orders, as one branch divides them at the inner level first."""
        layers: list[dict[str, Any]] = [
            {"op": "input", "name": "in", "channels": 4},
            {"op": "linear", "name": "a", "out_features": 8, "bias": False},
            {"op": "linear", "name": "b", "out_features": 8, "inputs": ["in"], "bias": False},
            {"op": "linear", "name": "c", "out_features": 8, "bias": False},
            {"op": "add", "name": "sum", "inputs": ["a", "c"]},
        ]
        graph = network(*layers, batch=8)
        both = [cut("batch", 2)] * 2
        found = moved(
            graph, (2, 2), {"a": both, "b": [cut("in_channels", 2), cut("batch", 2)], "c": both, "sum": both}
        )
        assert without_gradients(found) == {
            ("b", None, "forward", "output"): [2 * 8 * 8, 0],
            ("c", "b", "backward", "input"): [8 * 8, 0],
            ("sum", "c", "forward", "input"): [8 * 8 // 2, 0],
            ("sum", "c", "backward", "input"): [8 * 8 // 2, 0],
        }

    @pytest.mark.parametrize("convention", ["moved", "direct"])
    def test_a_concat_cut_in_channels_has_its_part_of_every_input(self, convention: str) -> None:
        """Its channels are no range, but a reader may take those that its devices have: 73,728 bytes, not 81,920."""
        layers: list[dict[str, Any]] = [
            image(2),
            {"op": "conv", "name": "a", "out_channels": 16, "kernel": 1, "bias": False},
            {"op": "conv", "name": "b", "out_channels": 8, "kernel": 1, "bias": False, "inputs": ["in"]},
            {"op": "concat", "name": "both", "inputs": ["a", "b"]},
            {"op": "conv", "name": "read", "out_channels": 4, "kernel": 1, "bias": False},
        ]
        cuts = {
            "a": [cut("batch", 8)],
            "b": [cut("batch", 8)],
            "both": [grid({"width": 2, "channels": 4})],
            "read": [grid({"batch": 2, "in_channels": 2, "out_channels": 2})],
        }
        found = moved(network(*layers, batch=8), (8,), cuts, convention)
        assert 4 * found["read", "both", "forward", "input"][0] == 73_728

    def test_replicas_of_a_join_send_back_one_error(self) -> None:
        layers: list[dict[str, Any]] = [
            {"op": "input", "name": "in", "channels": 8},
            {"op": "linear", "name": "a", "out_features": 8, "bias": False},
            {"op": "add", "name": "sum", "inputs": ["a", "a"]},
        ]
        found = moved(network(*layers, batch=4), (2,), {"a": [cut("out_channels", 2)], "sum": [WHOLE]})
        assert found == {("sum", "a", "forward", "input"): [2 * 4 * 8]}


class TestUneven:
    @pytest.mark.parametrize("convention", ["moved", "fused", "direct"])
    @pytest.mark.parametrize(("batch", "ways"), [(6, 4), (7, 2), (2, 4)])
    def test_samples_that_do_not_divide(self, batch: int, ways: int, convention: str) -> None:
        graph = perceptron(4, 6, 8, batch=batch, bias=True)
        found = moved(
            graph, (ways,), {"fc1": [cut("batch", ways)], "fc2": [cut("out_channels", ways)]}, convention
        )
        assert found["fc2", "fc1", "forward", "input"] == [(ways - 1) * batch * 6]


class TestFused:
    def test_sums_go_where_they_are_read(self) -> None:
        graph = perceptron(8, 8, 8, batch=4)
        found = moved(graph, (2,), {"fc1": [cut("in_channels", 2)], "fc2": [cut("in_channels", 2)]}, "fused")
        assert without_gradients(found) == {
            ("fc1", None, "forward", "output"): [4 * 8],
            ("fc2", None, "forward", "output"): [2 * 4 * 8],
            ("fc1", None, "backward", "output"): [4 * 8],
        }

    def test_sums_that_two_layers_read_go_to_all(self) -> None:
        layers: list[dict[str, Any]] = [
            {"op": "input", "name": "in", "channels": 8},
            {"op": "linear", "name": "a", "out_features": 8, "bias": False},
            {"op": "linear", "name": "b", "out_features": 8, "bias": False},
            {"op": "add", "name": "sum", "inputs": ["a", "b"]},
        ]
        cuts = {"a": [cut("in_channels", 2)], "b": [cut("in_channels", 2)], "sum": [cut("batch", 2)]}
        found = moved(network(*layers, batch=4), (2,), cuts, "fused")
        assert found["a", None, "forward", "output"] == [2 * 4 * 8]
