"""Integer arithmetic on symbolic extents, which exporters use to work out shapes."""

from collections.abc import Callable
from functools import partial, reduce

import numpy as np
from tvm import tirx

from relay_layout.frontend.extents.arithmetic import greatest, least, product, same, simplify
from relay_layout.frontend.extents.residues import never_more
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.slices import sliced
from relay_layout.frontend.values import Array, Extents, Unsupported, Value, extents
from relay_layout.ir import Extent


def arithmetic(node: Node) -> Value:
    """The result of a node of which some inputs are Extents.

    NotImplemented for a node without such inputs, or that does more than arithmetic with them.
    """
    compute = _ARITHMETIC.get(node.operator)
    given = [value for value in node.inputs if value is not None]
    if compute is None or not any(isinstance(value, Extents) for value in given):
        return NotImplemented
    if not all(isinstance(value, Extents) or _is_integral(value) for value in given):
        return NotImplemented
    arrays = [None if value is None else elements_of(value) for value in node.inputs]
    result = compute(node, *arrays)
    if result is NotImplemented or (isinstance(result, np.ndarray) and result.dtype != object):
        return result
    dtypes = {value.dtype for value in given if isinstance(value, Extents)}
    dtype = "int32" if dtypes == {"int32"} else "int64"
    if node.operator == "Cast":
        from onnx import TensorProto

        dtype = "int32" if node.attributes["to"] == TensorProto.INT32 else "int64"
    return extents(result, dtype)


def tested_extent(node: Node) -> tuple[Extent, int] | None:
    """The extent which a node compares with a number, and the number; None where it does something else."""
    if node.operator != "Equal" or len(node.inputs) != 2:
        return None
    tested = [value for value in node.inputs if isinstance(value, Extents) and value.array.size == 1]
    numbers = [value for value in node.inputs if isinstance(value, np.ndarray) and value.size == 1]
    return (tested[0].array.item(), int(numbers[0].item())) if tested and numbers else None


def emptied_extent(extent: Extent) -> tirx.Var | None:
    """The variable that is 0 where ``extent`` is; None where there is none."""
    condition = simplify(extent == tirx.const(0, "int64"))
    if not isinstance(condition, tirx.EQ):
        return None
    one, other = simplify(condition.a), simplify(condition.b)
    pairs = (one, other), (other, one)
    return next((side for side, rest in pairs if isinstance(side, tirx.Var) and rest == 0), None)


