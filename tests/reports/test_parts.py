from __future__ import annotations

from hypar.reports.formats.tabular.parts import Row, fold


def row(name: str, *words: str, cost: float = 1.0, stage: int = 0) -> Row:
    return Row(name, stage, words, (None,) * len(words), (cost,), 0)


def test_a_part_has_a_row_and_its_exceptions_are_below_it() -> None:
    layers = [
        row("conv1", "dp"),
        *(row(f"layer1.{block}.conv{n}", "dp") for block in range(4) for n in (1, 2)),
    ]
    layers += [row(f"layer2.rest.{block}.conv1", "dp") for block in range(3)]
    layers += [row(f"layer2.rest.{block}.conv2", "mp", cost=2.0) for block in range(2)]
    folded = fold(layers)
    assert [each.title for each in folded] == [
        "conv1",
        "layer1 x8",
        "layer2 x3",
        "  rest.0-1.conv2 x2",
    ]
    assert [each.amounts for each in folded] == [(1.0,), (8.0,), (3.0,), (4.0,)]
    assert [each.words for each in folded] == [("dp",), ("dp",), ("dp",), ("mp",)]


def test_exceptions_of_one_choice_that_end_alike_are_one_row() -> None:
    layers = [row(f"a.{block}.x", "dp") for block in range(5)]
    layers += [row("a.0.y", "mp"), row("a.2.y", "mp"), row("a.down.0.y", "mp"), row("a.1.z", "mp")]
    assert [each.title for each in fold(layers)] == ["a x5", "  *.y x3", "  1.z"]


def test_a_part_without_equal_layers_is_not_folded() -> None:
    layers = [row("a.0.x", "dp"), row("a.1.x", "mp"), row("b.0", "dp"), row("b.1", "dp")]
    assert [each.title for each in fold(layers)] == ["a.0.x", "a.1.x", "b x2"]


def test_layers_of_several_stages_are_apart() -> None:
    layers = [row(f"a.{number}", "dp", stage=1 + number // 2) for number in range(4)]
    assert [(each.title, each.stage) for each in fold(layers)] == [("a x2", 1), ("a x2", 2)]


def test_neighbours_of_equal_choices_are_one_row_where_there_are_no_parts() -> None:
    layers = [row(f"fc{number}", "dp" if number < 20 else "mp") for number in range(30)]
    assert [each.title for each in fold(layers)] == ["fc0 to fc19 x20", "fc20 to fc29 x10"]
    mixed = [*layers, *(row(f"z.{number}", "mp") for number in range(3)), row("z.3", "dp"), row("w", "dp")]
    assert [each.title for each in fold(mixed)] == [
        "fc0 to fc19 x20", "fc20 to fc29 x10", "z x3", "  3", "w",
    ]  # fmt: skip
