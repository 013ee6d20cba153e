"""Numbers published by the paper. Source: Le et al., Involving CPUs into Multi-GPU Deep Learning (ICPE 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

GPUS = (1, 2, 4)
"""The numbers of GPUs of Table 2's columns."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """A network of Table 1, with its columns of Tables 2 and 5; equal only to itself.

    Attributes:
        name: the paper's name for it.
        model: the name of its model file.
        layers: the number of layers, Table 1.
        parameters: the number of parameters in millions, Table 1.
        batch: the images of a mini-batch on each GPU, Table 1.
        speedup: the speedup of CGDP on four GPUs, in the abstract.
        typical_ms: an iteration of typical training by number of GPUs, Table 2; empty if it has none.
        cgdp_ms: an iteration of CGDP by number of GPUs, Table 2.
        typical_mb: the memory that typical training allocates on a GPU, Table 5; None if it has none.
        cgdp_mb: the memory that CGDP allocates on a GPU, Table 5.
    """

    name: str
    model: str
    layers: int
    parameters: int
    batch: int
    speedup: float
    typical_ms: Mapping[int, float]
    cgdp_ms: Mapping[int, float]
    typical_mb: int | None = None
    cgdp_mb: int | None = None


ALEXNET = Network(
    name="AlexNet", model="alexnet-2012", layers=8, parameters=60, batch=256, speedup=1.21,
    typical_ms={1: 157.2, 2: 174.3, 4: 202.7}, cgdp_ms={1: 157.4, 2: 163.6, 4: 167.1},
    typical_mb=6863, cgdp_mb=6359,
)  # fmt: skip
GOOGLENET = Network(
    name="GoogLeNet-v1", model="googlenet", layers=22, parameters=7, batch=64, speedup=1.04,
    typical_ms={1: 140.0, 2: 151.7, 4: 163.4}, cgdp_ms={1: 140.9, 2: 151.9, 4: 156.7},
    typical_mb=6095, cgdp_mb=5991,
)  # fmt: skip
VGG_16 = Network(
    name="VGGNet-16", model="vgg16", layers=16, parameters=138, batch=32, speedup=1.21,
    typical_ms={1: 345.6, 2: 383.7, 4: 445.6}, cgdp_ms={1: 345.2, 2: 361.5, 4: 369.1},
    typical_mb=7274, cgdp_mb=6191,
)  # fmt: skip
RESNET = Network(
    name="ResNet-152", model="resnet152", layers=152, parameters=49, batch=12, speedup=1.07, typical_ms={},
    cgdp_ms={},
)  # fmt: skip
TIMED = (ALEXNET, GOOGLENET, VGG_16)
"""The networks of Tables 2 and 5."""

NETWORKS = (*TIMED, RESNET)
"""The networks of Table 1."""

FORWARD_MS, BACKWARD_MS, UPDATE_MS = 50.6, 104.0, 5.1
"""Table 3: the phases of an iteration of AlexNet on four GPUs common to every training; forward and backward of typical
training."""

BROADCAST_MS, ADDED_UP_MS = 20.0, 23.0
"""Table 3: the exchange of typical training, the broadcast of the parameters and the accumulation of gradients."""

CGDP_FORWARD_MS, CGDP_BACKWARD_MS, REMAINING_MS = 51.0, 111.0, 0.0218
"""Table 3: the phases of CGDP: forward, backward with the gradients exchanged beside it, and the remaining transfer."""

TABLE_4_PARAMETERS = (4.0, 16.8, 37.8, 0.4, 0.7, 0.9, 0.3, 0.03)
"""Table 4: millions of parameters of each layer of AlexNet, from the last to the first."""

COPY_OUT = (0.760, 3.156, 12.146, 0.133, 0.174, 0.275, 0.066, 0.014)
ACCUMULATE = (1.263, 4.441, 13.074, 0.285, 0.465, 0.578, 0.155, 0.018)
COPY_BACK = (1.786, 2.568, 5.538, 0.064, 0.095, 0.123, 0.041, 0.007)
"""Table 4: ms of the exchange of each of these layers."""

LINK_GB_PER_S = 80
"""Section 5.1: the link of each GPU to its CPU."""

CHUNKS_OF_3 = (3, 1, 1, 1)
"""Section 4.2, its rule: six layers in chunks of three are (6, 5, 4), (3), (2), (1)."""

THREE_CHUNKS, SYNCHRONISATIONS = (3, 2, 1), 3
"""Section 4.1: six layers in the chunks (6, 5, 4), (3, 2), (1) need three synchronisations; without chunks six."""

INTERVAL = 10
"""Algorithm 1: the number of iterations with each size."""

STEP, RANGE, FASTEST, STOP = 10, 5, 9, 150
"""Section 5.3: with this step and range chunks of nine are the fastest, and the search stops at this iteration."""

BEST_SIZES: Mapping[tuple[int, int], int | None] = {
    (5, 5): 3,
    (STEP, RANGE): FASTEST,
    (15, 5): 6,
    (5, 10): 20,
    (5, 15): None,
}
"""Figure 5: the best size by step and range. The text has 9 and 20 with theirs, and says that the others are 3 and 6: with
step 5 no 6 is ever tried, so it is that of step 15. The size with range 15 is in the picture only."""

NOTHING_GAINED = 1
"""Section 5.3: the best size of AlexNet, GoogLeNet-v1 and VGGNet-16."""

MOST_MEASURED = 21
"""Section 5.3: the number of sizes after which every search had ended."""

FIGURE_2_BATCH, FIGURE_2_SIZES, TOGETHER = 16, 100, 10
"""Figure 2: images on each GPU, the largest chunks, and the iterations that are timed together."""

BATCHES_OF_VGG = (94, 103)
"""Section 5.2.4: the largest mini-batches of VGGNet-16 on each GPU, of typical training and of CGDP."""

ITERATIONS, REACHED, TEST_EVERY, TEST_S = 21_000, 20_000, 1000, 14.7
"""Section 5.2.5: the iterations of the long run, the one that reaches the accuracy, and how often and long tests run."""

TEST_IMAGES, TEST_ITERATIONS = 50_000, 1000
"""Section 5.2.5: the images of a test, and the iterations in it."""

MINUTES = {"typical": 79, "CGDP": 62}
"""Section 5.2.5: the duration of the run."""
