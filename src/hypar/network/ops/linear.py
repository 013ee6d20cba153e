"""Fully connected layer."""

from __future__ import annotations

from hypar.network.ops.base import Contraction, Einsum, Op, Shape, Size, describe, one_input
from hypar.network.windows import ShapeError


class Linear(Contraction):
    """``F_out = F_in . W`` on a vector of features."""

    out_features: Size
    bias: bool = True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return ``out_features`` as channels."""
        shape = one_input(inputs)
        if tuple(shape) != ("channels",):
            raise ShapeError(
                f"found an input of {describe(shape)}; allowed: a vector, so put a flatten before"
            )
        return {"channels": self.out_features}

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of the matrix and the biases."""
        return sum(self.parameters(inputs).values())

    def parameters(self, inputs: tuple[Shape, ...]) -> dict[str, int]:
        """Return the elements of the matrix and the biases."""
        bias = {"bias": self.out_features} if self.bias else {}
        return {"weight": self.out_features * one_input(inputs)["channels"], **bias}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return ``F_out[n,o] = F_in[n,i] . W[i,o]``."""
        features = one_input(inputs)["channels"]
        return Einsum(
            sizes={"batch": batch, "in_channels": features, "out_channels": output["channels"]},
            input={"batch": "batch", "in_channels": "channels"},
            weight=("in_channels", "out_channels"),
            output={"batch": "batch", "out_channels": "channels"},
            input_elements=batch * features,
            zeros=self.zeros,
        )


plugin: type[Op] = Linear
