"""Quantized TensorFlow Lite models beside LiteRT's interpreter."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tflite = pytest.importorskip("tflite")

import relay_layout  # noqa: E402
from tests.relay_layout.frontend.tflite.harness import IMAGE, RELU, RELU6, SAME, VALID, reference, run  # noqa: E402
from tests.relay_layout.frontend.tflite.writer import TfliteFile  # noqa: E402

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


def transposed(file: TfliteFile, x: int) -> int:
    order = file.constant(np.array([0, 3, 1, 2], "int32"))
    return file.operator("TRANSPOSE", [x, order], (2, 6, 9, 7), "TransposeOptions", **result(0.02, -3))


def padded(file: TfliteFile, x: int) -> int:
    pads = file.constant(np.array([[0, 0], [1, 2], [0, 1], [0, 0]], "int32"))
    return file.operator("PAD", [x, pads], (2, 12, 8, 6), "PadOptions", **result(0.02, -3))


def bent(file: TfliteFile, x: int) -> int:
    slopes = file.constant(
        np.linspace(-90, 120, 6).astype("int8").reshape(1, 1, 6), scales=(0.01,), zero_points=(4,)
    )
    return file.operator("PRELU", [x, slopes], IMAGE, **result())


def between_ones(file: TfliteFile, x: int) -> int:
    return file.operator("RELU_N1_TO_1", [x], IMAGE, **result(0.01, 2))


def gelu(file: TfliteFile, x: int) -> int:
    return file.operator("GELU", [x], IMAGE, "GeluOptions", Approximate=False, **result(0.02, -100))


def products_of_images(file: TfliteFile, x: int) -> int:
    return file.operator("BATCH_MATMUL", [x, x], (2, 9, 7, 7), "BatchMatMulOptions", AdjY=True, **result(0.2))


def packed(file: TfliteFile, x: int) -> int:
    return file.operator(
        "PACK", [x, x], (2, 2, 9, 7, 6), "PackOptions", Axis=1, ValuesCount=2, **result(0.02, -3)
    )


INTEGER: dict[str, Callable[[TfliteFile, int], int]] = {
    "convolution": integer_convolution,
    "depthwise": integer_depthwise,
    "dense": integer_dense,
    "sum": integer_sum,
    "average": integer_average,
    "mean": integer_mean,
    "transpose": transposed,
    "pad": padded,
    "prelu": bent,
    "between_ones": between_ones,
    "gelu": gelu,
    "products_of_images": products_of_images,
    "pack": packed,
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


def test_a_bias_beside_data_of_16_bits(tmp_path: Path) -> None:
    file = TfliteFile()
    image = file.input(IMAGE, "int16", scales=(3e-5,), zero_points=(0,))
    generator = np.random.default_rng(7)
    scales = np.linspace(0.01, 0.03, 5)
    weight = file.constant(
        generator.integers(-127, 128, (5, 3, 3, 6)).astype("int8"),
        scales=tuple(scales),
        zero_points=(0,) * 5,
        axis=0,
    )
    bias = file.constant(
        generator.integers(-50000, 50000, 5).astype("int64"),
        scales=tuple(scales * 3e-5),
        zero_points=(0,) * 5,
    )
    file.operator(
        "CONV_2D",
        [image, weight, bias],
        (*IMAGE[:3], 5),
        "Conv2DOptions",
        Padding=SAME,
        StrideH=1,
        StrideW=1,
        DilationHFactor=1,
        DilationWFactor=1,
        dtype="int16",
        quantization={"scales": (4e-4,), "zero_points": (0,)},
    )
    data, given = file.finish(), generator.integers(-32768, 32768, IMAGE).astype("int16")
    (wanted,), (found,) = reference(data, [given]), run(data, [given], tmp_path)
    assert found.dtype == np.int16
    assert np.abs(found.astype(int) - wanted).max() <= 1


def test_the_manifest_says_what_integers_stand_for(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(quantized_file())
    manifest = relay_layout.compile(tmp_path / "model.tflite").manifest
    (spec,) = manifest.inputs
    assert (spec.layout, spec.dim_order, spec.dtype) == ("NHWC", (0, 1, 2, 3), "int8")
    assert spec.quantization is not None
    assert spec.quantization.zero_points == (-3,) and spec.quantization.axis is None
    np.testing.assert_allclose(spec.quantization.scales, 0.02, rtol=1e-6)
    assert manifest.outputs[-1].quantization is None
