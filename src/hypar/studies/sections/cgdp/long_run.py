"""Section 5.2.5: the long run of AlexNet; and the results of the paper that are not computed."""

from __future__ import annotations

from hypar.studies.page import Section, beside
from hypar.studies.sections.cgdp.phases import iteration
from hypar.studies.sections.cgdp.published import (
    ALEXNET,
    FORWARD_MS,
    GPUS,
    ITERATIONS,
    MINUTES,
    REACHED,
    TEST_EVERY,
    TEST_IMAGES,
    TEST_ITERATIONS,
    TEST_S,
)


def minutes(iteration_s: float, iterations: int) -> float:
    """Return the minutes of some iterations, with a test after every thousand."""
    return (iterations * iteration_s + iterations // TEST_EVERY * TEST_S) / 60


def testing_s() -> float:
    """Return the seconds of a test at the rate of the forward phase in training."""
    return TEST_IMAGES / ALEXNET.batch * FORWARD_MS / 1e3


def long_run() -> Section:
    """Compare the minutes until AlexNet reaches its accuracy."""
    model = iteration()
    four = {"typical": ALEXNET.typical_ms[GPUS[-1]], "CGDP": ALEXNET.cgdp_ms[GPUS[-1]]}
    ours = {"typical": model.typical_s, "CGDP": model.cgdp_s}
    rows = [
        (
            name,
            *beside(published, minutes(four[name] / 1e3, ITERATIONS), 1),
            f"{minutes(four[name] / 1e3, REACHED):.1f}",
            f"{minutes(ours[name], ITERATIONS):.1f}",
        )
        for name, published in MINUTES.items()
    ]
    faster = minutes(ours["typical"], ITERATIONS) / minutes(ours["CGDP"], ITERATIONS)
    return Section(
        title="Section 5.2.5: the long run",
        text=(
            f"Minutes of AlexNet on four GPUs, {ITERATIONS:,} iterations and a test of {TEST_S} s after every {TEST_EVERY:,}, as"
            f" stated; the accuracy is reached at around iteration {REACHED:,}. With Table 2's iterations, and with the model's"
            f" of Table 3. Published {MINUTES['typical'] / MINUTES['CGDP']:.2f} times faster, ours {faster:.2f}: the published"
            " minutes differ by more than iterations of Table 2 can, tests being the same in both."
            f" A test of {TEST_IMAGES:,} images at Table 3's forward phase would take {testing_s():.1f} s, for the {TEST_S} that"
            f" are stated: its {TEST_ITERATIONS:,} iterations have {TEST_IMAGES // TEST_ITERATIONS} images each, which fill a GPU"
            f" less than {ALEXNET.batch}."
        ),
        heads=(
            "training",
            "published",
            "of Table 2",
            "ours / published",
            f"to iteration {REACHED:,}",
            "of the model",
        ),
        rows=tuple(rows),
    )


def left_out() -> Section:
    """List the results that are not computed, with the reasons."""
    return Section(
        title="Not computed",
        text="What else the paper shows.",
        heads=("what", "why not"),
        rows=(
            ("Figure 1", "a drawing of what is sent; it has no numbers"),
            (
                "Figures 2 and 5, the printed curves",
                "pictures without numbers in the text; ours stand alone above",
            ),
            (
                "Figure 4, accuracy by time and by iteration",
                "it takes training on ImageNet; its two times are above",
            ),
            (
                "mini-batches of 12 and 16 of ResNet-152, 94 of VGGNet-16",
                "free memory and workspaces are not given",
            ),
            ("iterations of ResNet-152", "published as curves only; the abstract has 1.07"),
            (
                "21.8 us of what remains for GoogLeNet and VGGNet-16",
                "their times layer by layer are not published",
            ),
        ),
    )
