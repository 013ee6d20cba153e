"""DeePa (2018): its tables, its configurations, and the bytes and times of its figures."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar import load_model, plan_model
from hypar.costs.base import load_cost
from hypar.errors import OptionError
from hypar.machine.load import load_machine
from hypar.machine.profiles import Profile, ProfiledModel
from hypar.planning.searches.base import Question
from hypar.sharding.levels import WHOLE_LAYER, levels_of
from hypar.sharding.placement import Choice, cut, grid
from hypar.sharding.space import parse_space
from hypar.solve.elimination.rules import reduced
from hypar.solve.solvers.base import load_solver
from hypar.studies.sections.deepa.configurations import seconds_of, words_of
from hypar.studies.sections.deepa.counting import READINGS, count_bytes
from hypar.studies.sections.deepa.estimates import K80_PEAK, TABLE_2, TABLE_3, Estimates, implied, options_of
from hypar.studies.sections.deepa.layers import (
    FACTOR,
    FASTEST,
    LAST,
    TABLE_1,
    THIRD,
    computing,
    on_devices,
    shape_of,
)
from hypar.studies.sections.deepa.networks import ALEXNET, CLASSES_22K, networks
from hypar.studies.sections.deepa.plans import EXACT, IMAGE, MACHINE, OWT, PUBLISHED, SERIAL, Cut, Plans
from hypar.studies.sections.deepa.throughput import BATCHES, BY_BATCH, K80_GB, STEP_S
from hypar.studies.sections.deepa.transfers import (
    FEWER,
    MODULES,
    MORE_IMAGE,
    MORE_OWN,
    MOST,
    OWN_FACTOR,
    OWT_FACTOR,
    REDUCED,
    TIMELINE,
    TIMELINE_BATCH,
    TIMELINE_MB,
    TIMELINE_WAYS,
    factors,
    moved,
)
from tests.problems import random_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.network.contraction import CutLayer
    from hypar.network.graph import LayerGraph

BATCH = 512
NETWORKS = ("alexnet", "vgg16", "inception-v3")
LAST_DIGIT = 0.051
"""Tables print one digit after the point, now rounded, now cut short."""


@pytest.fixture(scope="module")
def graphs() -> dict[str, LayerGraph]:
    return {name: load_model(name).with_batch(BATCH) for name in NETWORKS}


@pytest.fixture(scope="module")
def paper() -> dict[str, LayerGraph]:
    """The paper's networks: its AlexNet is narrower than the model file."""
    return networks()


@pytest.fixture(scope="module")
def plans() -> Plans:
    return Plans(load_machine(MACHINE))


@pytest.fixture(scope="module")
def beside() -> Plans:
    """With transfers beside computation, as the paper has them."""
    return Plans(load_machine(MACHINE, {"overlap": "full"}))


@pytest.fixture(scope="module", params=[TABLE_2, TABLE_3], ids=["table 2", "table 3"])
def estimates(request: pytest.FixtureRequest) -> Estimates:
    found: Estimates = request.param
    return found


def test_tables_2_and_3_each_row(estimates: Estimates, paper: dict[str, LayerGraph]) -> None:
    layer, options = options_of(estimates, paper[estimates.model])
    for choice, published in estimates.rows.items():
        assert choice in options
        ours = estimates.ours(choice, layer)
        for own, printed in zip(ours, published, strict=True):
            # 1075 stands for 1075.2, 1.28 for 1.275; all others are right to their one digit.
            assert own == pytest.approx(printed, abs=0.5 if printed > 1000 else LAST_DIGIT)


def test_tables_2_and_3_the_best_choice(estimates: Estimates, paper: dict[str, LayerGraph]) -> None:
    layer, options = options_of(estimates, paper[estimates.model])
    totals = estimates.totals(layer, options)
    best = min(totals, key=totals.__getitem__)
    assert best == {2: cut("out_channels", 2), 3: grid({"height": 2, "width": 2})}[estimates.number]
    assert totals[best] == pytest.approx({2: 27.0, 3: 127.5}[estimates.number], abs=LAST_DIGIT)


