"""One small vision transformer with experts in PyTorch, one without in JAX, and both as model files."""

from __future__ import annotations

TORCH = """
import torch
from torch import nn
from torch.nn import functional as F

H, N, E, K, FF = 32, 4, 4, 2, 48

def grouped(x, weight, ends):
    # A kernel of bfloat16 alone.
    return F.grouped_mm(x.bfloat16(), weight.transpose(1, 2).bfloat16(), offs=ends).float()

class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Parameter(torch.zeros(E, FF, H)), nn.Parameter(torch.zeros(E, H, FF))

    def forward(self, x, index, gates):
        order = index.flatten().argsort()
        ends = torch.histc(index.flatten(), bins=E, min=0, max=E - 1).cumsum(0, dtype=torch.int32)
        x = F.gelu(grouped(x[order // K], self.up, ends))
        x = grouped(x, self.down, ends) * gates.flatten()[order].unsqueeze(-1)
        return x[order.argsort()].view(-1, K, H).sum(1)

class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(H, E, bias=False), Experts()

    def forward(self, x):
        flat = x.reshape(-1, H)
        gates, index = self.router(flat).topk(K)
        return self.experts(flat, index, gates.softmax(-1)).view(x.shape)

class Block(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.ln1, self.ln2, self.qkv, self.out = nn.LayerNorm(H), nn.LayerNorm(H), nn.Linear(H, 3 * H), nn.Linear(H, H)
        self.mlp = Mixture() if kind else nn.Sequential(nn.Linear(H, FF), nn.GELU(), nn.Linear(FF, H))

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, s, 3, N, H // N).permute(2, 0, 3, 1, 4).unbind()
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, H))
        return x + self.mlp(self.ln2(x))

class Vit(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.patches = nn.Conv2d(3, H, 4, stride=4)
        self.token, self.position = nn.Parameter(torch.zeros(1, 1, H)), nn.Parameter(torch.zeros(1, 17, H))
        self.blocks = nn.Sequential(*(Block(kind) for _ in range(2)))
        self.ln, self.head = nn.LayerNorm(H), nn.Linear(H, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.ln(self.blocks(x))[:, 0])

def dense(): return Vit(False)
def routed(): return Vit(True)
"""

JAX = """
import jax, jax.numpy as jnp
from jax import lax

H, N, FF = 32, 4, 48

def norm(p, x):
    apart = x - x.mean(-1, keepdims=True)
    return apart * lax.rsqrt((apart**2).mean(-1, keepdims=True) + 1e-5) * p["w"] + p["b"]

def linear(p, x): return x @ p["w"] + p["b"]
def heads(x): return x.reshape(*x.shape[:2], N, H // N).transpose(0, 2, 1, 3)

def block(p, x):
    q, k, v = map(heads, jnp.split(linear(p["qkv"], norm(p["ln1"], x)), 3, axis=-1))
    y = jax.nn.softmax(q @ k.swapaxes(-1, -2) / (H // N) ** 0.5, axis=-1) @ v
    x = x + linear(p["out"], y.transpose(0, 2, 1, 3).reshape(x.shape))
    return x + linear(p["down"], jax.nn.gelu(linear(p["up"], norm(p["ln2"], x))))

def net(p, x):
    numbers = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(x, p["c"]["w"], (4, 4), "VALID", dimension_numbers=numbers) + p["c"]["b"]
    x = x.reshape(x.shape[0], -1, H)
    x = jnp.concatenate([jnp.broadcast_to(p["t"], (x.shape[0], 1, H)), x], 1) + p["p"]
    for number, own in enumerate(p["h"]):
        with jax.named_scope(f"h{number}"):
            x = block(own, x)
    return linear(p["head"], norm(p["ln"], x)[:, 0])

def build():
    S = lambda *sizes: jax.ShapeDtypeStruct(sizes, "float32")
    pair = lambda *sizes: {"w": S(*sizes), "b": S(sizes[-1])}
    own = lambda: {"ln1": pair(H), "ln2": pair(H), "qkv": pair(H, 3 * H), "out": pair(H, H),
                   "up": pair(H, FF), "down": pair(FF, H)}
    return net, {"c": pair(4, 4, 3, H), "t": S(1, 1, H), "p": S(17, H), "h": [own(), own()], "ln": pair(H),
                 "head": pair(H, 10)}
"""

DENSE = """
      - {name: up, op: linear, in: hidden, out: ff}
      - {op: gelu}
      - {name: down, op: linear, in: ff, out: hidden}"""

ROUTED = """
      - {name: router, op: linear, in: hidden, out: experts, bias: false}
      - {name: gates, op: top_k, over: experts, count: 2}
      - {name: dispatch, op: dispatch, to: experts, count: 2, inputs: ln2}
      - {name: up, op: linear, in: hidden, out: ff, each: experts, bias: false}
      - {op: gelu}
      - {name: experts, op: linear, in: ff, out: hidden, each: experts, bias: false}
      - {name: down, op: combine, count: 2, inputs: [experts, gates]}"""


def by_hand(mlp: str) -> str:
    """Return the model file with one or the other perceptron."""
    return f"""\
source: by hand
batch: 2
dims: {{hidden: 32, heads: 4, head_dim: 8, ff: 48, classes: 10, experts: 4}}
blocks:
  block:
    layers:
      - {{name: ln1, op: layer_norm, over: hidden}}
      - {{name: q, op: linear, in: hidden, out: [heads, head_dim]}}
      - {{name: k, op: linear, in: hidden, out: [heads, head_dim], inputs: ln1}}
      - {{name: v, op: linear, in: hidden, out: [heads, head_dim], inputs: ln1}}
      - {{name: attention, op: attention, inputs: [q, k, v]}}
      - {{name: o, op: linear, in: [heads, head_dim], out: hidden}}
      - {{name: add1, op: add, inputs: [input, o]}}
      - {{name: ln2, op: layer_norm, over: hidden}}{mlp}
      - {{name: add2, op: add, inputs: [add1, down]}}
layers:
  - {{op: input, channels: 3, height: 16, width: 16}}
  - {{op: patch, kernel: 4, out: hidden}}
  - {{op: token}}
  - {{op: position}}
  - {{block: block, name: h, repeat: 2}}
  - {{name: ln, op: layer_norm, over: hidden}}
  - {{op: select}}
  - {{name: head, op: linear, in: hidden, out: classes}}
"""
