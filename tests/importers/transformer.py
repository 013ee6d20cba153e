"""One small GPT in PyTorch and in JAX, and as a model file."""

from __future__ import annotations

TORCH = """
import torch
from torch import nn
from torch.nn import functional as F

S, H, N, V = 16, 32, 4, 400

class Attention(nn.Module):
    def __init__(self, written):
        super().__init__()
        self.qkv, self.out, self.written = nn.Linear(H, 3 * H), nn.Linear(H, H), written

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (part.view(b, s, N, H // N).transpose(1, 2) for part in self.qkv(x).split(H, 2))
        if self.written:
            scores = q @ k.transpose(-2, -1) / (H // N) ** 0.5
            mask = torch.ones(s, s, device=x.device, dtype=torch.bool).tril()
            x = scores.masked_fill(~mask, -1e9).softmax(-1) @ v
        else:
            x = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(x.transpose(1, 2).reshape(b, s, H))

class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(H)), nn.Parameter(torch.zeros(H))

    def forward(self, x):
        apart = x - x.mean(-1, keepdim=True)
        return apart * torch.rsqrt(apart.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight + self.bias

class Block(nn.Module):
    def __init__(self, written):
        super().__init__()
        norm = Norm if written else (lambda: nn.LayerNorm(H))
        self.ln1, self.ln2, self.attention = norm(), norm(), Attention(written)
        self.up, self.down, self.written = nn.Linear(H, 4 * H), nn.Linear(4 * H, H), written

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        y = self.up(self.ln2(x))
        y = 0.5 * y * (1 + torch.erf(y / 2**0.5)) if self.written else F.gelu(y)
        return x + self.down(y)

class Gpt(nn.Module):
    def __init__(self, written):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, H), nn.Parameter(torch.zeros(S, H))
        self.h = nn.ModuleList(Block(written) for _ in range(3))
        self.ln_f, self.head = nn.LayerNorm(H), nn.Linear(H, V, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))

def build(): return Gpt(False)
def written(): return Gpt(True)
"""

JAX = """
import jax, jax.numpy as jnp

S, H, N, V = 16, 32, 4, 400

def norm(p, x):
    apart = x - x.mean(-1, keepdims=True)
    return apart * jax.lax.rsqrt((apart**2).mean(-1, keepdims=True) + 1e-5) * p["w"] + p["b"]

def linear(p, x): return x @ p["w"] + p["b"]
def heads(x): return x.reshape(*x.shape[:2], N, H // N).transpose(0, 2, 1, 3)

def block(p, x):
    q, k, v = map(heads, jnp.split(linear(p["qkv"], norm(p["ln1"], x)), 3, axis=-1))
    scores = q @ k.swapaxes(-1, -2) / (H // N) ** 0.5
    mask = jnp.tril(jnp.ones((S, S), bool))
    y = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1) @ v
    x = x + linear(p["out"], y.transpose(0, 2, 1, 3).reshape(x.shape))
    return x + linear(p["down"], jax.nn.gelu(linear(p["up"], norm(p["ln2"], x))))

def net(p, tokens):
    x = p["wte"][tokens] + p["wpe"]
    for number, own in enumerate(p["h"]):
        with jax.named_scope(f"h{number}"):
            x = block(own, x)
    return norm(p["ln"], x) @ p["wte"].T

def build():
    S_ = lambda *sizes: jax.ShapeDtypeStruct(sizes, "float32")
    pair = lambda *sizes: {"w": S_(*sizes), "b": S_(sizes[-1])}
    own = lambda: {"ln1": pair(H), "ln2": pair(H), "qkv": pair(H, 3 * H), "out": pair(H, H),
                   "up": pair(H, 4 * H), "down": pair(4 * H, H)}
    return net, {"wte": S_(V, H), "wpe": S_(S, H), "ln": pair(H), "h": [own() for _ in range(3)]}
"""

JAX_LOOP = JAX.replace(
    """\
    for number, own in enumerate(p["h"]):
        with jax.named_scope(f"h{number}"):
            x = block(own, x)
""",
    """\
    x, _ = jax.lax.scan(lambda x, own: (jax.checkpoint(block)(own, x), None), x, p["h"])
""",
).replace("[own() for _ in range(3)]", "jax.tree.map(lambda held: S_(3, *held.shape), own())")
"""The same in JAX as a loop over stacked weights, with the blocks' activations computed again."""

HAND = """\
source: by hand
batch: 2
dims: {sequence: 16, hidden: 32, heads: 4, head_dim: 8, ff: 128, vocab: 400}
blocks:
  block:
    layers:
      - {name: ln1, op: layer_norm, over: hidden}
      - {name: q, op: linear, in: hidden, out: [heads, head_dim]}
      - {name: k, op: linear, in: hidden, out: [heads, head_dim], inputs: ln1}
      - {name: v, op: linear, in: hidden, out: [heads, head_dim], inputs: ln1}
      - {name: attention, op: attention, causal: true, inputs: [q, k, v]}
      - {name: o, op: linear, in: [heads, head_dim], out: hidden}
      - {name: add1, op: add, inputs: [input, o]}
      - {name: ln2, op: layer_norm, over: hidden}
      - {name: up, op: linear, in: hidden, out: ff}
      - {op: gelu}
      - {name: down, op: linear, in: ff, out: hidden}
      - {name: add2, op: add, inputs: [add1, down]}
layers:
  - {op: input, shape: sequence}
  - {name: wte, op: embedding, over: vocab, out: hidden}
  - {name: wpe, op: position}
  - {block: block, name: h, repeat: 3}
  - {name: ln, op: layer_norm, over: hidden}
  - {name: head, op: linear, in: hidden, out: vocab, bias: false, weight: wte}
"""