def _is_integral(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iub"


def elements_of(value: Value) -> Array:
    """Integers or truth values of a constant or Extents, as an object array."""
    if isinstance(value, Extents):
        return value.array
    elements = np.empty(value.shape, dtype=object)
    for index in np.ndindex(value.shape):
        elements[index] = bool(value[index]) if value.dtype.kind == "b" else int(value[index])
    return elements


def _elementwise(operation: Callable[[Extent, Extent], Extent]) -> Callable[..., Value]:
    def compute(node: Node, left: Array, *others: Array) -> Value:
        for right in others:
            lefts, rights = np.broadcast_arrays(left, right)
            left = np.empty(lefts.shape, dtype=object)
            for index in np.ndindex(lefts.shape):
                left[index] = operation(lefts[index], rights[index])
                if left[index] is NotImplemented:
                    return NotImplemented
        return left

    return compute


def _divided(node: Node, dividends: Array, divisors: Array) -> Value:
    return _elementwise(partial(_quotient, node))(node, dividends, divisors)


def _quotient(node: Node, dividend: Extent, divisor: Extent) -> Extent:
    """A quotient rounded towards zero."""
    if isinstance(dividend, int) and isinstance(divisor, int):
        if divisor == 0:
            return NotImplemented
        # ONNX rounds towards zero, Python down.
        magnitude = abs(dividend) // abs(divisor)
        return magnitude if (dividend < 0) == (divisor < 0) else -magnitude
    if isinstance(divisor, int) and divisor <= 0:
        return NotImplemented
    least = node.counts.least_size(dividend)
    if never_more(0, dividend, least=least):
        return simplify(dividend // divisor)
    if never_more(dividend, 0, least=least):
        return simplify(0 - simplify(0 - dividend) // divisor)
    if isinstance(divisor, int) and len(tirx.analysis.undefined_vars(dividend)) == 1:
        node.requirements.unsure(dividend)
        return simplify(greatest(dividend, 0) // divisor - greatest(simplify(0 - dividend), 0) // divisor)
    # What several sizes make is a number of elements.
    return simplify(dividend // divisor)


def _remainder(dividend: Extent, divisor: Extent) -> Extent:
    if isinstance(divisor, int) and divisor <= 0:
        return NotImplemented
    if isinstance(divisor, int) and never_more(dividend, 0):
        # What is missing to a multiple: TVM would divide by a negative number.
        missing_from = simplify(0 - dividend)
        return simplify((missing_from + divisor - 1) // divisor * divisor - missing_from)
    return simplify(dividend % divisor)


def _equal(node: Node, left: Array, right: Array) -> Value:
    lefts, rights = np.broadcast_arrays(left, right)
    result = np.zeros(lefts.shape, dtype=bool)
    for index in np.ndindex(lefts.shape):
        one, other = lefts[index], rights[index]
        if same(one, other):
            result[index] = True
        elif not (isinstance(one, int) and isinstance(other, int)):
            known = one if isinstance(one, int) else other
            # An extent is never negative, which is what exporters compare it with.
            if not isinstance(known, int) or known >= 0:
                return NotImplemented
    return result


def _clip(node: Node, data: Array, low: Array | None = None, high: Array | None = None) -> Value:
    for bound, choose in ((low, greatest), (high, least)):
        if bound is not None:
            data = _elementwise(choose)(node, data, bound)
    return data


def _transpose(node: Node, data: Array) -> Value:
    return data.transpose(node.attributes.get("perm"))


def _where(node: Node, condition: Array, left: Array, right: Array) -> Value:
    if not all(isinstance(choice, bool) for choice in condition.flat):
        return NotImplemented
    return np.where(condition.astype(bool), left, right)


def _gather(node: Node, data: Array, indices: Array) -> Value:
    axis = node.axis_given(data.ndim, default=0)
    extent = data.shape[axis]
    if not all(isinstance(index, int) and -extent <= index < extent for index in indices.flat):
        raise Unsupported("picks extents that do not exist")
    return np.asarray(np.take(data, indices.astype("int64"), axis=axis), dtype=object)


def _concat(node: Node, *parts: Array) -> Value:
    return np.concatenate(parts, axis=node.axis_given(parts[0].ndim, default=0))


def _slice(node: Node, data: Array, *given: Array | None) -> Value:
    if node.opset < 10:
        bounds = [list(node.attributes.get(name, ())) for name in ("starts", "ends", "axes")]
    else:
        bounds = [[] if bound is None else bound.reshape(-1).tolist() for bound in given]
    starts, ends, axes, steps = [*bounds, [], []][:4]
    if any(not isinstance(bound, int) for bound in [*starts, *ends, *steps]):
        return NotImplemented
    return sliced(data, starts, ends, [node.axis(axis, data.ndim) for axis in axes], steps)


def _reshape(node: Node, data: Array, shape: Array) -> Value:
    goal = [data.shape[axis] if extent == 0 else extent for axis, extent in enumerate(shape.tolist())]
    return data.reshape(goal)


def _squeeze(node: Node, data: Array, axes: Array | None = None) -> Value:
    given = node.attributes.get("axes") if axes is None else axes.tolist()
    return np.asarray(data.squeeze(None if given is None else tuple(given)), dtype=object)


def _unsqueeze(node: Node, data: Array, axes: Array | None = None) -> Value:
    given = node.attributes.get("axes", ()) if axes is None else axes.tolist()
    return np.expand_dims(data, tuple(given))


def _cast(node: Node, data: Array) -> Value:
    from onnx import TensorProto

    return data if node.attributes["to"] in (TensorProto.INT64, TensorProto.INT32) else NotImplemented


def _reduced(combine: Callable[[list[Extent]], Extent]) -> Callable[..., Value]:
    def compute(node: Node, data: Array, axes: Array | None = None) -> Value:
        if data.ndim != 1 or not data.size:
            return NotImplemented
        result = np.empty([1] if node.attributes.get("keepdims", 1) else [], dtype=object)
        result[...] = combine(data.tolist())
        return result

    return compute


def _expand(node: Node, data: Array, shape: Array) -> Value:
    if not all(isinstance(extent, int) for extent in shape.flat):
        return NotImplemented
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(shape.tolist())))


MOVES: dict[str, Callable[..., Value]] = {
    "Concat": _concat,
    "Gather": _gather,
    "Identity": lambda node, data: data,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""What moves elements without looking at them: of the node, and of its inputs as object arrays."""

_ARITHMETIC: dict[str, Callable[..., Value]] = {
    **MOVES,
    "Add": _elementwise(lambda left, right: simplify(left + right)),
    "Cast": _cast,
    "Clip": _clip,
    "Div": _divided,
    "Equal": _equal,
    "Expand": _expand,
    "Max": _elementwise(greatest),
    "Min": _elementwise(least),
    "Mod": _elementwise(_remainder),
    "Mul": _elementwise(lambda left, right: simplify(left * right)),
    "Neg": lambda node, data: -data,
    "ReduceMax": _reduced(lambda extents: reduce(greatest, extents)),
    "ReduceMin": _reduced(lambda extents: reduce(least, extents)),
    "ReduceProd": _reduced(product),
    "ReduceSum": _reduced(lambda extents: simplify(sum(extents))),
    "Sub": _elementwise(lambda left, right: simplify(left - right)),
    "Where": _where,
}
