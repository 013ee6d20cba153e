"""Configurations that were run: each must fit its devices; ``-s`` prints the tokens a second that the machine's numbers give beside those measured.

Source: MosaicML, llm-foundry 8c8dd48, scripts/train/benchmarking/README.md: FSDP, flash attention, bf16.
"""

import json
import sys
from functools import cache
from pathlib import Path

import pytest

from hypar import LayerGraph, load_machine, plan_model
from hypar.importers.formats import imported
from tests.kit import known

SIZES = {
    "1b": (2048, 24, 16),
    "3b": (2560, 32, 20),
    "7b": (4096, 32, 32),
    "13b": (5120, 40, 40),
    "30b": (7168, 48, 56),
    "70b": (8192, 80, 64),
}
"""Hidden features, layers and heads."""

ROWS = """
70b 2048 512 h100 8 1 1007 3 full
70b 2048 128 h100 8 1 1058 3 full
70b 2048 64 h100 8 4 1039 3 full
70b 2048 32 h100 2 16 882 3 full
30b 2048 512 h100 8 1 2115 3 full
30b 2048 128 h100 8 1 2199 3 full
30b 8192 8 h100 1 21 1384 3 full
13b 2048 512 h100 16 1 4952 3 full
13b 2048 64 h100 2 1 4800 3 none
13b 2048 8 h100 2 1 4792 3 none
13b 32768 8 h100 1 3 1976 3 full
7b 2048 512 h100 6 1 9670 3 none
7b 2048 128 h100 6 1 10475 3 none
7b 2048 8 h100 6 1 10643 3 none
7b 65536 8 h100 1 2 1956 3 full
3b 2048 512 h100 8 1 21664 2 none
3b 2048 128 h100 8 1 23422 2 none
1b 2048 512 h100 12 1 39837 2 none
1b 2048 8 h100 14 1 45455 3 none
70b 2048 64 a100 8 4 410 3 full
70b 2048 32 a100 2 16 373 3 full
30b 2048 8 a100 3 21 916 3 full
13b 2048 8 a100 2 3 2262 3 none
13b 32768 8 a100 1 3 1016 3 full
7b 2048 8 a100 6 2 4641 3 none
7b 65536 8 a100 1 2 1013 3 full
3b 2048 8 a100 10 2 10811 3 none
1b 2048 8 a100 14 4 20513 3 none
70b 2048 128 a100-40 4 1 376 3 full
30b 2048 128 a100-40 6 1 865 3 full
13b 2048 128 a100-40 16 1 1972 3 full
"""
"""Model, positions, devices and their kind, samples of a microbatch on each, microbatches, tokens a second and device, ZeRO, recompute."""

MACHINES = {"h100": ("h100-8x", "80 GB"), "a100": ("a100-dgx", "80 GB"), "a100-40": ("a100-dgx", "40 GB")}


@cache
def mpt(size: str, sequence: int, folder: Path) -> LayerGraph:
    """Return the network of a size; its biases, of which MPT has none, are a ten-thousandth of its weights."""
    hidden, layers, heads = SIZES[size]
    config = {
        "model_type": "gpt2",
        "n_embd": hidden,
        "n_layer": layers,
        "n_head": heads,
        "n_positions": sequence,
        "vocab_size": 50368,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
    }
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    return imported(str(file), ()).graph()


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS.split("\n")[1:-1])
def test_what_was_run_fits(row: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    size, sequence, devices, kind, samples, microbatches, tokens, zero, recompute = row.split()
    nodes, (name, memory) = int(devices) // 8, MACHINES[kind]
    batch = int(samples) * int(microbatches) * int(devices)
    plan = plan_model(
        mpt(size, int(sequence), tmp_path_factory.mktemp("config")),
        array=(nodes, 8) if nodes > 1 else (8,),
        batch=batch,
        hardware=load_machine(name, {"interconnect.0.devices": nodes, "memory.capacity": memory}),
        strategy="dp",
        optimizer="adam",
        precision="bf16",
        zero=int(zero),
        recompute=recompute,
        microbatches=int(microbatches),
    )
    score = known(plan.score)
    rate = int(sequence) * batch / int(devices) / score.time_s
    sys.stdout.write(f"{row}: {score.memory_bytes / 1e9:.1f} GB, {rate:,.0f} tokens/s a device\n")
    assert score.fits
    assert rate > int(tokens) / 1.1
