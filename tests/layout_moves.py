"""Steps of random graphs that move elements: parts, copies, other shapes, and elements by index."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

from tests.layout_steps import Graph

op = relax.op


def integers(values: Any) -> Any:
    return relax.const(np.asarray(values, "int64"), "int64")


def concat(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, 1, 2, -1))
    if not graph.all_known(x):
        return op.concat([x, op.abs(x)], axis)
    shape = list(graph.shape(x))
    shape[axis] = graph.of((0, 1, 2, 4, shape[axis]))
    return op.concat([x, graph.constant(*shape), x], axis)


def split(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, 1, 2))
    extent = graph.shape(x)[axis]
    if extent < 2 or not graph.is_known(x, axis):
        return None
    sections = graph.of(([extent // 2], [1], 2 if extent % 2 == 0 else 1))
    return op.split(x, sections, axis)


def sliced(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, 1, 2, 3))
    extent = graph.shape(x)[axis]
    begin, end = graph.of((0, 0, extent // 2, -1)), graph.of((extent, extent, extent + 9))
    if not graph.is_known(x, axis):
        begin, end = 0, extent
    return op.strided_slice(x, [axis], [begin], [end], [graph.of((1, 1, 2))])


def stack(graph: Graph, x: Any) -> Any:
    axis = graph.of((0, 1, 4))
    stacked = graph.builder.emit(op.stack([x, op.abs(x)], axis))
    return op.squeeze(op.max(stacked, [axis], keepdims=True), [axis])


def expand(graph: Graph, x: Any) -> Any:
    axis = graph.of(([0], [1], [-1], [2]))
    if axis[0] > len(graph.shape(x)):
        return None
    expanded = graph.builder.emit(op.expand_dims(x, axis))
    return op.squeeze(op.nn.relu(expanded), axis)


def reshape(graph: Graph, x: Any) -> Any:
    n, c, h, w = x.ty.shape.values
    shapes: list[Any] = [(n, c, h * w), (n * c, h, w), (n, c * h * w), (n, 1, c, h, w)]
    if graph.is_known(x, 1) and int(c) % 2 == 0:
        shapes += [(n, 2, int(c) // 2, h, w), (n, int(c) // 2, 2, h, w)]
    if graph.shape(x)[0] == 1 and graph.is_known(x, 0):
        shapes.append((c, h, w))
    middle = graph.builder.emit(op.reshape(x, graph.of(shapes)))
    return op.reshape(op.abs(middle), (n, c, h, w))


def shuffle(graph: Graph, x: Any) -> Any:
    """Channels of two groups interleaved, or channels that become pixels, as two frameworks write it."""
    n, c, h, w = x.ty.shape.values
    kind = graph.of(("groups", "depth first", "columns first"))
    if not graph.is_known(x, 1) or int(c) % (2 if kind == "groups" else 4):
        return None
    if kind == "groups":
        split = graph.builder.emit(op.reshape(x, (n, 2, int(c) // 2, h, w)))
        return op.reshape(op.permute_dims(split, [0, 2, 1, 3, 4]), (n, c, h, w))
    depth = int(c) // 4
    shape, order = (n, 2, 2, depth, h, w), [0, 3, 4, 1, 5, 2]
    if kind == "columns first":
        shape, order = (n, depth, 2, 2, h, w), [0, 1, 4, 2, 5, 3]
    split = graph.builder.emit(op.reshape(x, shape))
    return op.reshape(op.permute_dims(split, order), (n, depth, h * 2, w * 2))


def transpose(graph: Graph, x: Any) -> Any:
    return op.permute_dims(x, graph.of(([0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2], [1, 0, 2, 3])))


def repeated(graph: Graph, x: Any) -> Any:
    kind, axis = graph.of(("tile", "tiled more", "repeat", "flip", "reverse")), graph.of((1, 2, 3))
    if kind == "tile":
        return op.tile(x, [1 + (place == axis) for place in range(4)])
    if kind == "tiled more":
        return op.squeeze(op.tile(x, [1, 1, 1 + (axis == 1), 1, 1 + (axis == 3)]), [0])
    if kind == "repeat":
        return op.repeat(x, 2, axis)
    if kind == "flip":
        return op.flip(x, axis)
    if not graph.all_known(x):
        return None
    lengths = graph.rng.integers(1, graph.shape(x)[axis] + 1, graph.shape(x)[0])
    return op.reverse_sequence(x, integers(lengths), axis, 0)


def taken(graph: Graph, x: Any) -> Any:
    """One, several or a matrix of positions along an axis."""
    axis = graph.of((1, 1, 2, 3))
    last = graph.shape(x)[axis] - 1
    kind = graph.of(("scalar", "vector", "matrix"))
    if kind == "scalar":
        return op.take(x, integers(last), axis)
    if kind == "vector":
        return op.take(x, integers([0, last, 0]), axis)
    return op.max(op.take(x, integers([[0, last], [last, last]]), axis), [axis])


def indexed(graph: Graph, x: Any) -> Any:
    """gather_nd and scatter_nd over leading dimensions."""
    if not graph.all_known(x):
        return None
    shape = graph.shape(x)
    if graph.rng.random() < 0.5:
        return op.gather_nd(x, integers([[[0, shape[1] - 1], [shape[0] - 1, 0]]]))
    if graph.rng.random() < 0.5:
        return op.scatter_nd(x, integers([[shape[0] - 1]]), graph.constant(1, *shape[1:]))
    return op.scatter_nd(x, integers([[0, shape[1] - 1]]), graph.constant(1, *shape[2:]))


def gathered(graph: Graph, x: Any) -> Any:
    if not graph.all_known(x):
        return None
    shape = graph.shape(x)
    axis = graph.of((1, 3))
    kind = graph.of(("gather", "scatter", "slice"))
    if kind == "gather":
        return op.gather_elements(x, integers(graph.rng.integers(0, shape[axis], shape)), axis)
    if kind == "scatter":
        return op.scatter_elements(x, op.argsort(x, axis, dtype="int64"), op.abs(x), axis)
    part = [extent if place != axis else 1 for place, extent in enumerate(shape)]
    return op.slice_scatter(x, graph.constant(*part), 0, 1, 1, axis)


def resize(graph: Graph, x: Any) -> Any:
    method = graph.of(("linear", "nearest_neighbor", "cubic"))
    size, layout = (graph.of((2, 4, 6)), graph.of((3, 5))), graph.of(("NCHW", "NHWC"))
    return op.image.resize2d(x, size, layout=layout, method=method)


def regions(graph: Graph, x: Any) -> Any:
    boxes = relax.const(np.array([[0, 0, 0, 3, 3], [0, 1, 0, 5, 2], [0, 0, 1, 2, 2]], "float32"))
    return op.vision.roi_align(x, boxes, (2, 2), 1.0, 2, layout=graph.of(("NCHW", "NHWC")))


def quantized(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, -1))
    if graph.rng.random() < 0.5 or not graph.is_known(x, axis):
        scale, zero = relax.const(0.1), relax.const(3, "int8")
    else:
        extent = graph.shape(x)[axis]
        scale, zero = graph.constant(extent), relax.const(np.arange(extent, dtype="int8"), "int8")
    narrow = graph.builder.emit(op.quantize(x, scale, zero, axis))
    if graph.rng.random() < 0.5:
        narrow = graph.builder.emit(op.nn.relu(narrow))
    return op.dequantize(narrow, scale, zero, axis)


def matrix(graph: Graph, x: Any) -> Any:
    """A linear layer over the last dimension, or over channels as in a transformer's head."""
    n, c, h, w = x.ty.shape.values
    kind = graph.of(("last", "head", "batch"))
    if kind == "last":
        return op.matmul(x, graph.constant(int(w), graph.of((1, 3, 4)))) if graph.is_known(x, 3) else None
    if kind == "batch":
        return op.matmul(x, op.permute_dims(x, [0, 1, 3, 2]))
    if not graph.is_known(x, 1):
        return None
    tokens = op.permute_dims(op.reshape(x, (n, c, h * w)), [0, 2, 1])
    mixed = op.matmul(graph.builder.emit(tokens), graph.constant(int(c), 4))
    return op.reshape(op.permute_dims(graph.builder.emit(mixed), [0, 2, 1]), (n, 4, h, w))


