"""A machine with a faster part is no slower: any plans on any machines, each with something twice as fast.

The tasks of a plan are listed in one order whatever they take, so this holds for every plan; the search is for what
would break it. ``HYPAR_FASTER=20000 pytest tests/schedule/test_faster_machines.py`` tries that many.
"""

from __future__ import annotations

import os
import random
from copy import deepcopy
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import plan_model, score_plan
from tests.effort import examples
from tests.generate import drawn, identical, unlike
from tests.kit import known

if TYPE_CHECKING:
    from pathlib import Path

    from tests.generate import Data

EXAMPLES = int(os.environ.get("HYPAR_FASTER", examples(1000, 20)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("machines")


def twice(files: dict[str, Data], pick: random.Random) -> dict[str, Data]:
    """The files of a machine, with some rates of some kinds of devices and links twice as high."""
    faster = deepcopy(files)
    for data in faster.values():
        parts = [group["outward"]["bandwidth"] for group in data.get("groups", ())]
        if "device" in data:
            device = data["device"]
            parts += [
                device["compute"]["peak"],
                device["memory"]["bandwidth"],
                data["interconnect"]["link_bandwidth"],
            ]
        for part in pick.sample(parts, pick.randint(0, len(parts))):
            rate, unit = part["value"].split()
            part["value"] = f"{2 * float(rate)} {unit}"
    return faster


@given(seed=st.integers(0, 2**64))
@settings(max_examples=EXAMPLES)
def test_a_step_is_never_slower_on_a_faster_machine(seed: int, folder: Path) -> None:
    asked = drawn(seed, (identical, unlike))
    model = asked.network(folder)
    plan = plan_model(model, **asked.keywords(folder))
    machine = asked._replace(files=twice(asked.files, random.Random(seed))).hardware(folder)
    faster = score_plan(plan, hardware=machine, model=model)
    assert faster.time_s <= known(plan.score).time_s * (1 + 1e-9)
