"""The strategies by their names: those of practice, those of papers, and the joint search over every dim."""

from __future__ import annotations

from hypar.planning.strategies.base import Strategy
from hypar.sharding.conventions import PAPER

IN_NODES = (
    ("megatron", "tp|rep|batch", 0, "tensor parallelism inside a node, the batch between nodes",
     "Shoeybi et al., Megatron-LM, 2019"),
    ("megatron-sp", "tp|sp|rep|batch", 0, "megatron, with what it leaves whole divided in the sequence",
     "Korthikanti et al., Reducing Activation Recomputation (MLSys 2023)"),
    ("ulysses", "cp|rep|batch attention:tp", 0, "the sequence inside a node, attention in heads; the batch between nodes",
     "Jacobs et al., DeepSpeed Ulysses, 2023"),
    ("ring", "cp|rep|batch", 0, "the sequence inside a node, in attention of the queries; the batch between nodes",
     "Liu et al., Ring Attention, 2023"),
    ("expert", "ep|batch dispatch:batch combine:batch", 0, "experts of a mixture inside a node, all else by batch",
     "Lepikhin et al., GShard, 2020"),
    ("3d", "tp|sp|rep|batch", 1, "megatron-sp with the optimizer's state in shares, in stages that are asked for",
     "Narayanan et al., Megatron-LM on GPU clusters (SC21)"),
)  # fmt: skip
"""Strategies by what they divide inside a node, their stage of ZeRO, a line that describes each, and its publication."""

IN_SHARES = {
    "ddp": "each device with all of each weight",
    "zero1": "with the optimizer's state in shares",
    "zero2": "with gradients and the optimizer's state in shares",
    "fsdp": "with weights, gradients and the optimizer's state in shares",
}
"""Strategies that cut the batch alone, by their stage of ZeRO, from 0."""

plugins: dict[str, Strategy] = {
    "dp": Strategy("every layer cut in the batch", "the common baseline; Type-I of AccPar", "batch"),
    "mp": Strategy(
        "every layer cut in its input channels", "HyPar (HPCA 2019), section 6.2", "in_channels", beyond=True
    ),
    "owt": Strategy(
        "convolutions cut in the batch, linear layers in their input channels",
        "Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014",
        "conv:batch linear:in_channels",
        beyond=True,
    ),
    "hypar": Strategy(
        "batch or input channels, level by level",
        "HyPar (HPCA 2019), Algorithms 1 and 2",
        "batch,in_channels",
        convention=PAPER,
        beyond=True,
    ),
    "accpar": Strategy(
        "batch, input or output channels, level by level; uneven shares let device groups end together",
        "AccPar (HPCA 2020)",
        "batch,in_channels,out_channels",
        heterogeneous_cost="accpar",
        shares="exact",
        convention=PAPER,
        beyond=True,
    ),
    "deepa": Strategy(
        "batch, output channels, height and width at once, on the best number of devices",
        "DeePa (2018), its configurations and its dynamic programming",
        "batch*out_channels*height*width",
        "deepa",
        graph="operators",
        convention=PAPER,
        beyond=True,
    ),
    **{
        name: Strategy(
            f"data parallelism, {what}",
            f"ZeRO (SC20): stage {zero}" if zero else "PyTorch Distributed (VLDB 2020)",
            "batch",
            "time",
            zero=zero,
        )
        for zero, (name, what) in enumerate(IN_SHARES.items())
    },
    **{
        name: Strategy(what, source, f"batch / {inside}", "time", "joint", zero=zero)
        for name, inside, zero, what, source in IN_NODES
    },
    "fit": Strategy(
        "the least time that fits the devices: any dims, ZeRO, recompute, microbatches",
        "a search within a memory by prices, and by the engine",
        "all",
        "time",
        "joint",
        zero=None,
    ),
    "optimal": Strategy(
        "any dims, all levels jointly",
        "the optimum that the level-by-level strategies approach",
        "all",
        search="joint",
    ),
}