def test_table_2_from_shapes_a_bandwidth_and_a_measured_time(graphs: dict[str, LayerGraph]) -> None:
    """One bandwidth gives both X and W: the cost itself, with the layer's time from a profile, gives the table."""
    graph = graphs["alexnet"]
    nodes = graph.operators
    names = [layer.name for layer in nodes.layers]
    place = names.index("fc1")
    tensor = next(tensor for tensor in nodes.tensors if tensor.consumer == place)
    bandwidth = tensor.elements * 4 / TABLE_2.send * 1e3
    machine = load_machine(
        "tpu-v3", {"topology": "switch", "link_bandwidth": f"{bandwidth} B/s", "latency": "0 s"}
    )
    measured = Profile(
        model=ProfiledModel(name=graph.name, digest=graph.digest, batch=BATCH),
        device="the paper's",
        ways=16,
        seconds={"fc1": {"n1 c1": TABLE_2.whole / 1e3}},
    )
    cost = load_cost(
        "deepa", {"mode": "paper"}, {"machine": machine, "optimizer": "sgd", "profile": measured}
    )
    (level,) = levels_of((16,), 4)
    options = parse_space("batch*out_channels").choices(nodes.layers[place], 16, idle=True)
    before: tuple[Choice, ...] = (cut("batch", 16),)
    items = cost.layer_costs(level, nodes.layers[place], options, WHOLE_LAYER)
    ends: tuple[CutLayer, CutLayer] = (nodes.layers[tensor.producer], nodes.layers[place])
    received = cost.tensor_costs(level, tensor, ends, (before, options), WHOLE_LAYER)[0, 0]
    total = (received + items["update"][0] + items["compute"][0]) * 1e3
    for choice, published in TABLE_2.rows.items():
        assert total[options.index(choice)] == pytest.approx(sum(published), rel=1e-3)
    assert options[int(np.argmin(total))] == cut("out_channels", 2)


def test_paper_mode_of_a_whole_network_is_the_sum_of_its_estimates(graphs: dict[str, LayerGraph]) -> None:
    plan = plan_model(
        graphs["alexnet"],
        array=[16],
        strategy="deepa",
        mode="paper",
        hardware="p100-4x4",
        pins="*=batch",
        convention="paper",
    )
    # Equal grids move nothing; each weight is sent once for each of 16 copies.
    weights = sum(layer.einsum.elements("weight") for layer in graphs["alexnet"].operators.layers)
    per_byte = load_machine("p100-4x4").links((16,))[0].seconds_per_byte["neighbours"]
    alone = plan_model(
        graphs["alexnet"],
        array=[16],
        strategy="deepa",
        mode="paper",
        hardware="p100-4x4",
        pins="*=batch1",
        convention="paper",
    )
    assert plan.cost.value == pytest.approx(alone.cost.value / 16 + 16 * 4 * weights * per_byte, rel=1e-12)


def test_paper_mode_is_of_one_level() -> None:
    with pytest.raises(OptionError, match="mode 'paper': found an array of 2x4; allowed: one level"):
        plan_model(
            "lenet-c", array=[2, 4], strategy="deepa", mode="paper", hardware="p100-4x4", convention="paper"
        )


def test_70_configurations_of_a_convolution_and_15_of_a_linear_layer(graphs: dict[str, LayerGraph]) -> None:
    layers = {layer.name: layer for layer in graphs["vgg16"].operators.layers}
    space = parse_space("batch*out_channels*height*width")
    assert len(space.choices(layers["conv1_1"], 16, idle=True)) == 70
    assert len(space.choices(layers["fc1"], 16, idle=True)) == 15


def test_table_2_five_times_less_than_owt_and_what_the_given_times_imply(
    paper: dict[str, LayerGraph],
) -> None:
    totals = TABLE_2.totals(*options_of(TABLE_2, paper[ALEXNET]))
    assert totals[cut("out_channels", 16)] / min(totals.values()) == pytest.approx(5, abs=LAST_DIGIT)
    (x, w, c), (x3, w3, c3) = (implied(one, paper[one.model]) for one in (TABLE_2, TABLE_3))
    # Table 2's bytes by hand: 512 x 9216 inputs and 9216 x 4096 weights of 4 bytes, over one bandwidth.
    assert x == pytest.approx(512 * 9216 * 4 / 8.4e-3)
    assert w == pytest.approx(x)
    assert x3 == pytest.approx(512 * 512 * 14 * 14 * 4 / 39.2e-3)
    assert w3 == pytest.approx(512 * 512 * 9 * 4 / 8.4e-3)
    # Three phases of two operations; one of VGG-16's layers is about as fast as AlexNet's, both above a K80's peak.
    assert c == pytest.approx(6 * 512 * 9216 * 4096 / 20.4e-3, rel=1e-3)
    assert c3 == pytest.approx(c, rel=0.03)
    assert min(c, c3) > K80_PEAK


