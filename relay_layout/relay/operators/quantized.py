"""Operators of relay.qnn, and the simulated quantization of relay.quantize."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of
from relay_layout.relay.operators import quantized_convolutions, quantized_elementwise
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.fixed_point import round_to_nearest
from relay_layout.relay.operators.operator import Exported, Operator, Scope, rank_of, scalar, scalar_like
from relay_layout.relay.operators.quantization import (
    channelwise,
    check_dtype,
    check_dtype_attribute,
    dequantize,
    known,
    quantize,
    requantize,
)
from relay_layout.relay.syntax.relay_types import RelayType, TensorType

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")
_REALS = ("float16", "float32")

DTYPE_CODES = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}
"""How the operand of simulated quantization names a data type."""


def _requantize(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    check_dtype(operands[0], "the data", ("int8", "uint8", "int16", "int32", "int64"))
    out_dtype = check_dtype_attribute(attributes.out_dtype, ("int8", "uint8", "int16", "int32"))
    data, scale, zero_point, output_scale, output_zero_point = operands
    return requantize(
        scope,
        data,
        scale,
        zero_point,
        output_scale,
        output_zero_point,
        out_dtype,
        axis=attributes.axis,
        rounding=attributes.rounding,
        compute_dtype=attributes.compute_dtype,
    )


def _quantize(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    check_dtype(operands[0], "the data", ("float32",))
    out_dtype = check_dtype_attribute(attributes.out_dtype, _INTEGERS)
    data, scale, zero_point = operands
    return quantize(scope, data, scale, zero_point, attributes.axis, out_dtype)


def _dequantize(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    check_dtype(operands[0], "the data", _INTEGERS)
    out_dtype = check_dtype_attribute(attributes.out_dtype, _REALS)
    data, scale, zero_point = operands
    return dequantize(scope, data, scale, zero_point, attributes.axis, out_dtype)


def _exported(call: relax.Call) -> Exported | None:
    """A call of Relax's, whose zero points are of the quantized type, where these are known."""
    data, scale, zero_point = call.args
    shift, axis = known(zero_point), int(call.attrs.axis)
    if dtype_of(scale) != "float32" or shift is None or shift.dtype.kind not in "iu":
        return None
    return Exported(
        [data, scale, shift.astype("int32")], {"axis": axis, "out_dtype": str(call.attrs.out_dtype)}
    )


def _export_quantize(call: relax.Call) -> Exported | None:
    """Relax rounds halves to even, Relay away from zero."""
    fits = dtype_of(call.args[0]) == "float32" and str(call.attrs.out_dtype) in _INTEGERS
    return _exported(call) if fits else None


def _export_dequantize(call: relax.Call) -> Exported | None:
    fits = dtype_of(call.args[0]) in _INTEGERS and str(call.attrs.out_dtype) in _REALS
    return _exported(call) if fits else None


