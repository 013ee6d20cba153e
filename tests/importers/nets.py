"""Small networks for the tests of importers; modules of Python whose code is run, some of which fail."""

NETS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, groups=2)

    def forward(self, x):
        return self.relu(x + self.conv2(self.relu(self.bn1(self.conv1(x)))))

class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.squeeze = nn.Conv2d(width, width, 1)
        self.excite = nn.Conv2d(width, width, 1)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x):
        x = x * torch.sigmoid(self.squeeze(x.mean((2, 3), keepdim=True)))
        return torch.sigmoid(self.excite(self.pool(x))) * x

class Net(nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.body = nn.Sequential(Block(8), Block(8), Block(8))
        self.gate = Gate(8) if gate else nn.Identity()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = self.stem(x)
        return torch.softmax(self.fc(self.pool(self.gate(self.body(x))).flatten(1)), 1)

class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.inner = nn.Conv2d(3, 4, 1), nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(self.first(x).flatten(2).mT).mean(1)

class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.inner = nn.Conv2d(3, 4, 1), nn.Linear(64, 64)

    def forward(self, x):
        x = self.first(x).flatten(1)
        return self.inner((x @ x.t()) @ x)

class Open(nn.Module):
    def forward(self, x):
        return x[x > 0]

class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.a(self.a(x)), self.b(x)

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.lstm, self.out = nn.Embedding(9, 4), nn.LSTM(4, 4, batch_first=True), nn.Linear(4, 9)

    def forward(self, tokens):
        return self.out(self.lstm(self.table(tokens))[0])

class Translates(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Embedding(9, 8), nn.Embedding(9, 8), nn.Linear(8, 9)
        self.inner = nn.Transformer(8, 2, 2, 2, 16, batch_first=True)

    def forward(self, x, y):
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1], device=y.device)
        return self.out(self.inner(self.a(x), self.b(y), tgt_mask=mask, tgt_is_causal=True))

class Up(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.pool = nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2)
        self.middle, self.up = nn.Conv2d(8, 16, 3, padding=1), nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        x = self.down(x).relu()
        return self.out(torch.cat([x, self.up(self.middle(self.pool(x)).relu())], 1))

class Parts(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.both, self.out, self.whole = nn.Linear(4, 12), nn.Linear(12 if whole else 4, 4), whole

    def forward(self, x):
        y = self.both(x)
        a, b = y.split([4, 8], -1)
        c, d = b.chunk(2, -1)
        return self.out(y if self.whole else a * c) * d

class Unused(nn.Module):
    def forward(self, x):
        return torch.ones(3, 4)

class Written(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(8, 4)

    def forward(self, x):
        found = self.scores(x).exp()
        return found / found.sum(1, keepdim=True)


class Beside(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.conv, self.head, self.whole = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 2), whole
        self.weight = nn.Parameter(torch.zeros(3, 4, 4, 8) if whole else torch.zeros(4, 4, 8))

    def forward(self, x):
        y = self.conv(x).mean((2, 3))
        if self.whole:
            return self.head(torch.einsum("bchw,chwo->bo", x, self.weight) + y)
        return self.head(torch.einsum("bchw,hwo->bco", x, self.weight) * y.unsqueeze(1))

def build(): return Net(False)
def gated(): return Net(True)
def copies(): return nn.Identity()
def whole(): return Beside(True)
def beside(): return Beside(False)
def encoder(): return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 3)
def samples_last(): return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 3)
def dropping(): return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
def parts(): return Parts(False)
def parts_and_whole(): return Parts(True)
def weight_norm(): return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(400, 16)), nn.Linear(16, 9))
def nothing(): return 3
def failing(): raise ValueError("no weights here")
def leaving(): raise SystemExit(7)
number = 4
"""
BROKEN = "import nonsense_that_is_nowhere\n"


CONVOLVED = """
import torch
from torch import nn


