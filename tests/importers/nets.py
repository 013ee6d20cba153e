"""Small networks for the tests of importers; modules of Python whose code is run, some of which fail."""

from __future__ import annotations

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

class Attends(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.attention, self.out, self.options = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 3), options

    def forward(self, x):
        return self.out(self.attention(x, x, x, **self.options)[0])

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
def written(): return Written()
def whole(): return Beside(True)
def beside(): return Beside(False)
def sequence(): return Sequence()
def mixed(): return Mixed()
def open_(): return Open()
def unused(): return Unused()
def shared(): return Shared()
def recurrent(): return Recurrent()
def encoder(): return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 3)
def samples_last(): return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 3)
def attends(): return Attends()
def without_shares(): return Attends(need_weights=False)
def translates(): return Translates()
def up(): return Up()
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

HAND = """\
source: by hand
batch: 2
blocks:
  block:
    layers:
      - {name: conv1, op: conv, out_channels: 8, kernel: 3, padding: 1, bias: false}
      - {op: batch_norm}
      - {op: relu}
      - {name: conv2, op: conv, out_channels: 8, kernel: 3, padding: 1, groups: 2}
      - {name: add, op: add, inputs: [input, conv2]}
      - {op: relu}
layers:
  - {op: input, channels: 3, height: 32, width: 32}
  - {name: stem, op: conv, out_channels: 8, kernel: 3, stride: 2, padding: 1}
  - {block: block, name: body, repeat: 3}
  - {op: pool, mode: average, window: global}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 10}
  - {op: softmax}
"""

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