def test_table_1_each_shape(paper: dict[str, LayerGraph]) -> None:
    """All but C2's first layer: Conv8 of VGG-16 reads 256 channels."""
    unlike = []
    for name, row in TABLE_1.items():
        layers = {layer.name: layer for layer in paper[row.model].layers}
        unlike += [(name, layer) for layer in row.layers if shape_of(layers[layer]) != row.sizes]
    assert unlike == [("C2", "conv4_1")]


def test_figure_1_image_parallelism_is_the_best_by_a_roofline(paper: dict[str, LayerGraph]) -> None:
    """Against the paper, which measured it to be generally suboptimal; the worst choice differs, as published."""
    machine, spread = load_machine(MACHINE), []
    for row in TABLE_1.values():
        layers = {layer.name: layer for layer in paper[row.model].operators.layers}
        seconds = computing(layers[row.layers[-1]], machine)
        assert seconds[cut("batch", 16)] == pytest.approx(min(seconds.values()), rel=1e-12)
        spread.append(max(seconds.values()) / min(seconds.values()))
    assert sum(one > 1.05 for one in spread) == 6


def test_figure_2_where_two_layers_of_inception_v3_are_fastest(paper: dict[str, LayerGraph]) -> None:
    machine = load_machine(MACHINE)
    for name, published in FASTEST.items():
        times = on_devices(paper["inception-v3"], name, machine, "exact")
        assert min(times, key=times.__getitem__) == published
    # By the paper's estimates each device adds an update of the whole weight.
    estimated = {name: on_devices(paper["inception-v3"], name, machine, "paper") for name in FASTEST}
    assert min(estimated[THIRD], key=estimated[THIRD].__getitem__) == 16
    assert min(estimated[LAST], key=estimated[LAST].__getitem__) == 1


def test_figure_3_the_factor_by_hand(paper: dict[str, LayerGraph], plans: Plans) -> None:
    """Weights 25088 x 4096 and inputs 25088 a sample: moved both ways the factor is 4096 over the batch."""
    channels = Cut(name="channels", pins=("*=n2", "fc1=c2"))
    for batch in (512, 128):
        found = [plans.bytes_of(paper["vgg16"].with_batch(batch), way, 2) for way in (IMAGE, channels)]
        own = found[0].gradients - found[1].gradients
        assert own == 2 * 25088 * 4096 * 4
        inputs = 2 * 25088 * batch * 4
        assert own / inputs == 4096 / batch
    assert round(4096 / FACTOR) == 341


def test_counts_of_bytes_are_what_the_engine_moves(graphs: dict[str, LayerGraph], plans: Plans) -> None:
    for graph in graphs.values():
        for way in (IMAGE, OWT, SERIAL, EXACT):
            counted = READINGS["moved"](plans.bytes_of(graph, way))
            assert counted == pytest.approx(plans.score(graph, way).communication_bytes, rel=1e-12)


def test_figure_8_factors(graphs: dict[str, LayerGraph], plans: Plans) -> None:
    """Within what was published, a twentieth aside; with all bytes over one link, as the paper adds them up."""
    for graph in graphs.values():
        found = moved(graph, plans)
        assert OWT_FACTOR[0] / 1.05 <= found["image"] / found["owt"] <= OWT_FACTOR[1] * 1.05
        assert OWN_FACTOR[0] / 1.05 <= found["owt"] / found["deepa, serial"] <= OWN_FACTOR[1] * 1.05
        assert found["image"] / found["deepa, serial"] <= MOST
        assert found["deepa, exact"] <= found["owt"]


def test_figure_8_of_the_papers_alexnet(paper: dict[str, LayerGraph], plans: Plans) -> None:
    """In full its factors lie beyond the published ones: 5.4 for 8.4, 3.4 for 2.7 or section 6's 3."""
    found = moved(paper[ALEXNET], plans)
    assert found["image"] / found["owt"] == pytest.approx(5.37, abs=0.01)
    assert found["owt"] / found["deepa, serial"] == pytest.approx(FEWER, rel=0.15)


def test_figure_8_by_the_forward_transfers_alone(
    graphs: dict[str, LayerGraph], paper: dict[str, LayerGraph], plans: Plans
) -> None:
    """The published 8.4: 7.6 for the model file's AlexNet, 8.8 for the paper's, 5 % too much."""
    ours = {name: factors(graph, plans)["forward only"][0] for name, graph in {**graphs, **paper}.items()}
    assert ours["alexnet"] == pytest.approx(7.6, abs=LAST_DIGIT)
    assert ours[ALEXNET] == pytest.approx(OWT_FACTOR[1], rel=0.06)
    assert ours["inception-v3"] == pytest.approx(OWT_FACTOR[0], rel=0.02)


