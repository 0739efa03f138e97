"""What every peer is given: an ONNX file whose input shapes are fixed, and arrays to run it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relay_layout.errors import InputError, ModelError
from topi_ext.messages import system_message

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, Any]


def fix_input_shapes(onnx_path: Path, input_shapes: Mapping[str, Sequence[int]], directory: Path) -> Path:
    """The model with every input dimension known: the file itself, or a copy in ``directory``.

    Dimensions come from ``input_shapes``; a batch that is left open becomes 1.

    Raises ModelError where the file cannot be read, and InputError where a dimension other than the batch is
    open, or a given shape does not fit.
    """
    import onnx

    model = _load(onnx_path, with_weights=False)
    inputs = {value.name: value for value in _graph_inputs(model)}
    for name in input_shapes:
        if name not in inputs:
            raise InputError(f"{onnx_path}: no input '{name}'; its inputs are {', '.join(inputs)}")
    wanted = {name: _fixed_shape(onnx_path, value, input_shapes.get(name)) for name, value in inputs.items()}
    if all(_dimensions(value) == wanted[name] for name, value in inputs.items()):
        return onnx_path
    model = _load(onnx_path, with_weights=True)
    for value in _graph_inputs(model):
        shape = value.type.tensor_type.shape
        del shape.dim[:]
        for size in wanted[value.name]:
            shape.dim.add().dim_value = size
    _forget_shapes(model)
    try:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        result = directory / f"{onnx_path.stem}.static.onnx"
        onnx.save(model, result)
    except ValueError as error:
        raise ModelError(f"{onnx_path}: cannot fix its input shapes: {error}") from error
    return result


OPEN_AXES = {
    2: {0: "batch", 1: "length"},
    3: {0: "batch", 2: "length"},
    4: {0: "batch", 2: "height", 3: "width"},
    5: {0: "batch", 2: "depth", 3: "height", 4: "width"},
}
"""Dimensions that a network of any size leaves open, by the rank of its input: a text [N, L] of integers, a
signal [N, C, L], an image [N, C, H, W], a volume [N, C, D, H, W]."""


def open_images(onnx_path: Path, directory: Path) -> Path:
    """A copy in ``directory`` of a model that takes texts, signals, images or volumes of any number and size;
    a model that leaves dimensions open itself.

    Raises ModelError where the file cannot be read, and InputError where no input is one of them.
    """
    import onnx

    model = _load(onnx_path, with_weights=True)
    inputs = _graph_inputs(model)
    if any(size <= 0 for value in inputs for size in _dimensions(value)):
        return onnx_path
    has_text = any(len(_dimensions(value)) == len("NL") and _is_of_integers(value) for value in inputs)
    ranks = set(OPEN_AXES) - (set() if has_text else {len("NL")})
    images = [value for value in inputs if len(_dimensions(value)) in ranks]
    if not images:
        raise InputError(
            f"{onnx_path}: no input has 3 to 5 dimensions, those of a signal, image or volume, "
            "or 2 of integers, those of a text"
        )
    for value in images:
        for axis, name in OPEN_AXES[len(_dimensions(value))].items():
            value.type.tensor_type.shape.dim[axis].dim_param = name
    _forget_shapes(model)
    result = directory / f"{onnx_path.stem}.open.onnx"
    onnx.save(model, result)
    return result


def _is_of_integers(value: onnx.ValueInfoProto) -> bool:
    import onnx

    return bool(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).kind == "i")


def known_shapes(onnx_path: Path) -> dict[str, list[int]]:
    """The shapes of the inputs that have fixed ones; ModelError where the file cannot be read."""
    found = {value.name: _dimensions(value) for value in _graph_inputs(_load(onnx_path, with_weights=False))}
    return {name: shape for name, shape in found.items() if all(size > 0 for size in shape)}


def make_inputs(onnx_path: Path) -> dict[str, Array]:
    """Arrays from a fixed seed for every input of a model with fixed shapes, in the graph's order.

    Floating point inputs are normally distributed, 8-bit ones take all values, other integers and
    booleans are 0 or 1, which is valid for indices too.

    Raises ModelError where the file cannot be read, or an input is not an array of numbers.
    """
    import onnx

    generator = np.random.default_rng(0)
    result: dict[str, Array] = {}
    for value in _graph_inputs(_load(onnx_path, with_weights=False)):
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = _dimensions(value)
        if dtype.kind in "iub":
            high = 256 if dtype == np.uint8 else 2
            result[value.name] = generator.integers(0, high, shape).astype(dtype)
        elif dtype.kind == "f":
            result[value.name] = generator.standard_normal(shape, dtype=np.float32).astype(dtype)
        else:
            raise ModelError(f"{onnx_path}: input '{value.name}' has type {dtype}, which bench cannot fill")
    return result


_OF_INTEGERS = ("DynamicQuantize", "MatMulInteger", "QGemm", "QLinear")
"""How names of operators on quantized tensors begin."""


def is_quantized(onnx_path: Path) -> bool:
    """Whether anything in a model is quantized."""
    operators = {node.op_type for node in _load(onnx_path, with_weights=False).graph.node}
    return any(name.endswith("QuantizeLinear") or name.startswith(_OF_INTEGERS) for name in operators)


def _load(path: Path, with_weights: bool) -> onnx.ModelProto:
    import onnx

    try:
        return onnx.load(path, load_external_data=with_weights)
    except OSError as error:
        raise ModelError(system_message(error)) from None
    except Exception as error:  # onnx raises whatever its parser or the file system raise
        raise ModelError(f"{path}: not a readable ONNX model: {error}") from error


def _forget_shapes(model: onnx.ModelProto) -> None:
    """Drop the shapes of all but inputs: those of other inputs would contradict the ones there are now."""
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]


def _graph_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs that are not weights; older files list both."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def _dimensions(value: onnx.ValueInfoProto) -> list[int]:
    """Sizes, with -1 for an open dimension, which some exporters write as 0 or below."""
    return [
        dimension.dim_value if dimension.dim_value > 0 else -1
        for dimension in value.type.tensor_type.shape.dim
    ]


def _fixed_shape(path: Path, value: onnx.ValueInfoProto, given: Sequence[int] | None) -> list[int]:
    declared = _dimensions(value)
    if given is not None:
        fits = len(given) == len(declared) and all(
            old in (-1, new) for old, new in zip(declared, given, strict=True)
        )
        if not fits:
            raise InputError(
                f"{path}: input '{value.name}' is declared {_shape_text(declared)}, "
                f"which {_shape_text(given)} does not fit"
            )
        return list(given)
    shape = [1 if axis == 0 and size < 0 else size for axis, size in enumerate(declared)]
    if any(size < 0 for size in shape):
        raise InputError(
            f"{path}: input '{value.name}' has open dimensions {_shape_text(declared)}: "
            f"give its shape with --input-shape {value.name}:1,..."
        )
    return shape


def _shape_text(shape: Sequence[int]) -> str:
    return "[" + ", ".join("?" if size < 0 else str(size) for size in shape) + "]"
