"""What the view of a score holds."""

from __future__ import annotations

import hypar
from hypar.planning.replay import run_plan
from hypar.reports.palette import TIMES
from hypar.reports.views.score import timeline_figure


def test_a_timeline_has_a_row_for_each_layer_in_the_palette_s_colours() -> None:
    ran = run_plan(hypar.plan_model("lenet-c", levels=2, hardware="hmc"))
    found = timeline_figure(ran)
    assert list(dict.fromkeys(found.rows)) == list(ran.plan.layers)
    assert found.colours == {kind: shades.light for kind, shades in TIMES.items()}
    assert all(task.name.startswith(row) for task, row in zip(found.timeline.tasks, found.rows, strict=True))
    assert {*found.strips} == {(0, 1)}
    mixed = timeline_figure(run_plan(hypar.plan_model("lenet-c", hardware="tpu-v2-v3")))
    assert {*mixed.strips} >= {(0, 1), (1, 2)}
