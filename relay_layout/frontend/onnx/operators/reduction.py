"""ONNX reductions over axes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm import relax

from relay_layout.frontend.extents.arithmetic import product
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.values import Value, dtype_of, extents, shape_of

_AXES_INPUT_SINCE = {"ReduceSum": 13}
"""Opset from which the axes are an input; 18 for the other reductions."""


def has_axes_input(operator: str, opset: int) -> bool:
    """Whether a reduction of this opset takes its axes as an input, rather than as an attribute."""
    return opset >= _AXES_INPUT_SINCE.get(operator, 18)


def _axes(node: Node) -> list[int] | None:
    """The axes to reduce, None for nothing to reduce."""
    rank = len(shape_of(node.input(0)))
    if not has_axes_input(node.operator, node.opset):
        axes = list(node.attributes.get("axes", ()))
    else:
        axes = [int(axis) for axis in node.constant(1).reshape(-1)] if node.has(1) else []
        if not axes and node.attributes.get("noop_with_empty_axes", 0):
            return None
    return node.axes(axes, rank) if axes else list(range(rank))


def _reduction(
    reduce: Callable[..., Any],
    before: Callable[[Node, Any], Any] = lambda node, data: data,
    after: Callable[[Any], Any] = lambda data: data,
) -> Converter:
    def convert(node: Node) -> Value:
        data, axes = node.tensor(0), _axes(node)
        prepared = before(node, data)
        if axes:
            keep = bool(node.attributes.get("keepdims", 1))
            prepared = reduce(node.emit(prepared, "terms"), axis=axes, keepdims=keep)
        return after(prepared)

    return convert


def _mean(node: Node) -> Value:
    """The mean; of integers its whole part, as ONNX Runtime gives it."""
    dtype = dtype_of(node.input(0))
    if not dtype.startswith(("int", "uint")):
        return _reduction(relax.op.mean)(node)
    axes, shape = _axes(node), shape_of(node.input(0))
    total = node.emit(_reduction(relax.op.sum)(node), "total")
    if not axes:
        return total
    number = node.expression(extents(product([shape[axis] for axis in axes])))
    wide = relax.op.divide(relax.op.astype(total, "int64"), number)
    return relax.op.astype(node.emit(wide, "mean"), dtype)


def _log_of_sum_of_exponentials(node: Node) -> Value:
    data, axes = node.tensor(0), _axes(node)
    if not axes:
        return data
    # Taking the largest element out keeps the exponentials from overflowing; infinity less itself is nothing.
    largest = node.emit(relax.op.max(data, axis=axes, keepdims=True), "largest")
    finite = node.emit(relax.op.isfinite(largest), "finite")
    largest = node.emit(relax.op.where(finite, largest, node.like(0.0, data)), "largest")
    total = relax.op.sum(relax.op.exp(relax.op.subtract(data, largest)), axis=axes, keepdims=True)
    result = node.emit(relax.op.add(relax.op.log(total), largest), "kept")
    return result if node.attributes.get("keepdims", 1) else relax.op.squeeze(result, axes)


def _whole_part(converter: Converter) -> Converter:
    """A reduction; of integers, computed as float64, its whole part, as ONNX Runtime gives it."""

    def convert(node: Node) -> Value:
        dtype = dtype_of(node.input(0))
        if not dtype.startswith(("int", "uint")):
            return converter(node)
        real = node.emit(node.cast(node.input(0), "float64"), "real")
        found = converter(replace(node, inputs=(real, *node.inputs[1:])))
        return relax.op.astype(node.emit(found, "found"), dtype)

    return convert


def _absolute(node: Node, data: Any) -> Any:
    return relax.op.abs(data)


def _square(node: Node, data: Any) -> Any:
    return relax.op.multiply(data, data)


def _extremum(reduce: Callable[..., Any]) -> Converter:
    numeric = _reduction(reduce)

    def convert(node: Node) -> Value:
        if dtype_of(node.input(0)) != "bool":
            return numeric(node)
        bytes_ = node.emit(node.cast(node.input(0), "uint8"), "bytes")
        found = numeric(replace(node, inputs=(bytes_, *node.inputs[1:])))
        return relax.op.astype(node.emit(found, "found"), "bool")

    return convert


def _arg(find: Callable[..., Any]) -> Converter:
    def convert(node: Node) -> Value:
        data = node.tensor(0)
        shape = shape_of(data)
        axis = node.axis_given(len(shape), default=0)
        keep = bool(node.attributes.get("keepdims", 1))
        if not node.attributes.get("select_last_index", 0):
            return find(data, axis, keep)
        # The last index of the extremum is the first one in the reversed tensor.
        mirrored = node.emit(find(relax.op.flip(data, axis), axis, keep), "mirrored")
        return relax.op.subtract(node.expression(extents(shape[axis] - 1)), mirrored)

    return convert


CONVERTERS: dict[str, Converter] = {
    "ArgMax": _arg(relax.op.argmax),
    "ArgMin": _arg(relax.op.argmin),
    "ReduceL1": _reduction(relax.op.sum, before=_absolute),
    "ReduceL2": _whole_part(_reduction(relax.op.sum, before=_square, after=relax.op.sqrt)),
    "ReduceLogSum": _whole_part(_reduction(relax.op.sum, after=relax.op.log)),
    "ReduceLogSumExp": _whole_part(_log_of_sum_of_exponentials),
    "ReduceMax": _extremum(relax.op.max),
    "ReduceMean": _mean,
    "ReduceMin": _extremum(relax.op.min),
    "ReduceProd": _reduction(relax.op.prod),
    "ReduceSum": _reduction(relax.op.sum),
    "ReduceSumSquare": _reduction(relax.op.sum, before=_square),
}
