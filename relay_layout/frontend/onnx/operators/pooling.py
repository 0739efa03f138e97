"""ONNX pooling operators."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import product, simplify
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.padding import windowed
from relay_layout.frontend.onnx.operators.windows import given_window, window
from relay_layout.frontend.operators.maxima import places_of_maxima
from relay_layout.frontend.operators.scattering import scattered
from relay_layout.frontend.operators.sliding_windows import Window
from relay_layout.frontend.values import Unsupported, Value, dtype_of, shape_of, written
from relay_layout.ir import Extent, is_static, scalar

_MAX_POOLS = {1: relax.op.nn.max_pool1d, 2: relax.op.nn.max_pool2d, 3: relax.op.nn.max_pool3d}
_AVERAGE_POOLS = {1: relax.op.nn.avg_pool1d, 2: relax.op.nn.avg_pool2d, 3: relax.op.nn.avg_pool3d}
_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _max_pool(node: Node) -> Value:
    pooled = _pool(node, node.tensor(0), _MAX_POOLS, {}, outside=_least_number(dtype_of(node.input(0))))
    if len(node.outputs) < 2 or not node.outputs[1]:
        return pooled
    if node.attributes.get("storage_order", 0):
        raise Unsupported(
            "counts its output Indices along columns, which is not supported: export it with storage_order=0"
        )
    data, found = node.tensor(0), node.emit(pooled, "pooled")
    shape, counts = shape_of(data), shape_of(found)[2:]
    if not dtype_of(data).startswith("float"):
        raise Unsupported(
            f"has its output Indices in use for {dtype_of(data)}: cast its data to float32 before"
        )
    sliding = window(node, node.attributes["kernel_shape"], shape[2:], rounds_up=_rounds_up(node))
    before, after = (tuple(map(simplify, side)) for side in (sliding.before, sliding.after))
    if not is_static((*before, *after)):
        raise Unsupported(
            "counts its output Indices with the padding of auto_pad for the symbolic shape "
            f"{written(shape)}: "
            "export it with pads, or give the model's inputs fixed shapes (--input-shape)"
        )
    places = places_of_maxima(
        node.emit,
        data,
        replace(sliding, before=before, after=after),
        counts,
    )
    return [found, relax.op.add(places, node.emit(_starts(node, shape), "starts"))]


def _starts(node: Node, shape: Sequence[Extent]) -> Any:
    """Where in a tensor each of its images begins, [N,C,1,1]."""
    images, size, spread = product(shape[:2]), product(shape[2:]), [*shape[:2], *[1] * (len(shape) - 2)]
    if isinstance(images, int) and isinstance(size, int):
        return node.expression((np.arange(images) * size).reshape([int(extent) for extent in spread]))
    numbers = node.emit(relax.op.arange(0, node.plain(images), 1, "int64"), "images")
    places = node.emit(relax.op.multiply(numbers, scalar(node.emit, node.plain(size))), "places")
    return node.reshaped(places, spread)


def _average_pool(node: Node) -> Value:
    include = bool(node.attributes.get("count_include_pad", 0))
    data = node.tensor(0)
    shape = shape_of(data)
    if include or node.attributes.get("auto_pad", "NOTSET") == "NOTSET" or is_static(shape[2:]):
        return _pool(node, data, _AVERAGE_POOLS, {"count_include_pad": include}, outside=0)
    # What padding there is depends on the image: the share of a window that is inside tells how many count.
    inside = relax.op.full(relax.ShapeExpr([1, 1, *shape[2:]]), node.like(1, data), dtype_of(data))
    means, shares = (
        node.emit(_pool(node, tensor, _AVERAGE_POOLS, {"count_include_pad": True}, outside=0), "means")
        for tensor in (data, node.emit(inside, "inside"))
    )
    return relax.op.divide(means, shares)


def _power_pool(node: Node) -> Value:
    power = float(node.attributes.get("p", 2))
    data = node.tensor(0)
    powers = node.emit(_power_of(node, relax.op.abs(data), power), "powers")
    powers, operator, sliding = _sliding(node, _AVERAGE_POOLS, powers, outside=0)
    if _rounds_up(node):
        sliding = sliding.reaching_up()
    arguments = _arguments(node, sliding) | {"ceil_mode": False}
    mean = operator(powers, **arguments, count_include_pad=True)
    total = relax.op.multiply(mean, node.like(math.prod(sliding.kernel), data))
    return _power_of(node, node.emit(total, "total"), 1 / power)


def _pool(
    node: Node,
    data: Any,
    operators: dict[int, Callable[..., Any]],
    options: dict[str, Any],
    outside: float,
) -> Value:
    """A pooling; ``outside`` is what padding holds that is apart from it."""
    data, operator, sliding = _sliding(node, operators, data, outside)
    arguments = _arguments(node, sliding)
    if _rounds_up(node) and not is_static(shape_of(data)[2:]):
        # How many windows there are would be a choice, and TVM works out no shapes from choices.
        data, sliding, options = _rounded_up(node, data, sliding, options)
        arguments |= {"padding": sliding.padding, "ceil_mode": False}
    return operator(data, **arguments, **options)


def _rounded_up(
    node: Node, data: Any, sliding: Window, options: dict[str, Any]
) -> tuple[Any, Window, dict[str, Any]]:
    """What to pool, the window and the options with which rounding down gives what rounding up is to give.

    Padding counts in averages, if it is to count at all, but not what windows reach beyond it.
    """
    wider = sliding.reaching_up()
    if not options.get("count_include_pad"):
        return data, wider, options
    after = tuple(map(min, sliding.after, wider.after))
    widths = [side for pair in zip(sliding.before, after, strict=True) for side in pair]
    padded = node.emit(relax.op.nn.pad(data, [0, 0, 0, 0, *widths]), "padded")
    beyond = tuple(end - own for end, own in zip(wider.after, after, strict=True))
    window = replace(wider, before=(0,) * len(beyond), after=beyond)
    return padded, window, {"count_include_pad": False}


def _sliding(
    node: Node, operators: dict[int, Callable[..., Any]], data: Any, outside: float
) -> tuple[Any, Callable[..., Any], Window]:
    """What to pool, with which operator, and the window."""
    shape = shape_of(data)
    if len(shape) - 2 not in operators:
        raise Unsupported(f"pools {written(shape)}, which has no 1 to 3 spatial dimensions")
    for extent in shape[2:]:
        # Of no pixels there is no mean, nor anything that is the largest.
        node.requirements.more(extent, 0)
    rounds_up = _rounds_up(node)
    data, sliding = windowed(node, data, node.attributes["kernel_shape"], outside, rounds_up=rounds_up)
    return data, operators[len(shape) - 2], sliding


def _least_number(dtype: str) -> float:
    return -math.inf if "float" in dtype else int(np.iinfo(dtype).min)


def _arguments(node: Node, sliding: Window) -> dict[str, Any]:
    return {
        "pool_size": list(sliding.kernel),
        "strides": list(sliding.strides),
        "padding": sliding.padding,
        "dilation": list(sliding.dilation),
        "ceil_mode": _rounds_up(node),
        "layout": _LAYOUTS[len(sliding.kernel)],
    }


def _rounds_up(node: Node) -> bool:
    # Padding worked out from auto_pad leaves nothing to round.
    return bool(node.attributes.get("ceil_mode", 0)) and node.attributes.get("auto_pad", "NOTSET") == "NOTSET"


def _power_of(node: Node, data: Any, power: float) -> Any:
    if power == 1.0:
        return data
    if power == 2.0:
        return relax.op.multiply(data, data)
    if power == 0.5:
        return relax.op.sqrt(data)
    return relax.op.power(data, node.like(power, node.input(0)))


def _max_unpool(node: Node) -> Value:
    """Zeros but for the data, at places that count through the whole result."""
    data, kernel = node.tensor(0), node.attributes["kernel_shape"]
    shape = shape_of(data)
    sliding = given_window(node, kernel, len(shape) - 2)
    sides = zip(shape[2:], sliding.strides, kernel, sliding.before, sliding.after, strict=True)
    inner = [
        simplify(stride * (extent - 1) + reach - before - after)
        for extent, stride, reach, before, after in sides
    ]
    goal = [*shape[:2], *inner]
    given = node.extents(2) if node.has(2) else goal
    if len(given) != len(goal) or not all(map(node.requirements.assume_equal, given, goal)):
        raise Unsupported(
            f"has output_shape {written(given)} where its windows make {written(goal)}, for which ONNX and "
            "ONNX Runtime count places differently: leave output_shape out, and pad what it gives"
        )
    # As scatters have it: a view of a view would be copied.
    zeros = node.emit(relax.op.zeros(relax.ShapeExpr([1, product(goal), 1]), dtype_of(data)), "zeros")
    index, source = (
        node.emit(node.expression(node.reshaped(node.input(place), [1, product(shape), 1])), "flat")
        for place in (1, 0)
    )
    flat = node.emit(scattered(node.emit, zeros, index, source, 1, "update"), "scattered")
    return node.reshaped(flat, goal)


def _spatial_axes(node: Node) -> list[int]:
    rank = len(shape_of(node.input(0)))
    if rank < 3:
        raise Unsupported(f"pools a tensor of {rank} dimensions")
    return list(range(2, rank))


def _global_average_pool(node: Node) -> Value:
    return relax.op.mean(node.tensor(0), axis=_spatial_axes(node), keepdims=True)


def _global_max_pool(node: Node) -> Value:
    return relax.op.max(node.tensor(0), axis=_spatial_axes(node), keepdims=True)


def _global_power_pool(node: Node) -> Value:
    power = float(node.attributes.get("p", 2))
    powers = node.emit(_power_of(node, relax.op.abs(node.tensor(0)), power), "powers")
    return _power_of(node, relax.op.sum(powers, axis=_spatial_axes(node), keepdims=True), 1 / power)


CONVERTERS: dict[str, Converter] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average_pool,
    "GlobalLpPool": _global_power_pool,
    "GlobalMaxPool": _global_max_pool,
    "LpPool": _power_pool,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
}
