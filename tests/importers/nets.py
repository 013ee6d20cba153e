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

class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

class Open(nn.Module):
    def forward(self, x):
        return x[x > 0]

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, y):
        return self.a(x) + self.b(y)

class Unused(nn.Module):
    def forward(self, x):
        return torch.ones(3, 4)

@torch.library.custom_op("hypartest::mystery", mutates_args=())
def mystery(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w

class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return mystery(self.fc(x), self.fc.weight)

def build(): return Net(False)
def gated(): return Net(True)
def sequence(): return Sequence()
def mixed(): return Mixed()
def branch(): return Branch()
def open_(): return Open()
def two(): return Two()
def unused(): return Unused()
def custom(): return Custom()
def nothing(): return 3
def failing(): raise ValueError("no weights here")
def leaving(): raise SystemExit(7)
number = 4
"""
BROKEN = "import nonsense_that_is_nowhere\n"
RAISING = "raise RuntimeError('at import')\n"
NOT_PYTHON = "def build(:\n"

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
