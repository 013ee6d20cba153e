"""ResNet-50 and a small GPT in Flax; the GPT is that of ``transformer``."""

from __future__ import annotations

NETS = """
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

class Grouped(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.GroupNorm(4)(nn.Conv(8, (3, 3))(x)))
        x = nn.GroupNorm(num_groups=None, group_size=1, use_scale=False, use_bias=False)(x)
        return nn.Dense(5)(x.mean((1, 2)))

def grouped():
    net = Grouped()
    held = jax.eval_shape(net.init, jax.random.key(0), shape(2, 8, 8, 3))
    return (lambda params, x: net.apply({"params": params}, x)), held["params"]

def gpt():
    net = Gpt()
    held = jax.eval_shape(net.init, jax.random.key(0), shape(2, 16, dtype="int32"))
    return (lambda params, x: net.apply({"params": params}, x)), held["params"]
"""
