"""Layer-block-wise pipeline (Mori et al., MLSP 2017): its stages, Algorithm 1 and the schedule, besides the rows of its page."""

import pipeline_2017 as pipeline

from hypar.schedule.pipeline_orders import Schedule

STAGES = [("input", "pool1"), ("conv2", "pool2"), ("conv3", "relu5"), ("pool5", "softmax1")]


def test_four_stages() -> None:
    assert [stage.layers for stage in pipeline.divided()] == STAGES
    record = pipeline.planned_stages(4).stages
    assert record is not None
    assert [stage.in_flight for stage in record.stages] == [8, 6, 4, 2]
    assert [stage.staleness for stage in record.stages] == [7, 5, 3, 1]


def test_numbers_kept_of_an_image() -> None:
    """Stage by stage as the printed MB have them; but stage 3 is printed with ten tensors."""
    kept = [stage.kept // 4 for stage in pipeline.divided()]
    image, conv1, conv2, conv3 = 150528, 186624, 186624, 43264
    assert kept == [image + 3 * conv1 + 46656, 3 * conv2 + 43264, 9 * conv3, 9216 + 6 * 4096 + 2000]


def test_algorithm_1_is_the_schedule() -> None:
    """The mini-batches that its indices name are those of the schedule ``layer-block``."""
    depth, count = 4, 12
    for stage in range(1, depth + 1):
        steps = Schedule("layer-block").steps(stage - 1, depth, 1, count)
        assert len(steps) == count + 2 * depth - 1
        for step, works in enumerate(steps):
            named = {"forward": step - stage + 1, "backward": step - 2 * depth + stage}
            own = {phase: item for phase, item in named.items() if 0 <= item < count}
            assert {work.phase: work.item for work in works} == own