def _annotation(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    """Clipped and rounded to the steps of a scale, in floating point; halves away from zero."""
    data, scale, low, high = operands
    if not attributes.sign or attributes.rounding != "round":
        raise ModelError("only sign=True and rounding='round' can be computed")
    if not 0 <= attributes.kind <= 3:
        raise ModelError(f"kind is {attributes.kind}; 0 to 3 are known")
    if attributes.kind == 0:
        return relax.op.astype(data, dtype_of(data))
    scaled = relax.op.maximum(relax.op.minimum(relax.op.divide(data, scale), high), low)
    return relax.op.multiply(round_to_nearest(scope.emit(scaled)), scale)


def _annotation_types(types: Sequence[RelayType | None], attributes: Attributes) -> Mapping[int, RelayType]:
    return {position: TensorType((), "float32") for position in (1, 2, 3)}


def _simulated_quantize(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    """What the data type of that code would hold, in the type of the data; other codes change nothing."""
    data, code, scale, zero_point = operands
    kind = dtype_of(data)
    scaled = scope.emit(relax.op.divide(data, channelwise(scale, attributes.axis, data)))
    shift = relax.op.astype(channelwise(zero_point, attributes.axis, data), kind)
    whole = scope.emit(relax.op.add(round_to_nearest(scaled), shift))
    result = data
    for name in ("int8", "uint8", "int32"):
        limits = np.iinfo(name)
        low, high = scalar(float(limits.min), kind), scalar(float(limits.max), kind)
        clipped = relax.op.maximum(relax.op.minimum(whole, high), low)
        result = relax.op.where(_is_code(code, name), clipped, result)
    return result


def _simulated_dequantize(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data, code, scale, zero_point = operands
    shift = relax.op.astype(channelwise(zero_point, attributes.axis, data), dtype_of(data))
    real = scope.emit(
        relax.op.multiply(relax.op.subtract(data, shift), channelwise(scale, attributes.axis, data))
    )
    result = data
    for name in ("int8", "uint8", "int32"):
        result = relax.op.where(_is_code(code, name), real, result)
    return result


def _is_code(code: Expression, dtype: str) -> Expression:
    if rank_of(code) > 1:
        raise ModelError("the code of a data type is one number")
    return relax.op.equal(code, scalar_like(DTYPE_CODES[dtype], code))


def _prepare_simulated(**arguments: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The data type, by its name or as a tensor of its code, comes second and the axis is an attribute."""
    axis = arguments.pop("axis")
    data, scale, zero_point, dtype = arguments.values()
    if isinstance(dtype, str):
        if dtype not in DTYPE_CODES:
            raise ValueError(f"'{dtype}' cannot be simulated; {', '.join(DTYPE_CODES)} can")
        dtype = DTYPE_CODES[dtype]
    return [data, dtype, scale, zero_point], {"axis": axis}


ROWS: tuple[Operator, ...] = (
    *quantized_convolutions.ROWS,
    *quantized_elementwise.ROWS,
    Operator(
        "qnn.requantize",
        ("data", "input_scale", "input_zero_point", "output_scale", "output_zero_point"),
        _requantize,
        "RequantizeAttrs",
        signature=(
            "data, input_scale, input_zero_point, output_scale, output_zero_point, axis=-1, "
            "rounding='None', compute_dtype='None', out_dtype='int8'"
        ),
        carried=True,
    ),
    Operator(
        "qnn.quantize",
        ("data", "output_scale", "output_zero_point"),
        _quantize,
        "QuantizeAttrs",
        signature="data, output_scale, output_zero_point, axis=-1, out_dtype='int8'",
        relax_names=("quantize",),
        export=_export_quantize,
        carried=True,
    ),
    Operator(
        "qnn.dequantize",
        ("data", "input_scale", "input_zero_point"),
        _dequantize,
        "DequantizeAttrs",
        signature="data, input_scale, input_zero_point, axis=-1, out_dtype='float32'",
        relax_names=("dequantize",),
        export=_export_dequantize,
        carried=True,
    ),
    Operator(
        "relay.op.annotation.simulated_quantize",
        ("data", "dom_scale", "clip_min", "clip_max"),
        _annotation,
        "SimulatedQuantizeAttrs",
        signature="data, dom_scale, clip_min, clip_max, kind, sign=True, rounding='round'",
        operand_types=_annotation_types,
        carried=True,
    ),
    Operator(
        "qnn.simulated_quantize",
        ("data", "out_dtype", "output_scale", "output_zero_point"),
        _simulated_quantize,
        "QnnSimulatedQuantizeAttrs",
        signature="data, output_scale, output_zero_point, axis=-1, out_dtype='int8'",
        prepare=_prepare_simulated,
        carried=True,
    ),
    Operator(
        "qnn.simulated_dequantize",
        ("data", "in_dtype", "input_scale", "input_zero_point"),
        _simulated_dequantize,
        "QnnSimulatedDequantizeAttrs",
        signature="data, input_scale, input_zero_point, axis=-1, in_dtype='int8'",
        prepare=_prepare_simulated,
        carried=True,
    ),
)
