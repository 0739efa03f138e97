"""Poolings as calls of our computes: windows of one, two and three dimensions.

Those of signals and volumes are made of those of images, between which lie views alone: a signal is an image
of one row, and a window of a volume is one of its planes and then one of as many planes.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import relax, te, topi

from relay_layout.ir import Expression, as_extent, dtype_of, ints, operator_name, shape_of
from relay_layout.lower.legalize.convolutions import call_compute
from relay_layout.lower.legalize.default import default_call
from topi_ext import compute
from topi_ext.compute.pooling import Pooling
from topi_ext.indexing import physical_axes

PLAIN = {"NCW": 1, "NCDHW": 3}
"""Layouts of signals and of volumes that are read as images, by their dimensions in space."""


def pooling_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """The largest elements of windows, or their means, of images in any layout."""
    attributes = call.attrs
    pooling = Pooling(
        ints(attributes.pool_size),
        ints(attributes.strides),
        ints(attributes.padding),
        ints(attributes.dilation),
        str(attributes.layout),
    )
    return _pooled(builder, call, call.args[0], pooling, shape_of(call) or ())


def plain_pooling_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """The same of signals and volumes, in layouts without blocks; others are TVM's.

    Means of whole numbers round towards zero, and so must be divided once.
    """
    data, attributes, goal = call.args[0], call.attrs, shape_of(call)
    shape, rank = shape_of(data), PLAIN.get(str(attributes.layout))
    is_mean = "avg" in operator_name(call)
    if rank is None or shape is None or goal is None or (is_mean and "float" not in dtype_of(data)):
        return default_call(builder, call)
    kernel, strides, dilation = map(ints, (attributes.pool_size, attributes.strides, attributes.dilation))
    before, after = np.reshape(ints(attributes.padding), (2, rank)).tolist()

    def along(first: int, last: int) -> Pooling:
        """The pooling along two dimensions in space; -1 stands for one of one element."""
        places = first, last
        return Pooling(
            [1 if place < 0 else kernel[place] for place in places],
            [1 if place < 0 else strides[place] for place in places],
            [0 if place < 0 else sides[place] for sides in (before, after) for place in places],
            [1 if place < 0 else dilation[place] for place in places],
        )

    def image(tensor: Expression, *extents: Any) -> Expression:
        return builder.emit(builder.normalize(relax.op.reshape(tensor, relax.ShapeExpr(list(extents)))))

    batch, channels, *outer = shape
    if rank == 1:
        line = image(data, batch, channels, 1, *outer)
        found = _pooled(builder, call, line, along(-1, 0), [*goal[:2], 1, goal[2]])
    else:
        depth, height, width = outer
        rows, columns = goal[3:]
        planes = image(data, batch, channels * depth, height, width)
        pooled = _pooled(builder, call, planes, along(1, 2), [batch, channels * depth, rows, columns])
        across = image(builder.emit(pooled), batch, channels, depth, rows * columns)
        found = _pooled(builder, call, across, along(0, -1), [*goal[:3], rows * columns])
    return relax.op.reshape(builder.emit(found), relax.ShapeExpr(list(goal)))


def _pooled(
    builder: relax.BlockBuilder, call: relax.Call, data: Expression, pooling: Pooling, goal: Sequence[Any]
) -> Expression:
    """The maxima or means that ``call`` asks for, of windows of ``data``, in the shape ``goal``."""
    name = "max_pool2d" if "max" in operator_name(call) else "avg_pool2d"
    options = {} if name == "max_pool2d" else {"count_include_pad": bool(call.attrs.count_include_pad)}

    def pooled(tensor: te.Tensor, extents: Sequence[Any]) -> te.Tensor:
        return getattr(compute, name)(tensor, pooling, [as_extent(extent) for extent in extents], **options)

    # The shape is an argument, so that it is written in the extents of the tensor that the function takes.
    return call_compute(builder, pooled, name, data, relax.ShapeExpr(list(goal)))


def adaptive_pooling_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Down to one pixel it is a mean over rows and columns; otherwise TVM's own compute."""
    layout = str(call.attrs.layout)
    size = call.attrs.output_size
    data = call.args[0]
    shape = shape_of(data)
    axes = [
        place for place, (name, factor) in enumerate(physical_axes(layout)) if name in "HW" and not factor
    ]
    if size is None or ints(size) != [1, 1] or shape is None:
        return default_call(builder, call)

    def mean(tensor: te.Tensor) -> te.Tensor:
        # Of the tensor itself: symbols of the graph have no value inside the function.
        pixels = prod(as_extent(tensor.shape[axis]) for axis in axes)
        total = topi.sum(tensor, axis=axes, keepdims=True)
        if isinstance(pixels, int):
            return te.compute(
                total.shape, lambda *index: total(*index) * np.array(1.0 / pixels, str(tensor.dtype)).item()
            )
        return te.compute(total.shape, lambda *index: total(*index) / pixels.astype(tensor.dtype))

    return builder.call_te(mean, data, primfunc_name_hint="global_avg_pool2d")
