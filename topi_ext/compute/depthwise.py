"""Depthwise convolutions of NHWC data, for GPUs: a thread computes neighbouring channels."""

import json
from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from topi_ext.workload import ANNOTATION

DEPTHWISE_OPERATOR = "depthwise_conv2d_nhwc"
DEPTHWISE = json.dumps({"operator": DEPTHWISE_OPERATOR})
"""What the annotation of the summing block says."""


def depthwise_conv2d(
    data: te.Tensor,
    weight: te.Tensor,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    multiplier: int = 1,
) -> te.Tensor:
    """``data`` is NHWC of static extents, ``weight`` is (rows, columns, outputs), the result float32 NHWC.

    Output channel ``c`` is made of input channel ``c // multiplier``. ``padding`` is (top, left, bottom,
    right).
    """
    batch, height, width, _ = (int(extent) for extent in data.shape)
    rows, columns, channels = (int(extent) for extent in weight.shape)
    top, left, bottom, right = padding
    out_height = (height + top + bottom - dilation[0] * (rows - 1) - 1) // strides[0] + 1
    out_width = (width + left + right - dilation[1] * (columns - 1) - 1) // strides[1] + 1
    i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "j")

    def element(image: Any, y: Any, x: Any, channel: Any) -> Any:
        row = y * strides[0] + i * dilation[0] - top
        column = x * strides[1] + j * dilation[1] - left
        inside = [row >= 0, row < height, column >= 0, column < width] if any(padding) else []
        value = data[image, row, column, channel // multiplier]
        if inside:
            value = tirx.if_then_else(tirx.all(*inside), value, tirx.const(0, data.dtype))
        return te.sum(value.astype("float32") * weight[i, j, channel].astype("float32"), axis=[i, j])

    return te.compute(
        (batch, out_height, out_width, channels), element, name="depthwise", attrs={ANNOTATION: DEPTHWISE}
    )


__all__ = ["DEPTHWISE", "DEPTHWISE_OPERATOR", "depthwise_conv2d"]
