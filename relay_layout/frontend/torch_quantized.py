"""Quantized tensors of PyTorch programs: the operators of ``torch.ops.quantized_decomposed``.

These are what PT2E quantization leaves in an exported program. Scales and zero points are numbers, or
vectors along an axis. A range of integers that is narrower than their dtype becomes bounds of the real
number.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, constant, dtype_of, shape_of

Converter = Callable[[Any, Any], Expression]

_DTYPES = ("int8", "uint8", "int16", "uint16")
_DEQUANTIZED = (*_DTYPES, "int32")


def _quantize(node: Any, importer: Any) -> Expression:
    found = _arguments(node)
    dtype = _dtype(node, found["dtype"], _DTYPES)
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    limits, bounds = np.iinfo(dtype), (int(found["quant_min"]), int(found["quant_max"]))
    if bounds != (limits.min, limits.max):
        scale, zero_point = found["scale"], found["zero_point"]
        if not isinstance(scale, float) or not isinstance(zero_point, int):
            raise ModelError(
                f"node '{node.name}': integers from {bounds[0]} to {bounds[1]} of {dtype} are only supported "
                "where scale and zero point are numbers; quantize to the whole range"
            )
        low, high = ((bound - zero_point) * scale for bound in bounds)
        data = emit(relax.op.clip(data, low, high))
    return emit(relax.op.quantize(data, *_parameters(found, dtype, importer), int(found["axis"]), dtype))


def _dequantize(node: Any, importer: Any) -> Expression:
    found = _arguments(node)
    dtype = _dtype(node, found["dtype"], _DEQUANTIZED)
    data = importer.env[node.args[0]]
    operands = _parameters(found, dtype, importer)
    return importer.block_builder.emit(relax.op.dequantize(data, *operands, int(found["axis"]), "float32"))


_PER_TENSOR = ("input", "scale", "zero_point", "quant_min", "quant_max", "dtype")
_PER_CHANNEL = ("input", "scale", "zero_point", "axis", "quant_min", "quant_max", "dtype")


def _arguments(node: Any) -> Mapping[str, Any]:
    names = _PER_CHANNEL if "per_channel" in node.target.__name__ else _PER_TENSOR
    return {"axis": 0, **dict(zip(names, node.args, strict=False)), **node.kwargs}


def _parameters(found: Mapping[str, Any], dtype: str, importer: Any) -> list[Expression]:
    """Scale and zero point in the dtypes that Relax has them in."""
    operands = []
    for name, wanted in (("scale", "float32"), ("zero_point", dtype)):
        value = found[name]
        if isinstance(value, int | float):
            operands.append(constant(np.array(value, wanted)))
            continue
        value = importer.env[value]
        if shape_of(value) == (1,):
            value = importer.block_builder.emit(relax.op.squeeze(value, [0]))
        if dtype_of(value) != wanted:
            value = importer.block_builder.emit(relax.op.astype(value, wanted))
        operands.append(value)
    return operands


def _dtype(node: Any, dtype: Any, allowed: tuple[str, ...]) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in allowed:
        raise ModelError(f"node '{node.name}': {name} is not supported; {', '.join(allowed)} are")
    return name


CONVERTERS: dict[str, Converter] = {
    f"{verb}_per_{part}.{overload}": converter
    for verb, converter in (("quantize", _quantize), ("dequantize", _dequantize))
    for part, overload in (("tensor", "default"), ("tensor", "tensor"), ("channel", "default"))
}
"""For TVM's ``from_exported_program``, as its ``custom_convert_map``."""

__all__ = ["CONVERTERS"]
