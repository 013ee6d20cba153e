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

plugins: dict[str, Strategy] = {
    "dp": Strategy(
        summary="every layer cut in the batch", source="the common baseline; Type-I of AccPar", space="batch"
    ),
    "mp": Strategy(
        summary="every layer cut in its input channels",
        source="HyPar (HPCA 2019), section 6.2",
        space="in_channels",
        beyond=True,
    ),
    "owt": Strategy(
        summary="convolutions cut in the batch, linear layers in their input channels",
        source="Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014",
        space="conv:batch linear:in_channels",
        beyond=True,
    ),
    "hypar": Strategy(
        summary="batch or input channels, level by level",
        source="HyPar (HPCA 2019), Algorithms 1 and 2",
        space="batch,in_channels",
        convention=PAPER,
        beyond=True,
    ),
    "accpar": Strategy(
        summary="batch, input or output channels, level by level; uneven shares let device groups end together",
        source="AccPar (HPCA 2020)",
        space="batch,in_channels,out_channels",
        heterogeneous_cost="accpar",
        shares="exact",
        convention=PAPER,
        beyond=True,
    ),
    "deepa": Strategy(
        summary="batch, output channels, height and width at once, on the best number of devices",
        source="DeePa (2018), its configurations and its dynamic programming",
        space="batch*out_channels*height*width",
        cost="deepa",
        graph="operators",
        convention=PAPER,
        beyond=True,
    ),
    **{
        name: Strategy(
            summary=f"data parallelism, {what}",
            source="ZeRO (SC20): stage " + str(zero) if zero else "PyTorch Distributed (VLDB 2020)",
            space="batch",
            cost="time",
            zero=zero,
        )
        for zero, (name, what) in enumerate(
            (
                ("ddp", "each device with all of each weight"),
                ("zero1", "with the optimizer's state in shares"),
                ("zero2", "with gradients and the optimizer's state in shares"),
                ("fsdp", "with weights, gradients and the optimizer's state in shares"),
            )
        )
    },
    **{
        name: Strategy(what, source, f"batch / {inside}", "time", "joint", zero=zero)
        for name, inside, zero, what, source in IN_NODES
    },
    "fit": Strategy(
        summary="the least time that fits the devices: any dims, ZeRO, recompute, microbatches",
        source="a search within a memory by prices, and by the engine",
        space="all",
        cost="time",
        search="joint",
        zero=None,
    ),
    "optimal": Strategy(
        summary="any dims, all levels jointly",
        source="the optimum that the level-by-level strategies approach",
        space="all",
        search="joint",
    ),
}
