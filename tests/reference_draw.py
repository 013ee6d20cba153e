"""The command lines that ``reference.csv`` is taken from: ``python tests/reference_draw.py`` prints them.

A block has a number of command lines and some decks, each of them parts of a command line with bars between, ``-``
for no part. A line has a card of every deck; a deck is dealt to its end before it is shuffled again, so that each
card comes as often as any other.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TINY = """lenet-c | cifar-c | sconv | sfc | alexnet | alexnet-2012 | vgg-f | vgg-a | models/lenet-c.yaml
| tests/paper/alexnet-accpar.yaml"""
MADE = """tests/made/gates.yaml | tests/made/encoder.yaml | tests/made/latent.yaml | tests/made/experts.yaml
| tests/made/volume.yaml | tests/made/sound.yaml | tests/made/matrices.yaml | tests/studies/enlarged.yaml"""
PLAIN = f"{TINY} | {MADE} | vgg11 | resnet18"
SMALL = f"{TINY} | {MADE} | vgg11 | vgg16 | vgg19 | resnet18 | mobilenet-v2 | unet | googlenet"
MIDDLE = """vgg-b | vgg-c | vgg-d | vgg-e | vgg13 | resnet34 | resnet50 | inception-v3 | googlenet
| models/vgg16.yaml | unet | resnet101 | mobilenet-v2"""
TALKING = "vit-b16 | gpt2 | bert-large | llama2-7b | llama3-8b | mixtral-8x7b"
LARGE = f"{MIDDLE} | {TALKING} | llama3-70b | llama3-405b | gpt3-175b | resnet152"

STRATEGIES = """--strategy accpar | --strategy dp | --strategy hypar | --strategy mp | --strategy optimal
| --strategy owt | -"""
CONVENTIONS = "- | --convention paper | --convention moved | --convention fused"
ARRAYS = """--levels 1 | --levels 2 | --levels 3 | - | --levels 5 | --array 2 | --array 4 | --array 8
| --array 16 | --array 3 | --array 12 | --array 4x4 | --array 8x4 | --array 2x8 | --array 3x2 | --array 4x2x2
| --array 2x3x2 | --array 2x4"""
DEEP = """--levels 6 | --levels 7 | --levels 8 | --levels 10 | --levels 12 | --levels 16 | --levels 20
| --array 8x8x8 | --array 256 | --array 64x16 | --array 1024"""
FEW = "--levels 1 | --levels 2 | --levels 3 | --array 4 | --array 4x2"
BATCHES = """- | - | - | - | --batch 1 | --batch 8 | --batch 32 | --batch 100 | --batch 128 | --batch 512
| --batch 1000"""
SPACES = """- | --space all | --space batch | --space out_channels | --space batch,in_channels,out_channels
| --space batch,height,width | --space batch*height | --space batch*out_channels
| --space 'conv:batch linear:mp' | --space 'conv:batch*height linear:all' | --space groups,batch
| --space channels,batch | --space owt | --space batch,height*width,out_channels"""
SEARCHES = """- | - | --search greedy | --search joint | --search joint --space all | --graph operators
| --graph operators --space all"""
IMAGE_PINS = """alexnet --pin *=dp | vgg16 --pin *@H1=batch | alexnet --pin fc*=mp | vgg11 --pin conv*=batch
| alexnet --pin conv1=out_channels --pin fc1@H1=mp | resnet18 --pin fc@H1=mp --pin layer1*=dp
| lenet-c --pin conv1@H1=height | tests/made/gates.yaml --pin deep=groups | unet --pin *@H1=width
| tests/made/volume.yaml --pin conv2=groups | tests/studies/enlarged.yaml --pin b@H1=out_channels
| tests/made/sound.yaml --pin conv*=width | googlenet --pin *@H1=out_channels | sfc --pin *=mp"""
NAMED_PINS = """tests/made/encoder.yaml --pin encoder.0.attention=heads
| tests/made/encoder.yaml --pin *.up=ff --pin *.down=ff
| tests/made/experts.yaml --pin up=experts --pin down=experts | tests/made/latent.yaml --pin attention=heads
| tests/made/latent.yaml --pin q@H1=out_heads | tests/made/matrices.yaml --pin mixed=heads
| gpt2 --pin *@H1=batch | tests/made/experts.yaml --pin sum=rep
| vit-b16 --pin *@H1=batch --space batch,heads,ff"""
SOLVERS = """--solver elimination | --solver chain | --solver bounded
| --solver counts --strategy optimal
| --solver bounded --strategy optimal | --solver elimination --search joint
| --search-memory 1e6 --strategy optimal
| --search-memory 1e7 --search joint --convention paper"""
WEIGHTS = "- | - | - | - | --inter-weight 0.5 | --inter-weight 2 | --inter-weight 0.1"
OPTIMIZERS = "- | - | --optimizer momentum | --optimizer adam"

CLUSTERS = """--hardware hmc | --hardware hmc --array 4x4 | --hardware hmc --levels 2
| --hardware hmc --array 16 | --hardware hmc-physical --levels 3 | --hardware hmc-physical --array 2x8
| --hardware p100-4x4 | --hardware p100-4x4 --array 4x4 | --hardware p100-4x4 --array 16
| --hardware p100-4x4 --levels 2 | --hardware h100-8x | --hardware h100-8x --levels 6
| --hardware h100-8x --array 8x8 | --hardware h100-8x --array 8 | --hardware h100-8x --array 64
| --hardware tpu-v2 --levels 6 | --hardware tpu-v2 --array 8x8 | --hardware tpu-v2 --levels 3
| --hardware tpu-v3 --levels 8 | --hardware tpu-v3 | --hardware tpu-v3 --array 16x16
| --hardware simba --array 6x6 | --hardware simba --levels 2 | --hardware simba --array 36
| --hardware dojo --array 6x25 | --hardware dojo --array 6 | --hardware dojo --array 2x3x5
| --hardware tests/made/board.yaml --levels 3 | --hardware tests/made/board.yaml --array 8
| --hardware tests/made/board.yaml --array 2x4"""
SETS = """- | - | - | - | - | - | --set overlap=full | --set overlap=full --set unweighted=counted
| --set unweighted=counted | --set efficiency=0.5 | --set latency=5us | --set duplex=half
| --set memory.capacity=1GB | --set memory.bandwidth=100GB/s | --set word=2B | --set sums=counted
| --set units_per_device=4 | --set ports=1 | --set topology=torus | --set topology=switch
| --set topology=mesh | --set topology=fully_connected | --set topology=ring | --set collectives=all
| --set collectives=[ring] | --set collectives=[direct] | --set link_bandwidth=10GB/s | --set energy.link=20pJ
| --set energy.static=1W | --set energy.memory=100pJ | --set accesses_per_word_moved=3"""
CHIPS = "--hardware eyeriss | --hardware eyeriss-isca | --hardware tetris | --hardware tetris-2d"
CHIP_SETS = """- | - | --set efficiency=0.5 | --set word=2B | --set units_per_device=4
| --set energy.static=1W | --set energy.memory=100pJ | --set buffer=256kB | --set sums=counted"""
TIMED = """--cost time | --cost time --strategy optimal | --cost accpar | --cost time --strategy accpar
| --cost accpar --strategy accpar | --cost time --strategy dp | --cost time --search joint"""
DEEPA = """--strategy deepa | --strategy deepa --mode serial | --strategy deepa --mode exact
| --strategy deepa --search joint | --cost deepa | --strategy deepa --mode paper --array 16"""
DEEPA_ON = """--hardware p100-4x4 --array 16 | --hardware p100-4x4 --array 4x4 | --hardware hmc --array 4
| --hardware h100-8x --array 8 | --hardware simba --array 6 | --hardware tests/made/board.yaml --array 8"""

UNEVEN = """--hardware tpu-v2-v3 | --hardware tpu-v2-v3 --levels 2 | --hardware tpu-v2-v3 --levels 3
| --hardware tpu-v2-v3 --array 2x4 | --hardware tpu-v2-v3 --levels 1 | --hardware tests/made/pair.yaml
| --hardware tests/made/pair.yaml --levels 2 | --hardware tests/made/pair.yaml --levels 1
| --hardware tests/made/pair.yaml --levels 3 | --hardware tests/made/nested.yaml
| --hardware tests/made/nested.yaml --levels 2 | --hardware tests/made/nested.yaml --levels 3
| --hardware tests/made/nested.yaml --levels 4"""
SHARES = """- | --strategy accpar | --strategy accpar --shares equal | --strategy accpar --shares linear
| --strategy accpar --cost accpar --shares exact | --strategy accpar --shares layers
| --strategy hypar | --strategy dp | --strategy owt | --strategy mp
| --strategy optimal | --cost time --shares exact | --cost time --shares linear --strategy dp
| --cost time --search joint | --cost time --strategy accpar --shares layers | --strategy deepa
| --cost accpar --strategy hypar --shares exact"""
UNEVEN_SETS = """- | - | - | - | --set outward.bandwidth=2GB/s | --set outward.latency=20us
| --set overlap=none | --set efficiency=0.7"""

STAGES = "--stages 2 | --stages 3 | --stages 4 | --stages 2 | --stages 4 | --stages best | --stages 1"
INSIDE = """--hardware hmc --levels 0 | --hardware hmc --levels 1 | --hardware hmc --levels 2
| --hardware hmc --array 4 | --hardware p100-4x4 --levels 1 | --hardware p100-4x4 --levels 2
| --hardware p100-4x4 --array 4 | --hardware h100-8x --levels 0 | --hardware h100-8x --levels 2
| --hardware h100-8x --array 8 | --hardware h100-8x --levels 3 | --hardware tpu-v2 --levels 2
| --hardware tpu-v3 --array 4x4 | --hardware simba --array 3 | --hardware dojo --array 5
| --hardware tests/made/board.yaml --levels 1 | --hardware tests/made/board.yaml --levels 0
| --hardware hmc-physical --levels 1 | --hardware tpu-v2-v3 --levels 1 | --hardware tpu-v2-v3 --levels 2
| --hardware tests/made/pair.yaml --levels 1 | --hardware tests/made/nested.yaml --levels 1
| --hardware tests/made/pair.yaml --levels 0"""
NESTED = """--hardware hmc --array 2xs2x2 | --hardware hmc --array 2xs4x2 | --hardware hmc --array 4xs4
| --hardware p100-4x4 --array s4x4 | --hardware h100-8x --array 2xs4x8 | --hardware h100-8x --array 8xs2x2
| --hardware tests/made/pair.yaml --array 2xs2 | --hardware tests/made/pair.yaml --array s2x2
| --hardware tpu-v2-v3 --array s2x2 | --hardware tpu-v2-v3 --array 2xs2x2
| --hardware tests/made/board.yaml --array 2xs2x2 | --hardware tests/made/nested.yaml --array 2xs2"""
ORDERS = """- | - | - | --schedule gpipe | --schedule 1f1b --microbatches 8
| --schedule gpipe --microbatches 16 | --schedule layer-block | --schedule interleaved
| --schedule interleaved --parts 3 | --microbatches 1 | --microbatches 4"""
BALANCES = "- | - | - | - | --balance memory | --balance traffic | --balance macs | --balance time"
STARTS = """alexnet --stages 2 --starts conv1,conv4 | vgg16 --stages 3 --starts conv1_1,conv3_1,fc1
| lenet-c --stages 2 --starts conv1,fc1 | vgg-f --stages 4 --starts conv1,conv2,conv3,fc6
| lenet-c --stages 2 --starts conv1,fc2 | lenet-c --stages 2 --starts fc1,conv1
| alexnet --stages 2 --starts conv1,conv2,conv3,fc1 --schedule interleaved"""
STARTS_ON = "--hardware hmc --levels 0 | --hardware hmc --levels 1 | --hardware p100-4x4 --levels 1"
CHUNKS = "--chunks best | --chunks layers | --chunks one | --chunks 2 | --chunks 5"
LATE = """--set overlap=full | --set overlap=full | --set overlap=full --set exchange=independent
| --set exchange=serial | -"""
STAGED = "- | - | - | - | - | - | - | --stages 2 | --stages 2 --schedule gpipe"
WRONG = """--levels 2 --array 4 | --optimizer adam | --cost time | --refine | --chunks best | --stages 2
| --schedule gpipe | --microbatches 4 | --parts 2 | --balance time | --starts conv1 | --levels 0
| --hardware hmc --stages best --starts conv1 | --hardware hmc --stages 2 --parts 3
| --hardware hmc --shares exact | --inter-weight 2 --cost time --hardware hmc | --strategy fastest
| --cost money | --space depth | --pin nothing=dp | --pin *=sideways | --pin *@H9=dp | --levels -1
| --array 4x | --array 0 | --batch 0 | --batch many | --hardware abacus | --hardware hmc --levels 9
| --hardware hmc --set colour=red | --hardware hmc --set duplex=haf | --hardware hmc --set latency=5kg
| --hardware tpu-v2-v3 --shares most | --hardware tpu-v2-v3 --strategy dp --shares linear
| --hardware hmc --chunks some | --solver luck | --solver chain --search joint | --solver counts --levels 2
| --convention fused --strategy deepa --hardware hmc | --mode paper | --search deep
| --hardware hmc --set memory.capacity=1kB --fit | --hardware h100-8x --fit
| --hardware hmc --stages 999 --levels 0 | --hardware hmc --stages 2 --microbatches 7 | --time-limit 0
| --unknown 1 | --hardware eyeriss --set ports=1 | --hardware eyeriss | --array 2097152"""

BLOCKS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (330, (SMALL, ARRAYS, STRATEGIES, CONVENTIONS, BATCHES, WEIGHTS)),
    (130, (SMALL, ARRAYS, SPACES, CONVENTIONS, SEARCHES)),
    (40, (IMAGE_PINS, FEW, STRATEGIES, CONVENTIONS)),
    (30, (NAMED_PINS, FEW, STRATEGIES, CONVENTIONS)),
    (60, (SMALL, "--levels 1 | --levels 2 | --levels 3 | --array 4", SOLVERS)),
    (280, (SMALL, CLUSTERS, STRATEGIES, CONVENTIONS, BATCHES, OPTIMIZERS, SETS)),
    (40, (f"{SMALL} | {MIDDLE}", CHIPS, "--stages 1 --levels 0", CHIP_SETS, BATCHES, OPTIMIZERS, CONVENTIONS)),
    (170, (SMALL, CLUSTERS, TIMED, CONVENTIONS, BATCHES, SETS, OPTIMIZERS)),
    (50, (TINY, DEEPA_ON, DEEPA, BATCHES)),
    (260, (PLAIN, UNEVEN, SHARES, CONVENTIONS, BATCHES, OPTIMIZERS, UNEVEN_SETS)),
    (180, (f"{PLAIN} | vgg16", INSIDE, STAGES, STRATEGIES, ORDERS, BALANCES, CONVENTIONS, OPTIMIZERS)),
    (60, (f"{TINY} | {MADE} | vgg11", NESTED, STRATEGIES, ORDERS, CONVENTIONS)),
    (20, (STARTS, STARTS_ON, CONVENTIONS)),
    (110, (f"{PLAIN} | gpt2", CLUSTERS, CHUNKS, LATE, STRATEGIES, CONVENTIONS, STAGED)),
    (25, (TINY, UNEVEN, CHUNKS, STRATEGIES)),
    (50, (f"{TINY} | {MADE}", CLUSTERS, "--refine", STRATEGIES, CONVENTIONS, "- | - | - | --cost time")),
    (150, (LARGE, ARRAYS, STRATEGIES, CONVENTIONS, "- | - | --space all")),
    (150, (LARGE, CLUSTERS, STRATEGIES, CONVENTIONS, OPTIMIZERS, BATCHES, "- | - | - | --cost time")),
    (40, (f"{MIDDLE} | {TALKING}", INSIDE, "--stages 2 | --stages 4 | -", STRATEGIES, "- | - | --chunks best")),
    (100, (f"{TINY} | {MADE} | vgg16 | resnet18 | resnet50", DEEP, STRATEGIES, CONVENTIONS)),
    (50, ("lenet-c | alexnet | vgg11 | tests/made/encoder.yaml", WRONG)),
)  # fmt: skip


def draw() -> Iterator[str]:
    """Deal the command lines of all blocks."""
    for number, (count, decks) in enumerate(BLOCKS):
        dealt = [_deal(f"{number} {place}", deck.split("|")) for place, deck in enumerate(decks)]
        for _ in range(count):
            yield " ".join(card for card in map(next, dealt) if card != "-")


def _deal(seed: str, cards: list[str]) -> Iterator[str]:
    rng = random.Random(seed)
    while True:
        yield from (card.strip() for card in rng.sample(cards, len(cards)))


if __name__ == "__main__":
    sys.stdout.writelines(f"{command}\n" for command in dict.fromkeys(draw()))
