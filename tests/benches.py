"""A bench that takes no time."""

from collections import Counter
from dataclasses import dataclass, field

from hypar import Profile, profile_model
from hypar.studies.profile import LayerShard, TorchBench


@dataclass
class FakeBench(TorchBench):
    """A nanosecond a byte, longer by ``delays`` in turn; remembers what it was asked."""

    memory_bytes: int | None = None
    delays: tuple[float, ...] = (0.0,)
    device: str = "a fake"
    asked: list[LayerShard] = field(default_factory=list)

    turns: Counter[LayerShard] = field(default_factory=Counter)

    def seconds(self, shard: LayerShard) -> float:
        self.asked.append(shard)
        turn = self.turns[shard]
        self.turns[shard] += 1
        return shard.num_bytes * 1e-9 + self.delays[turn % len(self.delays)]


def lenet_profile() -> Profile:
    """Of Lenet-c's 32 samples on a level of 4 ways."""
    return profile_model("lenet-c", batch=32, ways=4, repeats=1, bench=FakeBench())
