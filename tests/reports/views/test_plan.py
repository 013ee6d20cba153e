from __future__ import annotations

import hypar
from hypar.files.grids import Grid
from hypar.reports.palette import DIMS
from hypar.reports.views.plan import plugin as view


def grid_of(plan: hypar.Plan) -> Grid:
    found = view.drawing(plan)
    assert isinstance(found, Grid)
    return found


def test_a_row_is_a_layer_at_a_level() -> None:
    plan = hypar.plan_model("lenet-c", levels=2)
    rows = view.rows(plan)
    assert [(row["layer"], row["level"], row["dim"]) for row in rows] == [
        (layer, f"H{level + 1}", dim) for layer in plan.layers for level, dim in enumerate(plan.dims(layer))
    ]
    assert sum(row["cost"] for row in rows) == plan.cost.value
    assert {row["choice"] for row in rows} == {"dp", "mp"}


def test_stages_and_groups_have_columns_of_their_own() -> None:
    staged = view.rows(hypar.plan_model("sfc", levels=1, hardware="hmc", stages=2))
    assert {row["stage"] for row in staged} == {1, 2}
    mixed = view.rows(hypar.plan_model("lenet-c", hardware="tpu-v2-v3"))
    assert {row["group"] for row in mixed} == {"all", "tpu-v2", "tpu-v3"}


def test_a_cell_has_the_colour_of_its_dim() -> None:
    plan = hypar.plan_model("lenet-c", levels=2)
    grid = grid_of(plan)
    for row in grid.rows:
        for (cell,), dim in zip(row.cells, plan.dims(row.name), strict=True):
            colours = DIMS[str(dim)]
            assert (cell.ground, cell.ink, cell.width) == (colours.light, colours.light_text, 1.0)
    words = {meaning: cell.word for meaning, cell in grid.legend.items()}
    assert words == {"cut in batch": "dp", "cut in input channels": "mp"}
    assert grid.title.endswith(f"volume {grid.shown(plan.cost.value)} a step")


def test_a_grid_of_dims_shows_a_cell_for_each_degree() -> None:
    plan = hypar.plan_model(
        "lenet-c", array=[16], strategy="deepa", hardware="p100-4x4", pins=["conv1=n16", "fc1=n4c4"]
    )
    cells = {row.name: [(cell.word, cell.width) for cell in row.cells[0]] for row in grid_of(plan).rows}
    assert cells["fc1"] == [("n4", 2.0), ("c4", 2.0)]
    assert cells["conv1"] == [("n16", 4.0)]
    assert grid_of(plan).widths == [4.0]