def test_figure_8_by_the_estimates_of_tables_2_and_3(paper: dict[str, LayerGraph], plans: Plans) -> None:
    """The count that comes nearest: 1.04 to 8.5 for 1.05 to 8.4, 1.2 to 2.35 for 1.2 to 2.7."""
    found = [factors(graph, plans)["estimates"] for graph in paper.values()]
    owt, own = (sorted(column) for column in zip(*found, strict=True))
    assert (owt[0], owt[-1]) == (
        pytest.approx(OWT_FACTOR[0], rel=0.02),
        pytest.approx(OWT_FACTOR[1], rel=0.02),
    )
    assert own[0] == pytest.approx(OWN_FACTOR[0], abs=LAST_DIGIT)
    assert own[-1] == pytest.approx(OWN_FACTOR[1], rel=0.15)


def test_figures_9_and_10_the_configurations(paper: dict[str, LayerGraph], plans: Plans) -> None:
    """``serial`` finds AlexNet's; of VGG-16's it finds all but the four workers of the last convolutions."""
    for name, unlike in ((ALEXNET, []), ("vgg16", ["conv5_1", "conv5_2", "conv5_3"])):
        graph = paper[name]
        published, ours = (words_of(plans.of(graph, way), graph) for way in (PUBLISHED[name], SERIAL))
        layers = [layer.name for layer in graph.operators.layers]
        assert [layer for layer, a, b in zip(layers, published, ours, strict=True) if a != b] == unlike
    for mode in ("serial", "exact", "paper"):
        words = words_of(plans.of(paper["vgg16"], Cut(name=mode, mode=mode)), paper["vgg16"])
        assert "n1 c1 h2 w2" not in words


def test_figures_9_and_10_are_good_over_one_link_only(paper: dict[str, LayerGraph], plans: Plans) -> None:
    trick, own = (seconds_of(paper[ALEXNET], way, plans) for way in (OWT, PUBLISHED[ALEXNET]))
    assert own[0] < trick[0] / 1.9
    assert own[1] > trick[1]
    image, found, own = (
        seconds_of(paper["vgg16"], way, plans) for way in (IMAGE, SERIAL, PUBLISHED["vgg16"])
    )
    assert found[0] < own[0] < image[0]
    assert found[1] < image[1] < own[1]


def test_figure_15_4_gb_and_490_mb(paper: dict[str, LayerGraph], plans: Plans) -> None:
    """4 GB is printed in one digit, 490 MB in whole MB."""
    small = paper["vgg16"].with_batch(TIMELINE_BATCH)
    read = READINGS["Figure 15's"]
    image, own = (read(plans.bytes_of(small, way, TIMELINE_WAYS)) / 1e6 for way in (IMAGE, TIMELINE))
    assert round(image / 1e3) * 1e3 == TIMELINE_MB[0]
    assert own == pytest.approx(TIMELINE_MB[1], abs=0.5)
    # By hand: the convolutions' weights there and back for four copies; of fc1's input three quarters to two devices.
    convs = sum(
        layer.einsum.elements("weight") for layer in small.operators.layers if layer.op_name == "conv"
    )
    assert own * 1e6 == 4 * (2 * 4 * convs + 2 * 3 / 4 * TIMELINE_BATCH * 25088)
    assert plans.of(small, SERIAL, TIMELINE_WAYS).choices("fc1") == (cut("out_channels", 4),)


def test_figure_16_bytes_of_imagenet_22k(paper: dict[str, LayerGraph], plans: Plans) -> None:
    large = networks(CLASSES_22K)
    more: list[float] = []
    own: list[float] = []
    times: dict[str, list[float]] = {"moved": [], "forward only": []}
    for name, graph in large.items():
        image, deepa = ([plans.bytes_of(one, way) for one in (paper[name], graph)] for way in (IMAGE, SERIAL))
        for reading, found in times.items():
            found.append(READINGS[reading](image[1]) / READINGS[reading](deepa[1]))
        more.append((READINGS["moved"](image[1]) - READINGS["moved"](image[0])) / 1e9)
        own.append((READINGS["forward only"](deepa[1]) - READINGS["forward only"](deepa[0])) / 1e6)
    assert sorted(map(round, more)) == [MORE_IMAGE[0], MORE_IMAGE[1], MORE_IMAGE[1]]
    assert min(times["moved"]) == pytest.approx(REDUCED[0], rel=0.02)
    assert max(times["forward only"]) == pytest.approx(REDUCED[1], rel=0.02)
    # 40 MB: one copy of the logits that are more; ours moves inputs to more devices instead, 26 to 50 MB.
    logits = BATCH * (CLASSES_22K - 1000) * 4 / 1e6
    assert logits == pytest.approx(MORE_OWN, rel=0.07)
    assert min(own) < MORE_OWN < max(own)


