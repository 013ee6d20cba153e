"""Tables of relative positions, rows of which are added to the scores of an attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hypar
from tests.importers.plans import assert_one_network, import_network, importable

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """
import torch
from torch import nn
from torch.nn import functional as F

S, H, N = 4, 8, 4

class Net(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(H, H) for _ in range(4))
        self.how = how
        self.table = nn.Parameter(torch.zeros(*{"pairs": (S, S), "own": (N, S, S)}.get(how, (2 * S - 1, N))))

    def forward(self, x):
        q, k, v = (layer(x).view(-1, S, N, H // N).transpose(1, 2) for layer in (self.q, self.k, self.v))
        place = torch.arange(S)
        distances = place[:, None] - place[None] + S - 1
        if self.how == "embedding":
            bias = F.embedding(distances, self.table)
        elif self.how in {"index", "mask"}:
            bias = self.table[distances.view(-1)].view(S, S, -1)
        else:
            bias = self.table.view(-1, S, S).permute(1, 2, 0)
        bias = bias.permute(2, 0, 1).unsqueeze(0)
        if self.how == "mask":
            x = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            x = (q @ k.transpose(-2, -1) / 2**0.5 + bias).softmax(-1) @ v
        return self.o(x.transpose(1, 2).reshape(-1, S, H))

def embedding(): return Net("embedding")
def index(): return Net("index")
def mask(): return Net("mask")
def pairs(): return Net("pairs")
def own(): return Net("own")
"""

HAND = """
source: a test
batch: 256
dims: {heads: 4, head_dim: 2, hidden: 8}
layers:
  - {name: x, op: input, shape: {sequence: 4, hidden: 8}}
  - {name: q, op: linear, in: hidden, out: [heads, head_dim]}
  - {name: k, op: linear, in: hidden, out: [heads, head_dim], inputs: x}
  - {name: v, op: linear, in: hidden, out: [heads, head_dim], inputs: x}
  - {name: scores, op: matmul, over: head_dim, names: {sequence: keys}, inputs: [q, k]}
  - {name: distances, op: position, over: heads, rows: 7}
  - {name: shares, op: softmax, over: keys}
  - {name: mean, op: matmul, over: {keys: sequence}, inputs: [shares, v]}
  - {name: o, op: linear, in: [heads, head_dim], out: hidden}
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "said", "trained"),
    [
        ("embedding", "over: heads, rows: 7", 7 * 4),
        ("index", "over: heads, rows: 7", 7 * 4),
        ("mask", "over: heads, rows: 7", 7 * 4),
        ("pairs", "over: [sequence, keys]", 4 * 4),
        ("own", "over: [heads, sequence, keys]", 4 * 4 * 4),
    ],
)
def test_rows_of_a_table_are_added_to_the_scores(
    build: str, said: str, trained: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="PyTorch is an extra")
    importable(tmp_path, monkeypatch, hypar_relative_torch=MODULE)
    (tmp_path / "hand.yaml").write_text(HAND.replace("over: heads, rows: 7", said), encoding="utf-8")
    found = import_network("torch", f"hypar_relative_torch:{build}", [(4, 8)])
    assert found.coverage.shares == (1.0, 1.0)
    assert found.coverage.parameters == found.graph().num_parameters == trained + 4 * (8 * 8 + 8)
    assert_one_network(found, hypar.load_model(tmp_path / "hand.yaml"), "batch,heads,sequence")
