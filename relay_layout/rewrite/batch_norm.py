"""Batch norm with known statistics: part of the convolution before it, or a product and a sum."""

import numpy as np
from tvm import relax

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    operator_name,
    out_layout,
    with_operands,
)
from relay_layout.rewrite.bindings import Bindings
from relay_layout.targets.convolutions import CONVOLUTION_AXES, TRANSPOSED_CONVOLUTIONS


def without_batch_norm(call: relax.Call, bindings: Bindings) -> Expression:
    """What a batch norm computes of constant statistics, with other constants; other calls as they are."""
    if bool(call.attrs.training) or not all(isinstance(statistic, Constant) for statistic in call.args[1:]):
        return call
    data, rank = call.args[0], len(call.args[0].ty.shape.values)
    scale, shift = _scale_and_shift(call)
    axis = int(call.attrs.axis) % rank
    result = _folded(data, scale, shift, axis, bindings)
    if result is None:
        scaled = bindings.emit(relax.op.multiply(data, _along(scale, axis, rank)))
        result = relax.op.add(scaled, _along(shift, axis, rank))
    return relax.Tuple([bindings.emit(result), call.args[3], call.args[4]])


def _folded(
    data: Expression, scale: np.ndarray, shift: np.ndarray, axis: int, bindings: Bindings
) -> Expression | None:
    """The convolution (and bias) that computes ``data``, with scale and shift in its constants."""
    producer, bias = bindings.read_once(data), None
    if producer is not None and operator_name(producer) == "add" and isinstance(producer.args[1], Constant):
        bias = constant_array(producer.args[1])
        producer = bindings.read_once(producer.args[0])
    if producer is None or not _scales_by_kernel(producer) or not isinstance(producer.args[1], Constant):
        return None
    attributes = producer.attrs
    layout, kernel_layout = out_layout(attributes), str(attributes.kernel_layout)
    rank = len(layout)
    if not layout.isupper() or layout.index("C") != axis or not kernel_layout.isupper():
        return None
    if bias is not None:
        if bias.size not in (1, scale.size) or (bias.size > 1 and _channel_axis(bias, rank) != axis):
            return None
        shift = shift + bias.reshape(-1) * scale
    weight = constant_array(producer.args[1])
    along_outputs = [1] * weight.ndim
    along_outputs[kernel_layout.index("O")] = -1
    folded = (weight * scale.reshape(along_outputs)).astype(weight.dtype)
    convolution = bindings.emit(with_operands(producer, [producer.args[0], constant(folded)]))
    return relax.op.add(convolution, _along(shift.astype(weight.dtype), axis, rank))


def _scale_and_shift(call: relax.Call) -> tuple[np.ndarray, np.ndarray]:
    """``x * scale + shift``, computed in double precision from the four statistics."""
    gamma, beta, mean, variance = (constant_array(argument).astype("float64") for argument in call.args[1:])
    scale = 1.0 / np.sqrt(variance + float(call.attrs.epsilon))
    if bool(call.attrs.scale):
        scale = scale * gamma
    shift = -mean * scale
    if bool(call.attrs.center):
        shift = shift + beta
    dtype = constant_array(call.args[1]).dtype
    return scale.astype(dtype), shift.astype(dtype)


def _scales_by_kernel(call: relax.Call) -> bool:
    """Whether axis O of a call's kernel is the channels of its result; not where it is those of one group."""
    name = operator_name(call)
    if name not in CONVOLUTION_AXES:
        return False
    return name not in TRANSPOSED_CONVOLUTIONS or int(call.attrs.groups) == 1


def _along(vector: np.ndarray, axis: int, rank: int) -> Constant:
    shape = [1] * rank
    shape[axis] = vector.size
    return constant(vector.reshape(shape))


def _channel_axis(array: np.ndarray, rank: int) -> int:
    """The one axis of more than one element of an array broadcast to ``rank`` dimensions; -1 for several."""
    long = [axis for axis, extent in enumerate(array.shape) if extent > 1]
    return long[0] + rank - array.ndim if len(long) == 1 else -1
