"""Networks and convolutions compiled here, run on a board, and compared with what is computed here."""

import itertools
import random
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

import relay_layout
from relay_layout.models import Network, build, export_onnx, to_onnx
from relay_layout.runtime.remote import open_session
from topi_ext.tune.measuring.tracker import RemoteDevice

Arrays = Mapping[str, np.ndarray]

TARGET = "aarch64-cortex-a76"
LAYOUTS = ("NHWC", "NCHW8c")
TOLERANCE = 1e-3
"""Largest difference allowed in float32, as a share of an output's largest number."""

SESSION_SECONDS = 600.0

_SIZES = {"inception_v3": 107, "resnet18": 32, "unet": 64, "yolo": 64}
_SIZE = 64
"""Pixels along each side of the images; as small as the networks allow with a few pixels to spare."""


def small(name: str) -> tuple[Network, np.ndarray]:
    """A built-in network with all its channels for small images, and an image."""
    network = build(name, image_size=_SIZES.get(name, _SIZE))
    shape = [int(extent) for extent in network.inputs[0].shape]
    return network, np.random.default_rng(7).standard_normal(shape, dtype=np.float32)


def by_onnx_runtime(model: Path, image: np.ndarray, *, optimized: bool = True) -> dict[str, np.ndarray]:
    """The outputs of a model here; where not ``optimized``, operator by operator as ONNX defines them."""
    import onnxruntime

    from tests.onnx_reference import reference_session

    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = reference_session(model, options)
    wanted = [output.name for output in session.get_outputs()]
    return dict(zip(wanted, session.run(wanted, {"input": image}), strict=True))


def exported(network: Network, precision: str, folder: Path) -> Path:
    """The network as an ONNX file: in float32, or made float16 or int8 by the tools of ONNX Runtime.

    Those of float16 take and give float16. A file that ``folder`` holds already is that of the same network.
    """
    path = folder / f"{network.name}-{precision}.onnx"
    if path.exists():
        return path
    match precision:
        case "int8":
            from scripts.quantize import quantize

            return quantize(network, path)
        case "float16":
            import onnx
            from onnxruntime.transformers.float16 import convert_float_to_float16

            onnx.save(convert_float_to_float16(to_onnx(network), disable_shape_infer=True), path)
        case _:
            export_onnx(network, path)
    return path


def on_board(
    module: Any,
    layout: str,
    inputs: Arrays,
    remote: RemoteDevice,
    folder: Path,
    target: str = TARGET,
    precision: str = "fp32",
) -> Arrays:
    """Compile, write the artifact, read it again, run it on a board."""
    path = folder / f"{layout}.rla"
    relay_layout.compile(module, target=target, desired_layout=layout, threads=1, precision=precision).save(
        path
    )
    return open_session(path, remote, seconds=SESSION_SECONDS).run(inputs)


def largest_error(outputs: Arrays, expected: Arrays) -> float:
    """The largest difference as a share of the largest number, over all outputs; they must have one shape."""
    assert list(outputs) == list(expected)
    errors = []
    for name, reference in expected.items():
        assert outputs[name].shape == reference.shape, name
        differences = np.abs(outputs[name].astype("float64") - reference)
        errors.append(float(differences.max() / np.abs(reference).max()))
    return max(errors)


def network_error(
    name: str, layout: str, remote: RemoteDevice, folder: Path, precision: str = "float32"
) -> float:
    """The largest error of a built-in network on a board, in a layout.

    Beside ONNX Runtime here on the same network; a float16 one beside float32.
    """
    network, image = small(name)
    model = exported(network, precision, folder)
    reference = exported(network, "float32", folder) if precision == "float16" else model
    expected = by_onnx_runtime(reference, image)
    inputs = {"input": image.astype("float16" if precision == "float16" else "float32")}
    return largest_error(on_board(model, layout, inputs, remote, folder), expected)


def definition_error(name: str, folder: Path) -> float:
    """How far the outputs of ONNX's definition are from ONNX Runtime's, which has kernels for integers."""
    network, image = small(name)
    model = exported(network, "int8", folder)
    return largest_error(by_onnx_runtime(model, image, optimized=False), by_onnx_runtime(model, image))


