"""What windows read, one element after another, for the tests that divide tensors."""

from hypar.ops.windows import Window


def read_by(window: Window, place: int, size: int) -> set[int]:
    """The elements among ``size`` that an output element reads, those between its first and last tap included."""
    taps = range((window.kernel - 1) * window.dilation + 1)
    if window.transposed:
        starts = {element: element * window.stride - window.padding for element in range(size)}
        return {element for element, start in starts.items() if place - start in taps}
    every = {place * window.stride - window.padding + tap for tap in taps}
    return {element for element in every if 0 <= element < size}