def test_section_7_1_4_reductions_of_inception_v3(paper: dict[str, LayerGraph], plans: Plans) -> None:
    """Overall 21 % by the estimates for the published 20; in the last modules 50 % for 30, all branches on half."""
    graph, found = paper["inception-v3"], {}
    for module in MODULES:
        image, own = (
            READINGS["estimates"](count_bytes(plans.of(graph, way), graph, plans.machine, of_module(module)))
            for way in (IMAGE, SERIAL)
        )
        found[module] = 100 * (1 - own / image)
    assert found[""] == pytest.approx(MODULES[""], abs=1)
    assert [found["Mixed_7b"], found["Mixed_7c"]] == pytest.approx([50, 50], abs=0.5)


def of_module(module: str) -> Callable[[str], bool]:
    return lambda layer: layer.startswith(module)


def test_figure_13_by_mini_batch(paper: dict[str, LayerGraph], beside: Plans) -> None:
    """Against the paper the factor is not constant, and what weighted layers read of 2048 images would fit in 12 GB.

    All that training keeps would not for Inception-v3, which did not fit.
    """
    graphs = [paper[ALEXNET].with_batch(batch) for batch in BATCHES]
    ratios = [beside.speed(graph, EXACT) / beside.speed(graph, IMAGE) for graph in graphs]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] < BY_BATCH[0][0]
    for name in ("vgg16", "inception-v3"):
        assert beside.held_bytes(paper[name].with_batch(2048), IMAGE) < K80_GB * 1e9
    assert beside.score(paper["inception-v3"].with_batch(2048), IMAGE).memory_bytes > K80_GB * 1e9


def test_figure_15_seconds(paper: dict[str, LayerGraph], beside: Plans) -> None:
    """0.40 s for 0.34 and 0.41 for 0.24: the published configuration gains nothing by the engine."""
    small = paper["vgg16"].with_batch(TIMELINE_BATCH)
    image, own = (beside.score(small, way, TIMELINE_WAYS).time_s for way in STEP_S)
    assert image == pytest.approx(STEP_S[IMAGE], rel=0.2)
    assert own == pytest.approx(image, rel=0.01)


def test_exact_is_the_fastest_by_the_engine(graphs: dict[str, LayerGraph]) -> None:
    for graph in graphs.values():
        plans = [
            plan_model(
                graph, array=[16], strategy="deepa", space=space, hardware="p100-4x4", convention="paper"
            )
            for space in ("batch", "conv:batch linear:out_channels", "conv:batch linear:in_channels", "deepa")
        ]
        times = [plan.score.time_s for plan in plans if plan.score]
        assert [plan.cost.value for plan in plans] == pytest.approx(times, rel=1e-9)
        assert times[3] <= min(times[0], times[1]) * (1 + 1e-12)


def problem_of(graph: LayerGraph) -> Question:
    space = parse_space("batch*out_channels*height*width")
    options = [(space.choices(layer, 16, idle=True),) for layer in graph.operators.layers]
    cost = load_cost("deepa", {}, {"machine": load_machine("p100-4x4")})
    levels = levels_of((16,), graph.element_bytes)
    return Question(graph=graph.operators, cost=cost, levels=levels, options=tuple(options))


def test_inception_v3_reduces_to_two_nodes_by_the_two_rules(graphs: dict[str, LayerGraph]) -> None:
    found = reduced(problem_of(graphs["inception-v3"]).structure(0, 1))
    assert len(found.nodes) == 2
    assert found.edges == (found.nodes,)


def test_a_bridge_does_not_reduce_and_is_solved_exactly() -> None:
    pairs = list(itertools.combinations(range(4), 2))
    problem = random_problem(np.random.default_rng(1), [6, 5, 6, 4], pairs, 1000)
    assert len(reduced(problem.structure).nodes) == 4
    solvers = [load_solver(name).solve(problem).cost for name in ("elimination", "exhaustive")]
    assert solvers[0] == solvers[1]