def random_convolution(seed: int) -> dict[str, Any]:
    """Attributes and shapes of the convolution of that seed: odd extents, strides, dilations and groups."""
    draw = random.Random(seed)
    groups = draw.choice([1, 1, 1, 2, 3, 8, 16])
    depthwise = groups == 16
    kernel = draw.choice([(1, 1), (1, 1), (3, 3), (3, 3), (3, 3), (5, 5), (1, 3), (2, 4)])
    inputs = groups * (1 if depthwise else draw.choice([1, 3, 4, 5, 8, 12, 16]))
    outputs = groups * (1 if depthwise else draw.choice([1, 2, 4, 7, 8, 16, 20]))
    return {
        "data": (draw.choice([1, 1, 1, 2, 3]), inputs, draw.randint(6, 23), draw.randint(6, 23)),
        "weight": (outputs, inputs // groups, *kernel),
        "strides": draw.choice([(1, 1), (1, 1), (2, 2), (1, 2), (3, 1)]),
        "padding": tuple(draw.randint(0, 2) for _ in range(4)),
        "dilation": draw.choice([(1, 1), (1, 1), (1, 1), (2, 2), (1, 2)]) if kernel != (5, 5) else (1, 1),
        "groups": groups,
        "relu": draw.random() < 0.5,
        "bias": draw.random() < 0.7,
    }


def convolutions_module(seeds: Sequence[int]) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    """A function of one convolution for each seed, with inputs and outputs of their own, and the inputs."""
    builder = relax.BlockBuilder()
    cases = {seed: random_convolution(seed) for seed in seeds}
    inputs = {
        f"data_{seed}": np.random.default_rng(seed).standard_normal(case["data"], dtype=np.float32)
        for seed, case in cases.items()
    }
    parameters = [relax.Var(name, relax.TensorType(array.shape, "float32")) for name, array in inputs.items()]
    results = []
    with builder.function("main", parameters):
        with builder.dataflow():
            for (seed, case), data in zip(cases.items(), parameters, strict=True):
                results.append(builder.emit(_convolution(case, data, _weight(seed, case))))
            outputs = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(outputs)
    return builder.finalize(), inputs


def seeds_of_matrices(count: int, inputs: int) -> list[int]:
    """The first seeds of convolutions that are products of matrices with rows of so many ``inputs``."""

    def suits(case: Mapping[str, Any]) -> bool:
        outputs, channels = case["weight"][:2]
        return case["groups"] == 1 and channels % inputs == 0 and outputs % 4 == 0

    return list(islice((seed for seed in itertools.count() if suits(random_convolution(seed))), count))


def integers_module(seeds: Sequence[int]) -> tuple[tvm.IRModule, dict[str, np.ndarray], list[np.ndarray]]:
    """Convolutions of uint8 by int8 whose borders hold a zero point, the inputs, and what they give.

    Those of odd seeds have the largest products by weights without -128 alone.
    """
    builder = relax.BlockBuilder()
    cases = {seed: random_convolution(seed) for seed in seeds}
    generators = {seed: np.random.default_rng(seed) for seed in seeds}
    inputs = {
        f"data_{seed}": generators[seed].integers(0, 256, case["data"], dtype="uint8")
        if seed % 2 == 0
        else generators[seed].choice(np.array([0, 255], "uint8"), case["data"])
        for seed, case in cases.items()
    }
    parameters = [relax.Var(name, relax.TensorType(array.shape, "uint8")) for name, array in inputs.items()]
    results, expected = [], []
    with builder.function("main", parameters):
        with builder.dataflow():
            for (seed, case), data in zip(cases.items(), parameters, strict=True):
                weight = (
                    generators[seed].integers(-128, 128, case["weight"], dtype="int8")
                    if seed % 2 == 0
                    else generators[seed].choice(np.array([-127, 127], "int8"), case["weight"])
                )
                zero_point = int(generators[seed].integers(0, 256))
                top, left, bottom, right = case["padding"]
                widths = [0, 0, 0, 0, top, bottom, left, right]
                bordered = builder.emit(relax.op.nn.pad(data, widths, pad_value=zero_point))
                case = {**case, "padding": (0, 0, 0, 0), "relu": False, "bias": False}
                results.append(builder.emit(_convolution(case, bordered, weight, out_dtype="int32")))
                pads = ((0, 0), (0, 0), (top, bottom), (left, right))
                image = np.pad(inputs[f"data_{seed}"], pads, constant_values=zero_point)
                expected.append(_windows(case, image, weight).astype("int32"))
            outputs = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(outputs)
    return builder.finalize(), inputs, expected


def convolutions_by_definition(seeds: Sequence[int], inputs: Arrays) -> list[np.ndarray]:
    """What the convolutions of the seeds give."""
    cases = {seed: random_convolution(seed) for seed in seeds}
    return [_windows(case, inputs[f"data_{seed}"], _weight(seed, case)) for seed, case in cases.items()]


def _weight(seed: int, case: Mapping[str, Any]) -> np.ndarray:
    return np.random.default_rng(seed + 1000).standard_normal(case["weight"], dtype=np.float32)


def _convolution(
    case: Mapping[str, Any], data: relax.Expr, weight: np.ndarray, out_dtype: str = "float32"
) -> relax.Expr:
    found = relax.op.nn.conv2d(
        data,
        relax.const(weight),
        strides=case["strides"],
        padding=case["padding"],
        dilation=case["dilation"],
        groups=case["groups"],
        out_dtype=out_dtype,
    )
    if case["bias"]:
        found = relax.op.add(found, relax.const(_bias(case)))
    return relax.op.nn.relu(found) if case["relu"] else found


def _bias(case: Mapping[str, Any]) -> np.ndarray:
    return np.cos(np.arange(case["weight"][0], dtype=np.float32)).reshape(1, -1, 1, 1)


def _windows(case: Mapping[str, Any], data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Window by window, in float64."""
    weight = weight.astype(np.float64)
    top, left, bottom, right = case["padding"]
    padded = np.pad(data.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    (rows, columns), (down, across) = case["strides"], case["dilation"]
    height, width = weight.shape[2:]
    out_height = (padded.shape[2] - down * (height - 1) - 1) // rows + 1
    out_width = (padded.shape[3] - across * (width - 1) - 1) // columns + 1
    groups = case["groups"]
    outputs, inputs = weight.shape[0] // groups, weight.shape[1]
    found = np.zeros((data.shape[0], weight.shape[0], out_height, out_width))
    for group in range(groups):
        into, source = (
            slice(group * outputs, (group + 1) * outputs),
            slice(group * inputs, (group + 1) * inputs),
        )
        for row in range(height):
            for column in range(width):
                window = padded[
                    :,
                    source,
                    row * down : row * down + rows * (out_height - 1) + 1 : rows,
                    column * across : column * across + columns * (out_width - 1) + 1 : columns,
                ]
                found[:, into] += np.einsum("nchw,oc->nohw", window, weight[into, :, row, column])
    if case["bias"]:
        found += _bias(case)
    return np.maximum(found, 0.0) if case["relu"] else found