def contracted(graph: Graph, x: Any) -> Any:
    if not graph.all_known(x):
        return None
    return op.einsum([x, graph.constant(graph.shape(x)[1], 4)], "nchw,ck->nkhw")


def encoded(graph: Graph, x: Any) -> Any:
    places = graph.builder.emit(op.argmax(x, 1))
    if not graph.is_known(x, 1):
        return None
    return op.one_hot(places, 1.0, 0.0, graph.shape(x)[1], graph.of((1, -1)))


def broadcast(graph: Graph, x: Any) -> Any:
    extents = x.ty.shape.values
    mean = graph.builder.emit(op.mean(x, graph.of(([1], [2, 3])), keepdims=True))
    return op.broadcast_to(mean, list(extents))


def checked(graph: Graph, x: Any) -> Any:
    """A binding that checks extents, after they were lost in a slice with bounds in tensors, or renamed."""
    extents = list(x.ty.shape.values)
    if not all(isinstance(extent, tvm.tirx.IntImm | tvm.tirx.Var) for extent in extents):
        # Compiling a check of a computed extent ends the process.
        return None
    kind = graph.of(("plain", "lost", "renamed"))
    if kind == "renamed":
        names = [tvm.tirx.Var(f"extent_{len(graph.values)}_{axis}", "int64") for axis in range(len(extents))]
        renamed = graph.builder.match_cast(x, relax.TensorType(names, "float32"))
        x = graph.builder.emit(op.abs(renamed))
    if kind == "lost" and graph.all_known(x):
        rank = len(extents)
        ends = graph.shape(x)
        bounds = [integers([0] * rank), integers(ends), integers([1] * rank)]
        x = graph.builder.emit(op.dynamic_strided_slice(x, *bounds))
    return op.nn.relu(graph.builder.match_cast(x, relax.TensorType(extents, "float32")))
