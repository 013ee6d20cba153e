"""Table 5: the memory that CGDP saves on a GPU, and the mini-batches that fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.network.build import load_model
from hypar.planning.planner import plan_model
from hypar.sharding.conventions import PAPER
from hypar.studies.page import Section, beside
from hypar.studies.read_memory import read_memory
from hypar.studies.sections.cgdp.published import BATCHES_OF_VGG, GOOGLENET, GPUS, TIMED, VGG_16
from hypar.studies.sections.cgdp.training import rounds

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.studies.sections.cgdp.published import Network

MIB = 2**20
"""The bytes of a MB in Table 5, as GPU drivers count."""

IN_PLACE = frozenset({"relu", "dropout", "flatten"})
"""Ops whose output overwrites their input in Caffe."""

AUXILIARY = ((512, 128), (2048, 1024), (1024, 1000)), ((528, 128), (2048, 1024), (1024, 1000))
"""GoogLeNet's two classifiers that only training has, which the model file leaves out: numbers read and written by the
convolution of one by one and the two linear layers of each. Source: Szegedy et al., Going Deeper with Convolutions
(CVPR 2015), section 5; Caffe's bvlc_googlenet has them."""


def saved_mb(network: Network, parameters: int) -> float:
    """Return the additional memory of typical training: the first GPU of a tree has one buffer for each child."""
    return rounds(GPUS[-1]) * parameters * load_model(network.model).element_bytes / MIB


def image_mb(graph: LayerGraph) -> float:
    """Return the memory of an image in Caffe: each tensor and its error, except where an op works in place."""
    sizes = [math.prod(layer.shape.values()) for layer in graph.layers if layer.op_name not in IN_PLACE]
    return 2 * sum(sizes) * graph.element_bytes / MIB


def auxiliary_parameters() -> int:
    """Return the parameters of GoogLeNet's training-only classifiers, with their biases."""
    return sum((read + 1) * written for classifier in AUXILIARY for read, written in classifier)


def table_5() -> Section:
    """Compare the memory of each network, and the saving of CGDP."""
    rows = []
    for network in TIMED:
        if network.typical_mb is None or network.cgdp_mb is None:
            continue
        parameters = load_model(network.model).num_parameters
        published = network.typical_mb - network.cgdp_mb
        held = (f"{_held_mb(network):,.0f}", f"{_kept_mb(network):,.0f}")
        memory = (f"{network.typical_mb:,}", f"{network.cgdp_mb:,}", *held)
        rows.append((network.name, *memory, *beside(published, saved_mb(network, parameters), 0)))
        if network is GOOGLENET:
            both = saved_mb(network, parameters + auxiliary_parameters())
            rows.append(
                (f"{network.name}, with its two classifiers", "", "", "", "", *beside(published, both, 0))
            )
    few, many = BATCHES_OF_VGG
    image = image_mb(load_model(VGG_16.model))
    ours = saved_mb(VGG_16, load_model(VGG_16.model).num_parameters) / image
    limits = [
        held + (images - VGG_16.batch) * image
        for held, images in ((VGG_16.typical_mb or 0, few), (VGG_16.cgdp_mb or 0, many))
    ]
    return Section(
        title="Table 5: memory of a GPU",
        text=(
            "In MB, read as 2^20 bytes. What CGDP saves is the memory in which typical training collects other GPUs'"
            " gradients. Ours: over a tree of four GPUs the first one has two children, and a buffer of all gradients for each."
            " AlexNet saved somewhat more; GoogLeNet-v1 comes out with the two classifiers that only training has, which the"
            " model file leaves out. The whole memory is a miss. A score of hypar counts weights, gradients, momentum, the"
            " activations that the backward phase reads, and buffers. Caffe keeps every tensor and its error, which the next"
            " column counts with weights, gradients and momentum; what is left are workspaces of cuDNN, whose sizes the paper"
            f" does not give. VGGNet-16 fitted {many} images a GPU instead of {few}, published"
            f" {many - few} more; ours: at {image:.1f} MB an image, each tensor and its error, the memory saved holds"
            f" {math.floor(ours)} more ({ours:.2f}). By that {few} images of typical training take {limits[0]:,.0f} MB and {many}"
            f" of CGDP {limits[1]:,.0f} MB, so both met the same limit; how much of the 16 GB was free is not given, so {few}"
            " itself is not computed."
        ),
        heads=("network", "typical, published", "CGDP, published", "score of hypar", "as Caffe keeps it, ours", "saved, published", "ours",
               "ours / published"),
        rows=tuple(rows),
    )  # fmt: skip


def _kept_mb(network: Network) -> float:
    """Return the memory that Caffe keeps on a GPU, in MB, without workspaces."""
    graph = load_model(network.model)
    return network.batch * image_mb(graph) + 3 * graph.num_parameters * graph.element_bytes / MIB


def _held_mb(network: Network) -> float:
    """Return the memory that hypar computes for a GPU in data parallelism, in MB."""
    plan = plan_model(
        network.model,
        array=[GPUS[-1]],
        batch=GPUS[-1] * network.batch,
        strategy="dp",
        hardware="p100-4x4",
        optimizer="momentum",
        convention=PAPER,
    )
    if plan.score is None:
        return math.nan
    graph = load_model(network.model)
    nodes = graph.with_batch(GPUS[-1] * network.batch).nodes(plan.graph)
    choices = [plan.choices(layer.name) for layer in nodes.layers]
    return read_memory(plan.score.memory_bytes, nodes, choices, graph.element_bytes) / MIB
