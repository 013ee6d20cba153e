"""Tables of measured times: YAML and CSV are read alike, and what is no table is refused in one line."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import HyparError, load_model
from hypar.cli.main import main
from hypar.errors import DocumentError
from hypar.files.csv_file import read_csv
from hypar.machine.measured import read_overlap_table
from tests.effort import examples

if TYPE_CHECKING:
    from hypar.machine.step_times import StepTimes

LAYERS = ("conv1", "conv2", "fc1", "fc2")
ROWS = {
    name: f"name: {name}, backward: 4 ms, copy_out: 1 us, accumulate: 2 us, copy_back: 3 us"
    for name in LAYERS
}
HEAD = "name,backward,copy_out,accumulate,copy_back,synchronisation\n"


def table(*rows: str, head: str = "synchronisation: 1 ms\n") -> str:
    """A table with layer ``i`` on line ``3 + i``."""
    return f"{head}layers:\n" + "".join(f"  - {{{row}}}\n" for row in rows)


def but(name: str, before: str, after: str) -> str:
    """A good table with something else in one layer."""
    assert before in ROWS[name]
    return table(*(row.replace(before, after) if key == name else row for key, row in ROWS.items()))


def cells(*rows: str, head: str = HEAD) -> str:
    """A table as CSV with row ``i`` on line ``2 + i``."""
    return head + "".join(f"{row}\n" for row in rows)


GOOD = table(*ROWS.values())
GOOD_CSV = cells(*(f"{name},4 ms,1 us,2 us,3 us,1 ms" for name in LAYERS))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(file: str, text: str) -> StepTimes:
    Path(file).write_text(text, encoding="utf-8")
    return read_overlap_table(file).of(LAYERS, "lenet-c")


def test_yaml_and_csv_are_read_alike() -> None:
    found = read("t.yaml", GOOD)
    assert found == read("t.csv", GOOD_CSV)
    assert found.sync_s == 1e-3
    assert [layer.name for layer in found.layers] == list(LAYERS)
    assert found.layers[0].backward_s == 4e-3
    assert found.layers[0].exchange_s == pytest.approx(
        {"copy out": 1e-6, "accumulate": 2e-6, "copy back": 3e-6}
    )


def test_layers_and_columns_are_in_any_order() -> None:
    other = table(*reversed(ROWS.values()), head="synchronisation: 1 ms\nsource: measured\n")
    assert read("t.yaml", other) == read("t.yaml", GOOD)
    head = "synchronisation, copy_back ,copy_out,accumulate,backward,name\n"
    rows = [f' 1 ms, 3 us ,1 us,2 us,4 ms,"{name}"' for name in reversed(LAYERS)]
    assert read("t.csv", "\ufeff" + cells(*rows, "", " , , , , , ", head=head)) == read("t.yaml", GOOD)


def test_forward_is_of_all_layers_or_of_none() -> None:
    rows = [f"{row}, forward: 2 ms" for row in ROWS.values()]
    assert read("t.yaml", table(*rows)).forward_s == 8e-3
    with pytest.raises(HyparError) as caught:
        read("t.yaml", table(*rows[:2], ROWS["fc1"], rows[3]))
    message = "t.yaml:5: layers[2].forward 'fc1': 'forward' is missing; allowed: the times of every layer, or of none"
    assert str(caught.value) == message
    head = HEAD.replace("backward", "backward,forward")
    heterogeneous = cells(
        *(f"{name},4 ms,{'' if name == 'fc1' else '1 ms'},1 us,2 us,3 us,1 ms" for name in LAYERS), head=head
    )
    with pytest.raises(HyparError) as caught:
        read("t.csv", heterogeneous)
    assert str(caught.value).startswith("t.csv:4: forward 'fc1': 'forward' is missing")


BAD: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "t.yaml: the file is empty"),
    "a list": ("- 1\n", "t.yaml:1: found [1]; allowed: a mapping with layers"),
    "not YAML": ("layers: [\n", "t.yaml:2: not YAML: "),
    "not text": (b"\xff\xfe", "t.yaml:1: found byte 0xff; allowed: UTF-8 text"),
    "no layers": ("synchronisation: 1 ms\n", "t.yaml:1: layers: 'layers' is missing"),
    "no layer": ("synchronisation: 1 ms\nlayers: []\n", "t.yaml:2: layers: found []; allowed: at least 1"),
    "layers that are none": (
        "synchronisation: 1 ms\nlayers: {conv1: 1}\n", "t.yaml:2: layers: found {'conv1': 1}; allowed: a list",
    ),
    "a layer that is none": (
        "synchronisation: 1 ms\nlayers: [3]\n", "t.yaml:2: layers[0]: found 3; allowed: a mapping",
    ),
    "no synchronisation": (
        table(*ROWS.values(), head="source: x\n"), "t.yaml:1: synchronisation: 'synchronisation' is missing",
    ),
    "negative synchronisation": (
        table(*ROWS.values(), head="synchronisation: -1 ms\n"),
        "t.yaml:1: synchronisation: found '-1 ms'; allowed: 0 s to 1,000,000,000 s",
    ),
    "missing layer": (table(*[*ROWS.values()][:3]), "t.yaml:2: layers: no layer 'fc2'; allowed: all of 'lenet-c'"),
    "another layer": (
        but("fc2", "name: fc2", "name: fc3"),
        "t.yaml:6: layers[3].name 'fc3': no weighted layer 'fc3'; allowed: conv1, conv2, fc1, fc2; did you mean 'fc2'?",
    ),
    "a layer twice": (
        but("fc2", "name: fc2", "name: conv1"), "t.yaml:6: layers[3].name 'conv1': given twice; allowed: each layer once",
    ),
    "a key twice": (but("conv2", "backward: 4 ms", "backward: 4 ms, backward: 4 ms"), "t.yaml:4: key 'backward' given twice; allowed: once"),
    "unknown key": (
        but("conv2", "copy_out", "copy_uot"),
        "t.yaml:4: layers[1].copy_uot 'conv2': unknown key 'copy_uot'; allowed: name, forward, backward, copy_out, accumulate, copy_back; did you mean 'copy_out'?",
    ),
    "unknown key above": (
        "synchronization: 1 ms\n" + GOOD,
        "t.yaml:1: synchronization: unknown key 'synchronization'; allowed: source, synchronisation, layers; did you mean 'synchronisation'?",
    ),
    "missing time": (
        but("conv2", "accumulate: 2 us, ", ""), "t.yaml:4: layers[1].accumulate 'conv2': 'accumulate' is missing",
    ),
    "missing name": (but("conv2", "name: conv2, ", ""), "t.yaml:4: layers[1].name: 'name' is missing"),
    "a name that is none": (but("conv2", "name: conv2", "name: 7"), "t.yaml:4: layers[1].name: found 7; allowed: a text"),
    "a blank name": (but("conv2", "name: conv2", "name: ' '"), "t.yaml:4: layers[1].name ' ': found ' '; allowed: a text that is not empty"),
    "negative time": (
        but("fc1", "backward: 4 ms", "backward: -4 ms"),
        "t.yaml:5: layers[2].backward 'fc1': found '-4 ms'; allowed: 0 s to 1,000,000,000 s",
    ),
    "no unit": (but("fc1", "4 ms", "4"), "t.yaml:5: layers[2].backward 'fc1': found 4; allowed: a number with a unit, as 5 us"),
    "another unit": (but("fc1", "4 ms", "4 MB"), "t.yaml:5: layers[2].backward 'fc1': found '4 MB'; allowed: a number with a unit, as 5 us"),
    "NaN": (but("fc1", "4 ms", ".nan"), "t.yaml:5: layers[2].backward 'fc1': found nan; allowed: a number with a unit, as 5 us"),
    "NaN with a unit": (but("fc1", "4 ms", "nan ms"), "t.yaml:5: layers[2].backward 'fc1': found 'nan ms'; allowed: a number with a unit"),
    "infinity": (but("fc1", "4 ms", ".inf"), "t.yaml:5: layers[2].backward 'fc1': found inf; allowed: a number with a unit, as 5 us"),
    "past all numbers": (
        but("fc1", "4 ms", "1e999 s"), "t.yaml:5: layers[2].backward 'fc1': found '1e999 s'; allowed: 0 s to 1,000,000,000 s",
    ),
    "absurdly large": (
        but("fc1", "4 ms", "1e10 s"), "t.yaml:5: layers[2].backward 'fc1': found '1e10 s'; allowed: 0 s to 1,000,000,000 s",
    ),
    "nothing": (but("fc1", "4 ms", "null"), "t.yaml:5: layers[2].backward 'fc1': found nothing; allowed: a number with a unit, as 5 us"),
    "a list for a time": (but("fc1", "4 ms", "[4 ms]"), "t.yaml:5: layers[2].backward 'fc1': found ['4 ms']; allowed: a number with a unit"),
}  # fmt: skip
BAD_CSV: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "t.csv: the file is empty"),
    "only empty rows": ("\n , \n", "t.csv: the file is empty"),
    "no rows": (HEAD, "t.csv:1: found no rows; allowed: one a layer"),
    "not text": (b"name\n\xff", "t.csv:2: found byte 0xff; allowed: UTF-8 text"),
    "an open quote": (cells('"conv1,1 ms'), "t.csv:2: not CSV: unexpected end of data"),
    "a stray quote": (cells('"conv1"x,4 ms,1 us,2 us,3 us,1 ms'), "t.csv:2: not CSV: "),
    "a column twice": (GOOD_CSV.replace("copy_out", "copy_back"), "t.csv:1: column 'copy_back' given twice; allowed: once"),
    "a cell too few": (cells("conv1,4 ms,1 us"), "t.csv:2: found 3 cells; allowed: 6, one a column"),
    "a cell too many": (GOOD_CSV + "x,1 s,1 s,1 s,1 s,1 ms,1 s\n", "t.csv:6: found 7 cells; allowed: 6, one a column"),
    "unknown column": (
        GOOD_CSV.replace("copy_out", "copyout"),
        "t.csv:1: copyout 'conv1': unknown key 'copyout'; allowed: name, forward, backward, copy_out, accumulate, copy_back; did you mean 'copy_out'?",
    ),
    "a column without a name": (cells("conv1,4 ms,1 us,2 us,3 us,1 ms,x", head=HEAD.replace("\n", ",\n")), "t.csv:1: ['']"),
    "missing column": (
        cells("conv1,4 ms,1 us,2 us,1 ms", head="name,backward,copy_out,accumulate,synchronisation\n"),
        "t.csv:2: copy_back 'conv1': 'copy_back' is missing",
    ),
    "no synchronisation": (
        cells("conv1,4 ms,1 us,2 us,1 ms", head="name,backward,copy_out,accumulate,copy_back\n"),
        "t.csv:1: synchronisation: 'synchronisation' is missing",
    ),
    "two synchronisations": (
        GOOD_CSV.replace("fc1,4 ms,1 us,2 us,3 us,1 ms", "fc1,4 ms,1 us,2 us,3 us,2 ms"),
        "t.csv:4: synchronisation: found '2 ms'; allowed: '1 ms', as in line 2",
    ),
    "a bad synchronisation": (GOOD_CSV.replace(",1 ms", ",one"), "t.csv:1: synchronisation: found 'one'; allowed: a number with a unit"),
    "missing cell": (GOOD_CSV.replace("conv2,4 ms", "conv2,"), "t.csv:3: backward 'conv2': 'backward' is missing"),
    "missing name": (GOOD_CSV.replace("conv2", ""), "t.csv:3: name: 'name' is missing"),
    "missing layer": (GOOD_CSV.replace("conv2,4 ms,1 us,2 us,3 us,1 ms\n", ""), "t.csv:1: layers: no layer 'conv2'; allowed: all of 'lenet-c'"),
    "a layer twice": (GOOD_CSV.replace("conv2", "conv1"), "t.csv:3: name 'conv1': given twice; allowed: each layer once"),
    "another layer": (GOOD_CSV.replace("conv2", "conv3"), "t.csv:3: name 'conv3': no weighted layer 'conv3'; allowed: conv1,"),
    "negative time": (GOOD_CSV.replace("fc1,4 ms", "fc1,-4 ms"), "t.csv:4: backward 'fc1': found '-4 ms'; allowed: 0 s to 1,000,000,000 s"),
    "NaN": (GOOD_CSV.replace("fc1,4 ms", "fc1,NaN"), "t.csv:4: backward 'fc1': found 'NaN'; allowed: a number with a unit, as 5 us"),
    "absurdly large": (GOOD_CSV.replace("fc1,4 ms", "fc1,1e30 s"), "t.csv:4: backward 'fc1': found '1e30 s'; allowed: 0 s to 1,000,000,000 s"),
    "a row of several lines": (GOOD_CSV.replace("fc2,4 ms", '"\nfc2\n",4'), "t.csv:5: backward 'fc2': found '4'; allowed: a number with a unit"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        *(pytest.param("t.yaml", *case, id=f"yaml, {name}") for name, case in BAD.items()),
        *(pytest.param("t.csv", *case, id=f"csv, {name}") for name, case in BAD_CSV.items()),
    ],
)
def test_what_is_no_table_is_one_line(file: str, text: str | bytes, message: str) -> None:
    Path(file).write_bytes(text if isinstance(text, bytes) else text.encode())
    arguments = ["overlap", "lenet-c", "--table", file, "--plot", "p.png", "--trace", "t.json"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout) == (3, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {message}")
    assert len(line) < 500
    assert [found.name for found in Path().iterdir()] == [file]


def test_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypar.files.csv_file.MOST_ROWS", 2)
    Path("t.csv").write_text("a\n1\n2\n3\n")
    with pytest.raises(DocumentError, match=r"^t\.csv:4: too many rows; allowed: at most 2$"):
        read_csv(Path("t.csv"))


def test_a_long_list_of_layers_is_cut_short() -> None:
    names = [layer.name for layer in load_model("resnet152").contracted.layers if layer.weighted]
    Path("t.yaml").write_text(GOOD)
    with pytest.raises(HyparError, match="and 116 more") as caught:
        read_overlap_table("t.yaml").of(names, "resnet152")
    assert "\n" not in str(caught.value)


PIECES = st.sampled_from(
    ["name", "conv1", "fc1", "backward", "copy_out", "4 ms", "-1 s", "1e999 s", ":", "-", " ", "\n", ",", '"', "{", "}",
     "[", "]", "layers", "synchronisation", "\0", "&a", "*a", "é", "nan"]
)  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(text=st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=60), place=st.integers(0, 400))
@pytest.mark.parametrize("file", ["t.yaml", "t.csv"])
def test_nothing_but_a_deliberate_error_is_raised(file: str, text: str, place: int) -> None:
    good = GOOD if file == "t.yaml" else GOOD_CSV
    Path(file).write_bytes((good[:place] + text + good[place:]).encode("utf-8", "surrogatepass"))
    with suppress(HyparError):
        read_overlap_table(file).of(LAYERS, "lenet-c")
