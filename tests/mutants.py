"""Facts of the core, each with the line that says it and a line that says it wrongly: what do the tests notice?

Run by hand, from the project's folder; nothing but copies of the sources is changed.

    python tests/mutants.py                        all mutants, the invariants and each one's package's tests, up to the first failure
    python tests/mutants.py --only halo tied       those whose fact has one of these words
    python tests/mutants.py --invariants           the invariants alone
    python tests/mutants.py --all                  survivors against all quick tests too
    python tests/mutants.py --check                whether each line is still found once

Who rewrites a line moves its mutant: a fact stays, its site and words change.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Mutant(NamedTuple):
    """A fact that is told wrongly.

    Attributes:
        fact: what is no longer so.
        file: where it is said, below ``src/hypar``.
        line: a part of its line that is found once in the file.
        instead: what stands there instead.
    """

    fact: str
    file: str
    line: str
    instead: str

    @property
    def package(self) -> str:
        folder = f"tests/{self.file.partition('/')[0]}"
        return folder if (ROOT / folder).is_dir() else "tests/contracts"


MUTANTS = [
    # network
    Mutant("a causal attention multiplies half", "ops/families/activations.py", '"fraction": 0.5 if self.causal else 1.0', '"fraction": 1.0'),
    Mutant("an attention has two products", "ops/nest.py", "return int(self.macs_among({}))", "return int(self.macs_among({}) / 2)"),
    Mutant("an attention keeps a sum for each query", "ops/families/activations.py", "elements=num_rows if self.flash else scores", "elements=0 if self.flash else scores"),
    Mutant("an attention keeps its output", "ops/families/activations.py", "Saved(input=True, output=self.flash,", "Saved(input=True, output=False,"),
    Mutant("a norm keeps its statistics", "ops/families/normalise.py", "elements=(1 + self.centred) * positions // each", "elements=0 * positions // each"),
    Mutant("a norm keeps its input", "ops/families/normalise.py", "Saved(input=True, elements=(1", "Saved(elements=(1"),
    Mutant("a layer norm has a shift", "ops/families/normalise.py", 'given = {"weight": self.scale, "bias": self.shift}', 'given = {"weight": self.scale}'),
    Mutant("a rotation turns by the place in the whole", "ops/families/elementwise.py", "angle = run.index(self.over)[:, None]", "angle = np.arange(len(run.index(self.over)))[:, None]"),
    Mutant("a softmax keeps its output", "ops/families/normalise.py", "saved = Saved(output=True)", "saved = Saved()"),
    Mutant("a layer norm takes five operations", "ops/families/normalise.py", "operations: ClassVar[int] = 5", "operations: ClassVar[int] = 4"),
    Mutant("a dispatch keeps the experts' numbers", "ops/families/activations.py", "mask_bytes=INDEX_BYTES * self.count * shape[self.over]", "mask_bytes=0 * shape[self.over]"),
    Mutant("a dispatch multiplies nothing", "ops/families/activations.py", '"fraction": 0.0', '"fraction": 1.0'),
    Mutant("a batch norm keeps statistics of channels", "ops/families/normalise.py", "Saved(input=True, statistics=numbers)", "Saved(input=True)"),
    Mutant("a batch norm reads its input again", "ops/families/normalise.py", '"more": (elements, 2 * elements)', '"more": (0, 2 * elements)'),
    Mutant("a max pool keeps where the largest were", "ops/families/layout.py", 'INDEX_BYTES * (self.mode == "max")', "INDEX_BYTES * 0"),
    Mutant("a global average keeps nothing", "ops/families/layout.py", 'kept = self.mode == "max" or self.window == "sliding"', "kept = True"),
    Mutant("a window starts in its padding", "ops/windows.py", "return first * self.stride - self.padding, last", "return first * self.stride, last"),
    Mutant("a window ends past its last tap", "ops/windows.py", "last * self.stride - self.padding + self.extent", "last * self.stride - self.padding + self.stride"),
    Mutant("a halo is what two neighbours read", "ops/windows.py", "return int(max(0, before - after))", "return int(max(0, before - after - 1))"),
    Mutant("padding is on both sides", "ops/windows.py", "room = size + 2 * self.padding - self.extent", "room = size + self.padding - self.extent"),
    Mutant("taps are a dilation apart", "ops/windows.py", "// self.outputs * self.stride - self.padding + taps", "// self.outputs * self.stride - self.padding + taps // self.dilation"),
    Mutant("a filter of a group reads its channels alone", "ops/families/contract.py", '"in_channels": shape["channels"] // self.groups', '"in_channels": shape["channels"]'),
    Mutant("a group makes a part of the channels", "ops/families/contract.py", '"out_channels": self.out_channels // self.groups', '"out_channels": self.out_channels'),
    Mutant("a tied weight is trained once", "network/layer.py", 'if not (self.op.tied and name == "weight")', "if name"),
    Mutant("a concatenation adds up channels", "ops/families/layout.py", '"channels": sum(sizes)', '"channels": max(sizes)'),
    Mutant("the error of an op is written", "ops/nest.py", "backward += made + read + read * saved.input", "backward += made + read * saved.input"),
    Mutant("momentum keeps one number a weight", "network/training.py", '"momentum": 1', '"momentum": 0'),
    Mutant("adam keeps two numbers a weight", "network/training.py", '"adam": 2', '"adam": 1'),
    Mutant("the gradient of a weight is a result", "ops/nest.py", '"gradient": "weight"', '"gradient": "output"'),
    # sharding
    Mutant("a dim takes digits of its own factors", "sharding/placement.py", "at = digits.index(prime)", "at = 0"),
    Mutant("idle devices read nothing", "sharding/placement.py", "start=self.groups * sizes.of(WORKING)", "start=self.groups"),
    Mutant("a level divides what the levels above left", "sharding/placement.py", "before[:, :, None] / divisors", "1 / divisors"),
    Mutant("a halo grows as shards shrink", "sharding/amounts/factors.py", "np.minimum(border / size, 1.0)", "np.minimum(border, 1.0)"),
    Mutant("there is a border less than shards", "sharding/amounts/factors.py", "(shards - 1 - short) * fraction", "(shards - short) * fraction"),
    Mutant("each copy of a shard has a border", "sharding/amounts/counted.py", "shards * here * halo(", "shards * halo("),
    Mutant("all but one device have terms of a sum, and get it", "sharding/amounts/factors.py", "2.0 * (terms(roles, tensor, own) - 1.0)", "2.0 * terms(roles, tensor, own) - 1.0"),
    Mutant("an error that a cut leaves whole is no terms", "sharding/amounts/transfers.py", "(summed and convention in {FUSED", "(convention in {FUSED"),
    Mutant("an error goes back to where F was made", "sharding/amounts/transfers.py", 'Change(size, "kept", "back", above)', 'Change(size, "kept", "kept", above)'),
    Mutant("what is kept of a tensor is not sent again", "sharding/amounts/factors.py", "owned=both / np.maximum", "owned=0.0 * both / np.maximum"),
    Mutant("sums go straight to a shard", "sharding/amounts/factors.py", "kept, both, back, left = (np.where(straight, inside, own)", "kept, both, back, left = (np.where(straight, own, own)"),
    Mutant("a group without a share has no part of a join", "sharding/amounts/factors.py", "(whole & (not apart))", "whole"),
    Mutant("half of a border lies on each side", "sharding/amounts/factors.py", "borders.get(theirs, 0.0) / 2", "borders.get(theirs, 0.0)"),
    Mutant("what a level lacks it receives in every copy above", "sharding/amounts/transfers.py", "getattr(above, apart) * (size * (lacking", "(size * (lacking"),
    Mutant("a residue of rounding is nothing", "sharding/amounts/transfers.py", "lacking * (abs(lacking) > RESIDUE)", "lacking * (abs(lacking) > -1.0)"),
    Mutant("a halo grows as the levels above divide", "sharding/amounts/factors.py", "more = halo(borders[dim], degrees, sizes.of(dim)[:, None])", "more = halo(borders[dim], degrees, 1.0)"),
    Mutant("dims of one element are left out", "sharding/space.py", "large = [dim for dim in single if sizes[dim] > 1] or single", "large = single"),
    Mutant("channels of a space cut groups too", "sharding/space.py", 'extra = "groups" if layer.weighted else "channels"', 'extra = "channels"'),
    Mutant("a grid has no more shards than elements", "sharding/space.py", "(dim, min(sizes[dim], ways))", "(dim, ways)"),
    # costs
    Mutant("a volume is of all groups of a level", "sharding/placement.py", "start=self.groups * sizes.of(WORKING)", "start=sizes.of(WORKING)"),
    Mutant("the weight between layers counts", "costs/named.py", "even_rates(self.inter_weight * level.element_bytes)", "even_rates(level.element_bytes)"),
    Mutant("devices compute at the innermost level", "costs/graphs/tables.py", "if level.innermost:", "if not level.innermost:"),
    Mutant("accpar divides the operations by the speed", "costs/named.py", "flop / self.machine.flop_per_s(level.element_bytes) * own", "flop / self.machine.flop_per_s(level.element_bytes)"),
    Mutant("deepa receives at all devices at once", "costs/named.py", 'if self.mode == "serial":', 'if self.mode == "exact":'),
    # program and execution
    Mutant("a cut holds where bounds are", "sharding/layout.py", "share *= (own[..., 1] - own[..., 0]).prod(axis=0)", "share *= own[..., 1].prod(axis=0)"),
    Mutant("partial sums of two holdings meet", "program/fragments.py", "if self.convention == MOVED or not have.meets(read):", "if self.convention != MOVED or not have.meets(read):"),
    Mutant("copies of one error are no terms", "program/fragments.py", "return (added if added.terms else", "return (added if True else"),
    Mutant("what moves nothing is no transfer", "program/holding.py", "return self.terms or bool(self.need.lacks(have).any())", "return True"),
    Mutant("a bias has a gradient", "program/lowering.py", "for name in self.nest.trained}", 'for name in ["weight"]}'),
    Mutant("idle devices hold no part", "sharding/layout.py", "return Copies(np.where(layout.working, number, -1))", "return Copies(number)"),
    Mutant("what is saved lives until it is read", "schedule/lifetimes.py", "max([self.later[own] for own in saved])", "until + 1"),
    Mutant("an error is added in its place", "schedule/lifetimes.py", "if own not in self.passed", "if own in self.passed"),
    Mutant("what is sent is added in the buffer", "schedule/lifetimes.py", "at - (buffer in self.outside)", "at"),
    # schedule
    Mutant("1f1b starts with a microbatch for each stage behind", "schedule/pipeline_orders.py", "behind, back = stages - stage - 1, turns", "behind, back = stages - stage, turns"),
    Mutant("gpipe takes errors in reverse", "schedule/pipeline_orders.py", "len(turns), turns[::-1]", "len(turns), turns"),
    Mutant("parts of a stage take errors in reverse", "schedule/pipeline_orders.py", "self.parts - 1 - part, item", "part, item"),
    Mutant("as many microbatches are in flight as went forward", "schedule/pipeline_orders.py", '1 if work.phase == "forward" else -1', '1 if work.phase == "forward" else -work.final'),
    Mutant("what is there of a tensor is no copy", "program/holding.py", "found = ~self.need.lacks(self.have) & (self.need.elements > 0)", "found = ~self.need.lacks(self.have) & False"),
    Mutant("a device reads what lies between the rows of its windows", "program/fragments.py", "(before & behind[..., ::-1])", "own"),
    Mutant("devices of one kind have as much of all", "schedule/lifetimes.py", "for own in (np.zeros(1), *varied)]", "for own in (np.zeros(1), *varied[:1])]"),
    Mutant("gradients are held beside weights", "schedule/memory.py", '"gradients": formats.gradient * gradients,', '"gradients": 0.0,'),
    Mutant("optimizers hold numbers of each weight", "schedule/memory.py", '"optimizer": formats.kept(lane.setting.optimizer) * updated', '"optimizer": updated * 0'),
    Mutant("errors are held beside activations", "schedule/memory.py", '"errors": max(0.0, most - waiting)', '"errors": 0.0'),
    Mutant("a buffer holds the largest transfer", "schedule/memory.py", '"buffers": max(', '"buffers": min('),
    Mutant("memory is that of the fullest device", "schedule/memory.py", "return held, int(total.argmax())", "return held, int(total.argmin())"),
    Mutant("a stage sends a tensor once to each replica", "schedule/tasks.py", "own.num_bytes / own.replicas", "own.num_bytes"),
    Mutant("a stage counts what its readers need", "planning/stages/spans.py", 'copies(tree, layer - first, name) if first <= layer < last else 1.0', "1.0"),
    Mutant("time with nothing to do is idle", "schedule/stages.py", "total.append(max(0.0, end - max(start, until)))", "total.append(max(0.0, end - start))"),
    Mutant("the score counts an energy of every lane", "schedule/stages.py", "if costs is None:\n            return None", "if costs is None:\n            continue"),
    # solve
    Mutant("a node takes the least beside its neighbours", "solve/minsum.py", "np.flatnonzero(costs == costs.min())", "np.flatnonzero(costs == costs.max())"),
    Mutant("of equal choices the first is taken", "solve/minsum.py", "own[others] = min(whole)", "own[others] = max(whole)"),
    Mutant("a partition has a limit", "solve/partition.py", "if bottleneck == np.inf or bottleneck > limit:", "if bottleneck == np.inf:"),
    Mutant("shares sum to one", "solve/balance.py", "if math.fsum(ends) < 1:", "if math.fsum(ends) < 2:"),
    # planning
    Mutant("a level is planned below those above it", "planning/searches/named.py", "if index + 1 < len(question.levels):", "if index + 2 < len(question.levels):"),
    Mutant("a baseline is taken if it is faster", "planning/chunks.py", "return faster(self.seconds, other.seconds) and", "return faster(other.seconds, self.seconds) and"),
    Mutant("refinement takes what is faster", "planning/fastest.py", "self.tried(changed, type(best).gains)", "self.tried(changed, lambda one, other: other.gains(one))"),
    Mutant("memory balances stages by what they hold", "planning/stages/spans.py", "return max(self.held_bytes(in_flight))", "return min(self.held_bytes(in_flight))"),
    Mutant("a stage receives in each microbatch", "planning/stages/spans.py", "return computing + microbatches * (received", "return computing + (received"),
    Mutant("the best stages are the fastest", "planning/stages/planner.py", "staging is not None and staging.seconds < limit", "staging is not None"),
    Mutant("traffic balances stages by what they receive", "planning/stages/spans.py", "microbatches * (self.work.received.from_stages + self.work.returned.from_stages)", "microbatches * self.work.received.from_stages"),
    # machine
    Mutant("a roofline works at an efficiency", "machine/compute_models/roofline.py", "seconds=flop / (units * self.peak.value * efficiency)", "seconds=flop / (units * self.peak.value)"),
    Mutant("a multiplication and an addition are two operations", "machine/compute_models/roofline.py", "flop = 2.0 * shape.padded_macs", "flop = 1.0 * shape.padded_macs"),
    Mutant("a transfer has a latency", "machine/links.py", "return num_bytes * self.seconds_per_byte + self.latency_s", "return num_bytes * self.seconds_per_byte"),
    Mutant("the fastest algorithm is taken", "machine/links.py", "return min(self.lines[collective], key=lambda line: line.seconds(subgroup_bytes))", "return self.lines[collective][-1]"),
    Mutant("half duplex adds up both directions", "machine/links.py", "loads if tier.duplex else np.sum(loads, axis=0)", "loads"),
    Mutant("an all-reduce takes two rounds of a ring", "machine/collectives.py", "*_rings(grid, allowed, 2 * (ways - 1))", "*_rings(grid, allowed, ways - 1)"),
    Mutant("a ring is walked the short way", "machine/topologies/base.py", "longest, halved = size // 2 if closed", "longest, halved = size - 1 if closed"),
    Mutant("a listed message loads the links on its way alone", "machine/topologies/base.py", "np.where(steps <= longest, steps, 0)", "steps"),
    Mutant("a mesh turns at a corner of both", "machine/topologies/base.py", "corner = self.starts // columns * columns + self.ends % columns", "corner = self.ends // columns * columns + self.starts % columns"),
    Mutant("memory is large enough if it is as large", "machine/machine.py", "return self.memory_bytes is None or num_bytes <= self.memory_bytes", "return True"),
    Mutant("a pair of groups is as fast as both", "machine/machine.py", "sum((group.flop_per_s(element_bytes) for group in inner), each)", "max([group.flop_per_s(element_bytes) for group in inner] or [each])"),
    Mutant("sets in a line stand below or beside one another", "machine/spatial.py", "return max(below, beside) if line and width > 1 else below * beside", "return below * beside"),
    Mutant("pieces are as wide as so many sets allow", "machine/spatial.py", "for width in range(min(widest, bands * columns), layout.columns, -1):", "for width in range(layout.columns, layout.columns, -1):"),
    Mutant("a map whose zeros are not known is not coded", "machine/compute_models/blocked_row_stationary.py", "return 1.0\n", "return PAIR_WORDS\n"),
    Mutant("a change leaves the file that is kept as it was", "machine/schema.py", "= copy.deepcopy(document.data)", "= copy.copy(document.data)"),
    # studies
    Mutant("chunks are found anew for a point", "studies/alternatives.py", "if request.chunks is None else run_chunked", "if True else run_chunked"),
    Mutant("what moves otherwise than counted speaks against a plan", "studies/verify.py", "wrong = self.mismatches or self.changes or self.fuller", "wrong = self.changes or self.fuller"),
    Mutant("a choice is planned anew in its neighbours", "studies/alternatives.py", "0, least - least.min())", "0, 0 * least)"),
    # importers of frameworks
    Mutant("parts of a layer are layers though the whole is read", "importers/rules.py", """ or not view.trace.uses(whole) <= {"part", "slice"}""", ""),
    # what tests of parts held
    Mutant("devices count half of a causal attention", "ops/nest.py", "return self.fraction * sum(math.prod", "return sum(math.prod"),
    Mutant("a device without overlap does one thing at a time", "schedule/tasks.py", "last[group] = (index,)", "last[group] = last[group]"),
    Mutant("of the tasks of a line the last one is waited for", "schedule/tasks.py", "if found.get(line, -1) < task:", "if line not in found:"),
    Mutant("devices of a tree are told apart by all their coordinates", "sharding/layout.py", "tuple(group[own[group] == part] for part", "tuple(np.flatnonzero(own == part) for part"),
    Mutant("a device keeps where its samples lie", "program/holding.py", "    if not held:\n        return piece, ends\n", "    if True:\n        return piece, ends\n"),
    Mutant("chunks have as many synchronisations as there are", "planning/chunks.py", "range(1, len(sizes) + 1)", "range(len(sizes))"),
    # planning, of stages, chunks and uneven splits
    Mutant("equal spans have equal layers", "planning/stages/partition.py", "kinds[start : start + length] == own", "kinds[start] == own[0]"),
    Mutant("no span costs less than its bound", "planning/stages/partition.py", "np.asarray(found * (1 - ROUNDING))", "np.asarray(found * 1.5)"),
    Mutant("a span is no faster than its bound", "planning/stages/partition.py", "np.asarray(found + received + returned)", "np.asarray(1.5 * (found + received + returned))"),
    Mutant("a refined plan says its time", "planning/engine.py", "after_s = tried.ran[tried.best].seconds", "after_s = tried.ran[tried.best].seconds * 0.99"),
    Mutant("a group may be idle", "planning/uneven/planner.py", "while adapts and len(own.place.groups) > 1:", "while adapts and len(own.place.groups) > 9:"),
    Mutant("a chunk is of one stage", "planning/chunks.py", "key=stages.__getitem__", "key=lambda _: 0"),
    Mutant("two stages add up a tied gradient", "planning/stages/running.py", "if len(users) > 1:", "if len(users) > 2:"),
]  # fmt: skip


def site(mutant: Mutant, source: Path) -> tuple[Path, str]:
    """Return the file of a mutant and its text.

    Raises:
        ValueError: its line is not found once.
    """
    file = source / "hypar" / mutant.file
    text = file.read_text(encoding="utf-8")
    if text.count(mutant.line) != 1:
        raise ValueError(f"{mutant.file}: found {text.count(mutant.line)} times: {mutant.line}")
    return file, text


def killer(source: Path, tests: list[str], seconds: float) -> str | None:
    """Return the first test that fails on some sources; None if all pass, or those that time was left for."""
    options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "--no-header", "--durations=0"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(source),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(source / "kept"),
    }
    try:
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if ran.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
    return found[1] if found else f"exit status {ran.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests on each mutant, and print what kills it.")
    parser.add_argument("--only", nargs="*", default=[""], help="words of the facts to try")
    parser.add_argument("--every", type=int, default=1, help="one of as many mutants")
    parser.add_argument("--invariants", action="store_true", help="run the invariants alone")
    parser.add_argument("--all", action="store_true", help="run all quick tests on survivors")
    parser.add_argument("--check", action="store_true", help="find each line and run nothing")
    parser.add_argument("--seconds", type=float, default=300, help="time for the tests of a mutant")
    asked = parser.parse_args()
    chosen = [own for own in MUTANTS if any(word in own.fact for word in asked.only)][:: asked.every]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / "models").symlink_to(ROOT / "models")
        for mutant in chosen:
            file, text = site(mutant, source)
            if asked.check:
                continue
            file.write_text(text.replace(mutant.line, mutant.instead), encoding="utf-8")
            tests = [*([] if asked.invariants else [mutant.package]), "tests/test_invariants.py"]
            by = killer(source, tests, asked.seconds)
            if by is None and asked.all:
                by = killer(source, ["tests"], 6 * asked.seconds)
            file.write_text(text, encoding="utf-8")
            survivors += by is None
            sys.stdout.write(f"{'survived' if by is None else 'killed':9} {mutant.fact:60} {by or ''}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} mutants, {survivors} survive\n")
    return survivors


if __name__ == "__main__":
    sys.exit(min(main(), 1))
