"""One small network of latent attention and of experts chosen by groups in PyTorch, and as a model file."""

from __future__ import annotations

TORCH = """
import torch
from torch import nn
from torch.nn import functional as F

H, N, D, R, E, G, K, FF = 32, 4, 8, 4, 8, 4, 2, 16

def rotated(x):
    steps = 10.0 ** torch.arange(R // 2, device=x.device)
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] / steps
    one, two = x[..., ::2], x[..., 1::2]
    return torch.cat([one * angles.cos() - two * angles.sin(), two * angles.cos() + one * angles.sin()], -1)

class Latent(nn.Module):
    def __init__(self, written):
        super().__init__()
        self.written, self.q, self.o = written, nn.Linear(H, N * (D + R), bias=False), nn.Linear(N * D, H, bias=False)
        self.kv_a, self.kv_b = nn.Linear(H, 6 + R, bias=False), nn.Linear(6, N * 2 * D, bias=False)

    def forward(self, x):
        b, s, _ = x.shape
        plain, turned = self.q(x).view(b, s, N, D + R).transpose(1, 2).split([D, R], -1)
        rank, shared = self.kv_a(x).split([6, R], -1)
        keys, values = self.kv_b(rank).view(b, s, N, 2 * D).transpose(1, 2).split([D, D], -1)
        shared = rotated(shared.view(b, 1, s, R)).expand(b, N, s, R)
        q = torch.cat([plain, rotated(turned)], -1)
        if self.written:
            # The rotated features first, and a softmax that is written out.
            q, k = torch.cat([rotated(turned), plain], -1), torch.cat([shared, keys], -1)
            x = (q @ k.transpose(2, 3) / (D + R) ** 0.5).softmax(-1) @ values
        else:
            k = keys.new_empty(b, N, s, D + R)
            k[..., :D] = keys
            k[..., D:] = shared
            x = F.scaled_dot_product_attention(q, k, values)
        return self.o(x.transpose(1, 2).reshape(b, s, N * D))

def grouped(x, weight, ends):
    # A kernel of bfloat16 alone.
    return F.grouped_mm(x.bfloat16(), weight.transpose(1, 2).bfloat16(), offs=ends).float()

class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(H, E, bias=False)
        self.register_buffer("bias", torch.zeros(E))
        self.up, self.down = nn.Parameter(torch.zeros(E, FF, H)), nn.Parameter(torch.zeros(E, H, FF))

    def forward(self, x):
        flat = x.reshape(-1, H)
        scores = self.router(flat).sigmoid()
        biased = scores + self.bias
        groups = biased.view(-1, G, E // G).topk(1, -1)[0].sum(-1)
        best = torch.zeros_like(groups).scatter_(1, groups.topk(2, -1)[1], 1)
        hidden = best.unsqueeze(-1).expand(-1, G, E // G).reshape(-1, E).bool()
        index = biased.masked_fill(~hidden, 0.0).topk(K)[1]
        gates = scores.gather(1, index)
        gates = gates / (gates.sum(-1, keepdim=True) + 1e-20) * 2.5
        order = index.flatten().argsort()
        ends = torch.histc(index.flatten(), bins=E, min=0, max=E - 1).cumsum(0, dtype=torch.int32)
        flat = F.gelu(grouped(flat[order // K], self.up, ends))
        flat = grouped(flat, self.down, ends) * gates.flatten()[order].unsqueeze(-1)
        return flat[order.argsort()].view(-1, K, H).sum(1).view(x.shape)

class Block(nn.Module):
    def __init__(self, written):
        super().__init__()
        self.attention, self.mlp = Latent(written), Experts()

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.mlp(x)

def build(): return Block(False)
def written(): return Block(True)

class Joined(nn.Module):
    # Features that something else than an attention reads as one.
    def __init__(self):
        super().__init__()
        self.one, self.two, self.both = nn.Linear(H, 8), nn.Linear(H, 4), nn.Linear(12, H)

    def forward(self, x): return self.both(torch.cat([self.one(x), self.two(x)], -1))

def joined(): return Joined()
"""

HAND = """\
source: by hand
batch: 2
dims: {sequence: 6, hidden: 32, heads: 4, head_dim: 8, rope_dim: 4, rank: 6, experts: 8, ff: 16}
layers:
  - {op: input, shape: [sequence, hidden]}
  - {name: q, op: linear, in: hidden, out: [heads, head_dim], bias: false}
  - {name: q_part, op: linear, in: hidden, out: [heads, rope_dim], bias: false, inputs: input}
  - {name: kv_a, op: linear, in: hidden, out: rank, bias: false, inputs: input}
  - {name: k_part, op: linear, in: hidden, out: rope_dim, bias: false, inputs: input}
  - {name: k, op: linear, in: rank, out: [heads, head_dim], bias: false, inputs: kv_a}
  - {name: v, op: linear, in: rank, out: [heads, head_dim], bias: false, inputs: kv_a}
  - {name: k_rope, op: rope, dim: rope_dim, inputs: k_part}
  - {name: q_rope, op: rope, dim: rope_dim, inputs: q_part}
  - {name: attention, op: attention, inputs: [q, k, v, q_rope, k_rope]}
  - {name: o, op: linear, in: [heads, head_dim], out: hidden, bias: false}
  - {name: add1, op: add, inputs: [input, o]}
  - {name: router, op: linear, in: hidden, out: experts, bias: false}
  - {name: gates, op: top_k, over: experts, count: 2, function: sigmoid, groups: 4, best: 2}
  - {name: dispatch, op: dispatch, to: experts, count: 2, inputs: add1}
  - {name: up, op: linear, in: hidden, out: ff, each: experts, bias: false}
  - {op: gelu}
  - {name: down, op: linear, in: ff, out: hidden, each: experts, bias: false}
  - {name: combine, op: combine, count: 2, inputs: [down, gates]}
  - {name: add2, op: add, inputs: [add1, combine]}
"""
