"""TensorFlow Lite models beside LiteRT's interpreter."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tflite = pytest.importorskip("tflite")

from tflite_writer import TfliteFile  # noqa: E402

import relay_layout  # noqa: E402
from relay_layout.errors import ModelError  # noqa: E402

NONE, RELU, RELU6 = 0, 1, 3
SAME, VALID = 0, 1
IMAGE = (2, 9, 7, 6)


def randoms(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype="float32")


def reference(data: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of LiteRT without its delegates."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(
        model_content=data,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        num_threads=1,
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]).copy() for detail in interpreter.get_output_details()]


def run(data: bytes, inputs: Sequence[np.ndarray], folder: Path, **options: Any) -> list[np.ndarray]:
    """The outputs of the file as it is compiled here."""
    (folder / "model.tflite").write_bytes(data)
    relay_layout.compile(folder / "model.tflite", **options).save(folder / "model.rla")
    session = relay_layout.load(folder / "model.rla")
    names = [spec.name for spec in session.inputs]
    return list(session.run(dict(zip(names, inputs, strict=True))).values())


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


def file_of(names: Sequence[str]) -> bytes:
    """A file with all of these operators on one image, an output each."""
    file = TfliteFile()
    image = file.input(IMAGE)
    file.outputs = [OPERATORS[name](file, image) for name in names]
    return file.finish()


def assert_agrees(names: Sequence[str], folder: Path, **options: Any) -> None:
    data, image = file_of(names), randoms(*IMAGE)
    expected = reference(data, [image])
    outputs = run(data, [image], folder, **options)
    for name, output, wanted in zip(names, outputs, expected, strict=True):
        assert output.shape == wanted.shape, name
        np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("part", range(4))
def test_operators_agree(part: int, tmp_path: Path) -> None:
    assert_agrees(list(OPERATORS)[part::4], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["none", "auto", "NCHW", "NCHW16c"])
@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_agrees(name: str, layout: str, tmp_path: Path) -> None:
    assert_agrees([name], tmp_path, desired_layout=layout)


PIXELS = {"scales": (0.02,), "zero_points": (-3,)}
"""Quantization of the image in tests of quantized operators."""


def pixels() -> np.ndarray:
    return np.random.default_rng(1).integers(-128, 128, IMAGE).astype("int8")


def result(scale: float = 0.05, point: int = 5) -> dict[str, Any]:
    return {"dtype": "int8", "quantization": {"scales": (scale,), "zero_points": (point,)}}


def integer_weights(file: TfliteFile, *shape: int, axis: int) -> tuple[int, int]:
    """Weights with a scale for each channel along an axis, and a bias."""
    channels = shape[axis]
    scales = np.linspace(0.01, 0.03, channels)
    generator = np.random.default_rng(sum(shape))
    weight = file.constant(
        generator.integers(-127, 128, shape).astype("int8"),
        scales=tuple(scales),
        zero_points=(0,) * channels,
        axis=axis,
    )
    bias = file.constant(
        generator.integers(-500, 500, channels).astype("int32"),
        scales=tuple(scales * 0.02),
        zero_points=(0,) * channels,
    )
    return weight, bias


def integer_convolution(file: TfliteFile, x: int) -> int:
    weight, bias = integer_weights(file, 5, 3, 3, 6, axis=0)
    return file.operator(
        "CONV_2D",
        [x, weight, bias],
        (2, 5, 4, 5),
        "Conv2DOptions",
        Padding=SAME,
        StrideH=2,
        StrideW=2,
        DilationHFactor=1,
        DilationWFactor=1,
        FusedActivationFunction=RELU,
        **result(0.08, -60),
    )


def integer_depthwise(file: TfliteFile, x: int) -> int:
    weight, bias = integer_weights(file, 1, 3, 3, 12, axis=3)
    return file.operator(
        "DEPTHWISE_CONV_2D",
        [x, weight, bias],
        (2, 9, 7, 12),
        "DepthwiseConv2DOptions",
        Padding=SAME,
        StrideH=1,
        StrideW=1,
        DepthMultiplier=2,
        DilationHFactor=1,
        DilationWFactor=1,
        FusedActivationFunction=RELU6,
        **result(0.03, -100),
    )


def integer_dense(file: TfliteFile, x: int) -> int:
    shape = file.constant(np.array([2, 378], "int32"))
    flat = file.operator(
        "RESHAPE",
        [x, shape],
        (2, 378),
        "ReshapeOptions",
        NewShape=[2, 378],
        dtype="int8",
        quantization=PIXELS,
    )
    generator = np.random.default_rng(2)
    weight = file.constant(
        generator.integers(-127, 128, (5, 378)).astype("int8"), scales=(0.01,), zero_points=(0,)
    )
    bias = file.constant(generator.integers(-500, 500, 5).astype("int32"), scales=(0.0002,), zero_points=(0,))
    return file.operator(
        "FULLY_CONNECTED", [flat, weight, bias], (2, 5), "FullyConnectedOptions", **result(0.5)
    )


def integer_sum(file: TfliteFile, x: int) -> int:
    other = file.constant(pixels()[:1], scales=(0.03,), zero_points=(7,))
    return file.operator("ADD", [x, other], IMAGE, "AddOptions", **result())


def integer_average(file: TfliteFile, x: int) -> int:
    return file.operator(
        "AVERAGE_POOL_2D",
        [x],
        (2, 4, 3, 6),
        "Pool2DOptions",
        Padding=VALID,
        StrideH=2,
        StrideW=2,
        FilterHeight=2,
        FilterWidth=2,
        **result(0.02, -3),
    )


def integer_mean(file: TfliteFile, x: int) -> int:
    return file.operator(
        "MEAN",
        [x, file.constant(np.array([1, 2], "int32"))],
        (2, 6),
        "ReducerOptions",
        KeepDims=False,
        **result(0.01, 2),
    )


def requantized(file: TfliteFile, x: int) -> int:
    return file.operator("QUANTIZE", [x], IMAGE, "QuantizeOptions", **result(0.03, 10))


def dequantized(file: TfliteFile, x: int) -> int:
    return file.operator("DEQUANTIZE", [x], IMAGE, "DequantizeOptions")


INTEGER: dict[str, Callable[[TfliteFile, int], int]] = {
    "convolution": integer_convolution,
    "depthwise": integer_depthwise,
    "dense": integer_dense,
    "sum": integer_sum,
    "average": integer_average,
    "mean": integer_mean,
    "requantize": requantized,
    "dequantize": dequantized,
}


def quantized_file() -> bytes:
    file = TfliteFile()
    image = file.input(IMAGE, "int8", **PIXELS)
    file.outputs = [build(file, image) for build in INTEGER.values()]
    return file.finish()


def test_quantized_operators_agree_within_a_step(tmp_path: Path) -> None:
    data = quantized_file()
    expected = reference(data, [pixels()])
    outputs = run(data, [pixels()], tmp_path)
    for name, output, wanted in zip(INTEGER, outputs, expected, strict=True):
        assert output.dtype == wanted.dtype, name
        step = 1e-6 if output.dtype == np.float32 else 1
        assert np.abs(output.astype("float64") - wanted.astype("float64")).max() <= step, name


def test_the_manifest_says_what_integers_stand_for(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(quantized_file())
    manifest = relay_layout.compile(tmp_path / "model.tflite").manifest
    (spec,) = manifest.inputs
    assert (spec.layout, spec.dim_order, spec.dtype) == ("NHWC", (0, 1, 2, 3), "int8")
    assert spec.quantization is not None
    assert spec.quantization.zero_points == (-3,) and spec.quantization.axis is None
    np.testing.assert_allclose(spec.quantization.scales, 0.02, rtol=1e-6)
    assert manifest.outputs[-1].quantization is None


def network() -> bytes:
    """A few layers as of a mobile network."""
    file = TfliteFile()
    x = convolution(file, file.input((1, 33, 31, 3)), stride=2, activation=RELU6, outputs=16)
    for _ in range(2):
        y = convolution(file, x, kernel=(1, 1), outputs=48, activation=RELU6)
        y = convolution(file, depthwise(file, y, activation=RELU6), kernel=(1, 1), outputs=16)
        x = file.operator("ADD", [x, y], file.tensors[x].shape, "AddOptions")
    file.outputs = [reduction(file, x, "MEAN", [1, 2], False)]
    return file.finish()


@pytest.mark.parametrize("layout", ["auto", "NCHW16c"])
def test_a_network_converts(layout: str, tmp_path: Path) -> None:
    data, image = network(), randoms(1, 33, 31, 3)
    (expected,) = reference(data, [image])
    (output,) = run(data, [image], tmp_path, desired_layout=layout)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        relay_layout.from_tflite(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_that_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    assert refusal(path) == f"model '{path}': no such file"
    path.write_bytes(b"")
    assert refusal(path) == f"model '{path}' is empty"
    path.write_bytes(b"PK\3\4" + bytes(60))
    assert refusal(path) == f"model '{path}' is not a TensorFlow Lite file: it lacks the identifier TFL3"


def test_operators_that_are_not_supported_are_named(tmp_path: Path) -> None:
    file = TfliteFile()
    x = file.input((2, 3))

    file.operator("LSH_PROJECTION", [x], (2, 3))
    path = tmp_path / "model.tflite"
    path.write_bytes(file.finish())
    assert "not supported in frontend TFLite: 'LSH_PROJECTION'" in refusal(path)


def test_shapes_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(file_of(["relu"]))
    relay_layout.from_tflite(path, input_shapes={"t0": IMAGE})
    assert refusal(path, input_shapes={"t0": (1, 9, 7, 6)}) == (
        f"model '{path}': input 't0': dimension 0 is 2 in the file, not 1 as in the given shape 1,9,7,6"
    )


def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    whole = file_of(["convolution", "dense"])
    generator = np.random.default_rng(0)
    path = tmp_path / "model.tflite"
    for trial in range(150):
        data = bytearray(whole)
        if trial % 3 == 0:
            del data[int(generator.integers(8, len(data))) :]
        else:
            for _ in range(3):
                data[int(generator.integers(8, len(data)))] = int(generator.integers(256))
        path.write_bytes(data)
        try:
            relay_layout.from_tflite(path)
        except ModelError as error:
            assert str(error).startswith(f"model '{path}'") and "\n" not in str(error)
