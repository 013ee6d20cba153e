"""CGDP (ICPE 2018): its rule, Algorithm 1 and cost model, besides the rows of its page."""

from collections.abc import Callable

import cgdp_2018 as cgdp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar import load_model
from hypar.network.graph import gradients_of
from hypar.planning.chunks import rule_sizes

EACH = (1,) * 8


@pytest.mark.parametrize("count", range(1, 14))
def test_the_rule_is_that_of_plans(count: int) -> None:
    """l = 6, k = 3: (6, 5, 4), (3), (2), (1); l / k - 1 chunks where k divides l, else the whole part of l / k."""
    assert cgdp.rule(6, 3) == (3, 1, 1, 1)
    for size in range(1, count + 3):
        assert cgdp.rule(count, size) == rule_sizes(count, size)


@pytest.mark.parametrize("count", range(1, 11))
def test_groupings_are_all_and_each_once(count: int) -> None:
    found = list(cgdp.groupings(count))
    assert len(set(found)) == len(found) == 2 ** (count - 1)
    assert all(sum(sizes) == count and min(sizes) > 0 for sizes in found)


def printed(lapse: Callable[[int], float], step: int, reach: int) -> tuple[list[int], int, int]:
    """Algorithm 1 line by line, iteration by iteration: the sizes measured, the best one, and the last iteration."""
    measured: list[int] = []
    chunk = best_chunk = 1  # line 2
    lapse_min = float("inf")
    iteration = 1
    while True:  # line 5, of a training long enough
        if iteration % 10 == 0:  # line 7
            if chunk >= best_chunk + step * reach:  # line 8
                return measured, best_chunk, iteration  # lines 9 and 10
            measured.append(chunk)
            if lapse(chunk) < lapse_min:  # lines 13 and 14
                lapse_min, best_chunk = lapse(chunk), chunk  # lines 15 and 16
            chunk = chunk + 1 if chunk < step else chunk + step  # lines 18 to 22
        iteration += 1  # line 26


@given(
    seconds=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    step=st.integers(1, 12),
    reach=st.integers(1, 6),
)
def test_the_search_is_algorithm_1_line_by_line(seconds: list[int], step: int, reach: int) -> None:
    def lapse(size: int) -> float:
        return seconds[size - 1] if size <= len(seconds) else seconds[0]

    found = cgdp.algorithm_1(lapse, step, reach)
    assert ([size for _, size, *_ in found.trials], found.size, found.stopped) == printed(lapse, step, reach)


@pytest.mark.parametrize("network", ["alexnet-2012", "googlenet", "resnet152"])
def test_parameters_are_the_gradients_that_plans_exchange(network: str) -> None:
    held = [each.num_bytes // 4 for each in gradients_of(load_model(network))]
    assert list(cgdp.parameters(network)) == held[::-1]


def test_table_4_each_layer_as_its_formula() -> None:
    """T_i is the sum over j from i to l of bp_j + as, and aa_i + bc_i; the fitted as is 0.8701 ms."""
    own = cgdp.training("AlexNet")
    assert own.sync == pytest.approx(0.8701, abs=5e-5)
    for index, span in enumerate(own.spans(EACH), 1):
        before = sum(backward + own.sync for backward in own.backward[:index])
        assert span == pytest.approx(before + own.exchange[index - 1])


def test_table_2_the_overheads_of_vgg_16_by_hand() -> None:
    """The exchange by bytes, and 16 synchronisations with the exchange of conv1's 1,792 parameters at Table 4's rates."""
    own, share = cgdp.training("VGGNet-16"), 1 / 60_965_224
    assert own.typical_exchange == pytest.approx(43 * 138_357_544 * share, rel=1e-12)
    exchange = sum(map(sum, cgdp.EXCHANGE.values()))
    by_hand = 16 * cgdp.fitted_sync() + exchange * 1792 * share
    assert own.overhead((1,) * 16) == pytest.approx(by_hand, rel=1e-9)