def row():
    return nn.Sequential(
        nn.Conv1d(4, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(8, 12, 3, stride=2, padding=1, groups=4, bias=False), nn.GroupNorm(3, 12), nn.PReLU(12),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(12, 5),
    )


def volume():
    return nn.Sequential(
        nn.Conv3d(2, 6, (3, 3, 1), padding=(1, 1, 0), bias=False), nn.GroupNorm(2, 6), nn.ReLU(),
        nn.MaxPool3d(3, stride=1, padding=1), nn.Conv3d(6, 4, 2, stride=2, groups=2), nn.BatchNorm3d(4), nn.PReLU(),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, 5),
    )


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(6, 8, 3, padding=1), nn.Conv1d(8, 12, 3, stride=2, padding=1, bias=False)
        self.q, self.k, self.v = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12)
        self.mixed, self.head = nn.Conv1d(12, 12, 5, padding=2, groups=12), nn.Linear(12, 5)
        self.positions, self.scale = nn.Parameter(torch.zeros(8, 12)), nn.Parameter(torch.zeros(12))
        self.table = nn.Embedding(20, 12)

    def forward(self, x):
        x = self.conv2(nn.functional.gelu(self.conv1(x))).transpose(1, 2) + self.positions
        q, k, v = (part(x).view(len(x), 8, 3, 4).transpose(1, 2) for part in (self.q, self.k, self.v))
        x = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(len(x), 8, 12)
        x = self.mixed(x.transpose(1, 2)).transpose(1, 2) * self.scale
        return self.head(x + self.table(torch.arange(8, device=x.device)))


def sequence(): return Sequence()


def image():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.PReLU(), nn.InstanceNorm2d(8, affine=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )
"""
"""Convolutions along one dim and three, normalisations of groups, trained slopes."""

GPT_TORCH = """
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

GPT_JAX = """
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

GPT_LOOP = GPT_JAX.replace(
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

EXPERTS = """
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
"""
"""Experts' layers as kernels of grouped products."""

VIT_TORCH = (
    EXPERTS
    + """
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
)

LATENT = (
    EXPERTS
    + """
D, R, E, G, FF = 8, 4, 8, 4, 16

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

class Routed(nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(H, E, bias=False), Experts()
        self.register_buffer("bias", torch.zeros(E))

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
        return self.experts(flat, index, gates).view(x.shape)

class Block(nn.Module):
    def __init__(self, written):
        super().__init__()
        self.attention, self.mlp = Latent(written), Routed()

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
"""
)

FLAX = """
import jax, jax.numpy as jnp
import flax.linen as nn

def shape(*sizes, dtype="float32"): return jax.ShapeDtypeStruct(sizes, dtype)
def norm(): return nn.BatchNorm(use_running_average=False)

class Bottleneck(nn.Module):
    width: int
    stride: int

    @nn.compact
    def __call__(self, x):
        def conv(features, size, stride=1):
            return nn.Conv(features, (size, size), strides=stride, padding=size // 2, use_bias=False)

        y = nn.relu(norm()(conv(self.width, 1)(x)))
        y = nn.relu(norm()(conv(self.width, 3, self.stride)(y)))
        y = norm()(conv(4 * self.width, 1)(y))
        if x.shape != y.shape:
            x = norm()(conv(4 * self.width, 1, self.stride)(x))
        return nn.relu(x + y)

class ResNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(norm()(nn.Conv(64, (7, 7), strides=2, padding=3, use_bias=False)(x)))
        x = nn.max_pool(x, (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        for stage, count in enumerate((3, 4, 6, 3)):
            for number in range(count):
                x = Bottleneck(64 * 2**stage, 2 if stage and not number else 1)(x)
        return nn.softmax(nn.Dense(1000)(x.mean((1, 2))))

def resnet50():
    net = ResNet()
    held = jax.eval_shape(net.init, jax.random.key(0), shape(2, 224, 224, 3))

    def run(params, x):
        stats = jax.tree.map(lambda one: jnp.zeros(one.shape), held["batch_stats"])
        return net.apply({"params": params, "batch_stats": stats}, x, mutable=["batch_stats"])[0]

    return run, held["params"]

class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        y, mask = nn.LayerNorm()(x), nn.make_causal_mask(jnp.ones(x.shape[:2]))
        x = x + nn.MultiHeadDotProductAttention(num_heads=4)(y, y, mask=mask)
        return x + nn.Dense(32)(nn.gelu(nn.Dense(128)(nn.LayerNorm()(x))))

class Gpt(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        table = nn.Embed(400, 32)
        x = table(tokens) + self.param("wpe", nn.initializers.zeros, (16, 32))
        for _ in range(3):
            x = Block()(x)
        return table.attend(nn.LayerNorm()(x))

def gpt():
    net = Gpt()
    held = jax.eval_shape(net.init, jax.random.key(0), shape(2, 16, dtype="int32"))
    return (lambda params, x: net.apply({"params": params}, x)), held["params"]
"""
