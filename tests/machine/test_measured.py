"""Tables of measured times: YAML and CSV are read alike, and what is no table is refused in one line."""

from pathlib import Path

import pytest

from hypar import HyparError
from hypar.machine.profiles import read_step_times
from hypar.machine.work import StepTimes

pytestmark = pytest.mark.usefixtures("folder")


LAYERS = ("conv1", "conv2", "fc1", "fc2")
ROWS = {
    name: f"name: {name}, backward: 4 ms, copy_out: 1 us, accumulate: 2 us, copy_back: 3 us"
    for name in LAYERS
}
HEAD = "name,backward,copy_out,accumulate,copy_back,synchronisation\n"


def table(*rows: str, head: str = "synchronisation: 1 ms\n") -> str:
    """A table with layer ``i`` on line ``3 + i``."""
    return f"{head}layers:\n" + "".join(f"  - {{{row}}}\n" for row in rows)


def cells(*rows: str, head: str = HEAD) -> str:
    """A table as CSV with row ``i`` on line ``2 + i``."""
    return head + "".join(f"{row}\n" for row in rows)


GOOD = table(*ROWS.values())
GOOD_CSV = cells(*(f"{name},4 ms,1 us,2 us,3 us,1 ms" for name in LAYERS))


def read(file: str, text: str) -> StepTimes:
    Path(file).write_text(text, encoding="utf-8")
    return read_step_times(Path(file), LAYERS, "lenet-c")


def test_yaml_and_csv_are_read_alike() -> None:
    found = read("t.yaml", GOOD)
    assert found == read("t.csv", GOOD_CSV)
    assert found.sync_s == 1e-3
    assert [layer.name for layer in found.layers] == list(LAYERS)
    assert found.layers[0].backward_s == 4e-3
    assert found.layers[0].exchange_s == pytest.approx(6e-6)


def test_layers_and_columns_are_in_any_order() -> None:
    other = table(*reversed(ROWS.values()), head="synchronisation: 1 ms\nsource: measured\n")
    assert read("t.yaml", other) == read("t.yaml", GOOD)
    head = "synchronisation, copy_back ,copy_out,accumulate,backward,name\n"
    rows = [f' 1 ms, 3 us ,1 us,2 us,4 ms,"{name}"' for name in reversed(LAYERS)]
    assert read("t.csv", "\ufeff" + cells(*rows, "", " , , , , , ", head=head)) == read("t.yaml", GOOD)


def test_forward_is_of_all_layers_or_of_none() -> None:
    rows = [f"{row}, forward: 2 ms" for row in ROWS.values()]
    assert sum(layer.forward_s for layer in read("t.yaml", table(*rows)).layers) == 8e-3
    head = HEAD.replace("backward", "backward,forward")
    heterogeneous = cells(
        *(f"{name},4 ms,{'' if name == 'fc1' else '1 ms'},1 us,2 us,3 us,1 ms" for name in LAYERS), head=head
    )
    with pytest.raises(HyparError) as caught:
        read("t.csv", heterogeneous)
    assert str(caught.value).startswith("t.csv:4: layers[2].forward 'fc1': 'forward' is missing")
