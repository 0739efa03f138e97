"""Builders of TensorFlow Lite operators on one image, by name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.relay_layout.frontend.tflite.harness import NONE, RELU, RELU6, SAME, VALID, randoms
from tests.relay_layout.frontend.tflite.writer import TfliteFile


def window(size: int, step: int, reach: int = 1) -> int:
    return (size - (reach - 1) - 1) // step + 1


def convolution(
    file: TfliteFile,
    x: int,
    *,
    kernel: tuple[int, int] = (3, 3),
    stride: int = 1,
    dilation: int = 1,
    padding: int = SAME,
    activation: int = NONE,
    outputs: int = 5,
) -> int:
    n, h, w, c = file.tensors[x].shape
    weight = file.constant(randoms(outputs, *kernel, c))
    bias = file.constant(randoms(outputs))
    rows, columns = (
        -(-size // stride) if padding == SAME else window(size, stride, dilation * (reach - 1) + 1)
        for size, reach in zip((h, w), kernel, strict=True)
    )
    return file.operator(
        "CONV_2D",
        [x, weight, bias],
        (n, rows, columns, outputs),
        "Conv2DOptions",
        Padding=padding,
        StrideH=stride,
        StrideW=stride,
        DilationHFactor=dilation,
        DilationWFactor=dilation,
        FusedActivationFunction=activation,
    )


def depthwise(
    file: TfliteFile, x: int, *, stride: int = 1, multiplier: int = 1, activation: int = NONE
) -> int:
    n, h, w, c = file.tensors[x].shape
    weight, bias = file.constant(randoms(1, 3, 3, c * multiplier)), file.constant(randoms(c * multiplier))
    return file.operator(
        "DEPTHWISE_CONV_2D",
        [x, weight, bias],
        (n, -(-h // stride), -(-w // stride), c * multiplier),
        "DepthwiseConv2DOptions",
        Padding=SAME,
        StrideH=stride,
        StrideW=stride,
        DepthMultiplier=multiplier,
        DilationHFactor=1,
        DilationWFactor=1,
        FusedActivationFunction=activation,
    )


def transposed(file: TfliteFile, x: int, padding: int, rows: int, columns: int) -> int:
    n, _, _, c = file.tensors[x].shape
    shape = (n, rows, columns, 4)
    weight = file.constant(randoms(4, 3, 3, c))
    return file.operator(
        "TRANSPOSE_CONV",
        [file.constant(np.array(shape, "int32")), weight, x],
        shape,
        "TransposeConvOptions",
        Padding=padding,
        StrideH=2,
        StrideW=2,
    )


def pool(file: TfliteFile, x: int, code: str, padding: int, size: int = 3, stride: int = 2) -> int:
    n, h, w, c = file.tensors[x].shape
    rows, columns = (-(-s // stride) if padding == SAME else window(s, stride, size) for s in (h, w))
    return file.operator(
        code,
        [x],
        (n, rows, columns, c),
        "Pool2DOptions",
        Padding=padding,
        StrideH=stride,
        StrideW=stride,
        FilterHeight=size,
        FilterWidth=size,
    )


def resize(file: TfliteFile, x: int, code: str, rows: int, columns: int, **attributes: bool) -> int:
    n, _, _, c = file.tensors[x].shape
    options = {"RESIZE_BILINEAR": "ResizeBilinearOptions"}.get(code, "ResizeNearestNeighborOptions")
    size = file.constant(np.array([rows, columns], "int32"))
    return file.operator(code, [x, size], (n, rows, columns, c), options, **attributes)


def reduction(file: TfliteFile, x: int, code: str, axes: list[int], keep: bool) -> int:
    shape = [
        1 if axis in axes else extent
        for axis, extent in enumerate(file.tensors[x].shape)
        if keep or axis not in axes
    ]
    return file.operator(
        code, [x, file.constant(np.array(axes, "int32"))], shape, "ReducerOptions", KeepDims=keep
    )


def unary(code: str, options: str = "", **attributes: Any) -> Callable[[TfliteFile, int], int]:
    return lambda file, x: file.operator(code, [x], file.tensors[x].shape, options, **attributes)


def padded(file: TfliteFile, x: int) -> int:
    n, h, w, c = file.tensors[x].shape
    widths = file.constant(np.array([[0, 0], [1, 2], [0, 3], [0, 0]], "int32"))
    return file.operator("PAD", [x, widths], (n, h + 3, w + 3, c), "PadOptions")


def concatenated(file: TfliteFile, x: int) -> int:
    n, h, w, c = file.tensors[x].shape
    other = unary("RELU")(file, x)
    return file.operator("CONCATENATION", [x, other], (n, h, w, 2 * c), "ConcatenationOptions", Axis=3)


def dense(file: TfliteFile, x: int) -> int:
    pooled = reduction(file, x, "MEAN", [1, 2], False)
    weight, bias = file.constant(randoms(5, 6)), file.constant(randoms(5))
    n = file.tensors[x].shape[0]
    made = file.operator(
        "FULLY_CONNECTED",
        [pooled, weight, bias],
        (n, 5),
        "FullyConnectedOptions",
        FusedActivationFunction=RELU,
    )
    return file.operator("SOFTMAX", [made], (n, 5), "SoftmaxOptions", Beta=1.0)


def binary(code: str, options: str, activation: int = NONE) -> Callable[[TfliteFile, int], int]:
    def build(file: TfliteFile, x: int) -> int:
        other = file.constant(randoms(*file.tensors[x].shape[-1:]))
        return file.operator(
            code, [x, other], file.tensors[x].shape, options, FusedActivationFunction=activation
        )

    return build


def transposition(file: TfliteFile, x: int) -> int:
    n, h, w, c = file.tensors[x].shape
    order = file.constant(np.array([0, 3, 1, 2], "int32"))
    return file.operator("TRANSPOSE", [x, order], (n, c, h, w), "TransposeOptions")


def sliced(file: TfliteFile, x: int) -> int:
    n, h, w, c = file.tensors[x].shape
    bounds = [
        file.constant(np.array(value, "int32")) for value in ([0, 1, 0, 2], [n, h, w - 1, c], [1, 2, 1, 1])
    ]
    return file.operator(
        "STRIDED_SLICE",
        [x, *bounds],
        (n, (h - 1 + 1) // 2, w - 1, c - 2),
        "StridedSliceOptions",
        BeginMask=0,
        EndMask=0,
        EllipsisMask=0,
        NewAxisMask=0,
        ShrinkAxisMask=0,
    )


def block(code: str, options: str) -> Callable[[TfliteFile, int], int]:
    def build(file: TfliteFile, x: int) -> int:
        even = file.operator(
            "PAD",
            [x, file.constant(np.array([[0, 0], [0, 1], [0, 1], [0, 2]], "int32"))],
            (2, 10, 8, 8),
            "PadOptions",
        )
        shape = (2, 20, 16, 2) if code == "DEPTH_TO_SPACE" else (2, 5, 4, 32)
        return file.operator(code, [even], shape, options, BlockSize=2)

    return build


def batched_blocks(file: TfliteFile, x: int) -> int:
    """Of 9 rows and 8 columns, padded, blocks of three and two; back with a row and a column less."""
    size = file.constant(np.array([3, 2], "int32"))
    pads = file.constant(np.array([[0, 0], [0, 1]], "int32"))
    blocks = file.operator("SPACE_TO_BATCH_ND", [x, size, pads], (12, 3, 4, 6), "SpaceToBatchNDOptions")
    doubled = file.operator("ADD", [blocks, blocks], (12, 3, 4, 6), "AddOptions")
    crops = file.constant(np.array([[1, 0], [0, 1]], "int32"))
    return file.operator("BATCH_TO_SPACE_ND", [doubled, size, crops], (2, 8, 7, 6), "BatchToSpaceNDOptions")


def prelu(file: TfliteFile, x: int) -> int:
    slope = file.constant(randoms(1, 1, file.tensors[x].shape[3]))
    return file.operator("PRELU", [x, slope], file.tensors[x].shape)


def reshaped(file: TfliteFile, x: int) -> int:
    shape = file.constant(np.array([2, -1], "int32"))
    return file.operator("RESHAPE", [x, shape], (2, 378), "ReshapeOptions", NewShape=[2, -1])


OPERATORS: dict[str, Callable[[TfliteFile, int], int]] = {
    "convolution": convolution,
    "strided": lambda f, x: convolution(f, x, stride=2, activation=RELU6),
    "valid": lambda f, x: convolution(f, x, padding=VALID, kernel=(2, 3), activation=RELU),
    "dilated": lambda f, x: convolution(f, x, dilation=2),
    "pointwise": lambda f, x: convolution(f, x, kernel=(1, 1), outputs=16),
    "depthwise": depthwise,
    "depthwise strided": lambda f, x: depthwise(f, x, stride=2, activation=RELU6),
    "depthwise multiplied": lambda f, x: depthwise(f, x, multiplier=3),
    "transposed same": lambda f, x: transposed(f, x, SAME, 18, 14),
    "transposed valid": lambda f, x: transposed(f, x, VALID, 19, 15),
    "average same": lambda f, x: pool(f, x, "AVERAGE_POOL_2D", SAME),
    "average valid": lambda f, x: pool(f, x, "AVERAGE_POOL_2D", VALID),
    "max same": lambda f, x: pool(f, x, "MAX_POOL_2D", SAME),
    "max valid": lambda f, x: pool(f, x, "MAX_POOL_2D", VALID, 2, 1),
    "bilinear": lambda f, x: resize(f, x, "RESIZE_BILINEAR", 18, 14),
    "bilinear half pixel": lambda f, x: resize(f, x, "RESIZE_BILINEAR", 13, 5, HalfPixelCenters=True),
    "bilinear corners": lambda f, x: resize(f, x, "RESIZE_BILINEAR", 17, 20, AlignCorners=True),
    "nearest": lambda f, x: resize(f, x, "RESIZE_NEAREST_NEIGHBOR", 18, 14),
    "nearest half pixel": lambda f, x: resize(f, x, "RESIZE_NEAREST_NEIGHBOR", 13, 5, HalfPixelCenters=True),
    "mean": lambda f, x: reduction(f, x, "MEAN", [1, 2], True),
    "mean channels": lambda f, x: reduction(f, x, "MEAN", [3], False),
    "sum": lambda f, x: reduction(f, x, "SUM", [2], False),
    "largest": lambda f, x: reduction(f, x, "REDUCE_MAX", [1, 2], False),
    "add": binary("ADD", "AddOptions", RELU),
    "subtract": binary("SUB", "SubOptions"),
    "multiply": binary("MUL", "MulOptions"),
    "pad": padded,
    "concatenation": concatenated,
    "dense": dense,
    "transpose": transposition,
    "strided slice": sliced,
    "depth to space": block("DEPTH_TO_SPACE", "DepthToSpaceOptions"),
    "space to depth": block("SPACE_TO_DEPTH", "SpaceToDepthOptions"),
    "batched blocks": batched_blocks,
    "prelu": prelu,
    "reshape": reshaped,
    "relu": unary("RELU"),
    "relu6": unary("RELU6"),
    "leaky": unary("LEAKY_RELU", "LeakyReluOptions", Alpha=0.2),
    "elu": unary("ELU"),
    "sigmoid": unary("LOGISTIC"),
    "tanh": unary("TANH"),
    "hard swish": unary("HARD_SWISH", "HardSwishOptions"),
    "gelu": unary("GELU", "GeluOptions", Approximate=False),
    "exponential": unary("EXP", "ExpOptions"),
    "softmax": unary("SOFTMAX", "SoftmaxOptions", Beta=1.0),
    "normalization": unary("L2_NORMALIZATION", "L2NormOptions"),
    "local response": unary(
        "LOCAL_RESPONSE_NORMALIZATION",
        "LocalResponseNormalizationOptions",
        Radius=2,
        Bias=1.0,
        Alpha=0.1,
        Beta=0.5,
    ),
}
