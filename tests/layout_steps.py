"""What a random graph may add: a step takes a value, and gives an expression or None where it does not fit.

Shapes are those of the smallest input, so that a step is valid for larger ones too; a step that needs a
symbolic extent as a number does not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

op = relax.op
CHANNELS = (1, 2, 3, 4, 6, 8, 12, 16)
EXTENTS = (3, 5, 7, 8)
SPATIAL = {3: "W", 4: "HW", 5: "DHW"}
LARGEST = 20_000
"""Elements of a value that steps still go on from."""


class Graph:
    """A function under construction; every choice comes from one generator."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = relax.BlockBuilder()
        rank = self.of((4,) * 8 + (3, 5))
        extents = [self.of((1, 1, 2, 3)), self.of(CHANNELS), *[self.of(EXTENTS) for _ in range(rank - 2)]]
        self.is_symbolic = rank == 4 and self.rng.random() < 0.15
        self.sizes: dict[Any, tuple[int, int]] = {}
        if self.is_symbolic:
            for axis in (0, 2, 3):
                if self.rng.random() < 0.6:
                    name = tvm.tirx.Var("nchw"[axis], "int64")
                    self.sizes[name] = (extents[axis], extents[axis] + self.of((1, 2, 5)))
                    extents[axis] = name
        self.inputs = [relax.Var("x", relax.TensorType(extents, "float32"))]
        self.values: list[Any] = list(self.inputs)

    def of(self, choices: Any) -> Any:
        """One of several."""
        return choices[int(self.rng.integers(len(choices)))]

    def constant(self, *shape: int, dtype: str = "float32") -> Any:
        """Values around one, so that nothing overflows or loses its sign by rounding."""
        return relax.const(self.rng.uniform(0.5, 1.5, shape).astype(dtype), dtype)

    def shape(self, value: Any) -> tuple[int, ...]:
        """The extents for the smallest input."""
        return concrete(value.ty.shape.values, {name: sizes[0] for name, sizes in self.sizes.items()})

    def is_known(self, value: Any, axis: int) -> bool:
        return isinstance(value.ty.shape.values[axis], (int, tvm.tirx.IntImm))

    def all_known(self, value: Any) -> bool:
        return all(self.is_known(value, axis) for axis in range(len(value.ty.shape.values)))

    def emit(self, expression: Any) -> None:
        """Bind an expression; every tensor of it becomes a value to go on from."""
        variable = self.builder.emit(expression)
        if isinstance(variable.ty, relax.TupleType):
            parts = range(len(variable.ty.fields))
            self.values += [self.builder.emit(relax.TupleGetItem(variable, part)) for part in parts]
        else:
            self.values.append(variable)

    def value(self, rank: int | tuple[int, ...] | None = None) -> Any:
        """A recent value of a rank, None if there is none."""
        ranks = (rank,) if isinstance(rank, int) else rank
        fitting = [
            value
            for value in self.values[-6:]
            if str(value.ty.dtype) == "float32" and (ranks is None or len(value.ty.shape.values) in ranks)
        ]
        fitting = [value for value in fitting if int(np.prod(self.shape(value))) < LARGEST]
        return self.of(fitting) if fitting else None


def concrete(extents: Any, sizes: dict[Any, int]) -> tuple[int, ...]:
    """Extents with numbers for their symbols."""
    analyzer = tvm.sym.Analyzer()
    for name, size in sizes.items():
        analyzer.bind(name, tvm.tirx.IntImm("int64", size))
    return tuple(
        int(extent if isinstance(extent, (int, tvm.tirx.IntImm)) else analyzer.simplify(extent))
        for extent in extents
    )


def channels_first(graph: Graph, x: Any) -> str:
    """A layout for an image: channels first mostly, else last."""
    spatial = SPATIAL[len(graph.shape(x))]
    return str(graph.of((f"NC{spatial}", f"NC{spatial}", f"N{spatial}C")))


def convolution(graph: Graph, x: Any) -> Any:
    layout = channels_first(graph, x)
    spatial = [axis for axis in layout if axis not in "NC"]
    shape = dict(zip(layout, graph.shape(x), strict=True))
    if not graph.is_known(x, layout.index("C")):
        return None
    inputs, groups = shape["C"], graph.of((1, 1, 1, 2, shape["C"]))
    if inputs % groups or inputs > 64 or (groups > 1 and len(spatial) == 1):
        return None
    outputs = groups * graph.of((1, 2, 4, 8)) if groups > 1 else graph.of(CHANNELS)
    kernel, dilation = graph.of((1, 2, 3)), graph.of((1, 1, 2))
    strides = [graph.of((1, 1, 2)) for _ in spatial]
    reach = (kernel - 1) * dilation
    padding = [graph.of((0, 1, reach)) for _ in range(2 * len(spatial))]
    rank = len(spatial)
    if any(
        shape[axis] + padding[place] + padding[place + rank] <= reach for place, axis in enumerate(spatial)
    ):
        return None
    extents = {"O": outputs, "I": inputs // groups} | dict.fromkeys(spatial, kernel)
    window = "".join(spatial)
    kernel_layout = graph.of((f"OI{window}", f"{window}IO", f"O{window}I")) if rank == 2 else f"OI{window}"
    if rank != 2:
        # TVM lowers these with matching layouts only.
        layout = f"NC{window}"
        if graph.shape(x)[1] != inputs or not graph.is_known(x, 1):
            return None
    function = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}[rank]
    return function(
        x,
        graph.constant(*[extents[axis] for axis in kernel_layout]),
        strides=strides,
        padding=padding,
        dilation=[dilation] * rank,
        groups=groups,
        data_layout=layout,
        kernel_layout=kernel_layout,
    )


def transposed_convolution(graph: Graph, x: Any) -> Any:
    rank = len(graph.shape(x)) - 2
    inputs, kernel = graph.shape(x)[1], graph.of((1, 2, 3))
    if not graph.is_known(x, 1) or inputs > 16 or int(np.prod(graph.shape(x))) > 2000:
        return None
    strides = [graph.of((1, 2)) for _ in range(rank)]
    weight = graph.constant(inputs, graph.of((1, 2, 4, 8)), *[kernel] * rank)
    function = {1: op.nn.conv1d_transpose, 2: op.nn.conv2d_transpose, 3: op.nn.conv3d_transpose}[rank]
    padding = graph.of((0, kernel // 2))
    if min(graph.shape(x)[2:]) == 1:
        # What is cut off a single row may leave none, and TVM takes transposes of nothing for reshapes.
        padding = 0
    return function(x, weight, strides=strides, padding=[padding] * rank * 2)


def pooling(graph: Graph, x: Any) -> Any:
    layout = channels_first(graph, x)
    shape = dict(zip(layout, graph.shape(x), strict=True))
    window = graph.of((1, 2, 3))
    rank = len(layout) - 2
    if min(extent for axis, extent in shape.items() if axis not in "NC") < window:
        return None
    padding = [graph.of((0, window // 2)) for _ in range(2 * rank)]
    pools = {
        1: (op.nn.max_pool1d, op.nn.avg_pool1d),
        2: (op.nn.max_pool2d, op.nn.avg_pool2d),
        3: (op.nn.max_pool3d, op.nn.avg_pool3d),
    }
    strides, ceil = [graph.of((1, 2))] * rank, graph.of((False, True))
    return graph.of(pools[rank])(x, [window] * rank, strides, padding, ceil_mode=ceil, layout=layout)


def global_pooling(graph: Graph, x: Any) -> Any:
    layout = channels_first(graph, x)
    rank = len(layout) - 2
    pool = {1: op.nn.adaptive_avg_pool1d, 2: op.nn.adaptive_avg_pool2d, 3: op.nn.adaptive_avg_pool3d}[rank]
    return pool(x, [graph.of((1, 2)), *[1] * (rank - 1)], layout=layout)


def unary(graph: Graph, x: Any) -> Any:
    functions = (op.nn.relu, op.abs, op.sigmoid, op.tanh, op.negative, op.nn.leakyrelu, op.nn.silu, op.erf)
    return graph.of(functions)(x)


def clip(graph: Graph, x: Any) -> Any:
    return op.clip(x, 0.25, 6)


def binary(graph: Graph, x: Any) -> Any:
    """With itself, another value, or a constant that broadcasts from any rank."""
    function = graph.of((op.add, op.multiply, op.maximum, op.subtract))
    extents = str(x.ty.shape)
    others = [
        value for value in graph.values if str(value.ty.dtype) == "float32" and str(value.ty.shape) == extents
    ]
    if graph.rng.random() < 0.5:
        return function(x, graph.of(others))
    return function(*operands_of(graph, x))


def operands_of(graph: Graph, x: Any) -> list[Any]:
    """The value, and a constant that broadcasts over it, in either order."""
    shape = graph.shape(x)
    rank = graph.of(range(len(shape) + 1))
    first = len(shape) - rank
    extents = [
        graph.of((1, shape[axis])) if graph.is_known(x, axis) else 1 for axis in range(first, len(shape))
    ]
    sides = [x, graph.constant(*extents)]
    return sides if graph.rng.random() < 0.7 else sides[::-1]


def select(graph: Graph, x: Any) -> Any:
    condition = op.greater(x, relax.const(0.7))
    if graph.rng.random() < 0.5:
        return op.where(condition, x, op.negative(x))
    return op.where(graph.builder.emit(condition), *operands_of(graph, x))


def alike(graph: Graph, x: Any) -> Any:
    made = graph.of((op.ones_like, op.zeros_like, lambda x: op.full_like(x, relax.const(0.5))))(x)
    return op.add(x, graph.builder.emit(made))


def branch(graph: Graph, x: Any) -> Any:
    """A part in another type."""
    dtype = graph.of(("float16", "int8"))
    if dtype == "int8":
        x = op.clip(x, -100, 100)
    narrow = graph.builder.emit(op.astype(x, dtype))
    return op.astype(graph.of((op.nn.relu, op.negative, op.abs))(narrow), "float32")


def batch_norm(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, 1, -1, 0))
    if not graph.is_known(x, axis):
        return None
    statistics = [graph.constant(graph.shape(x)[axis]) for _ in range(4)]
    # TVM lowers no negative axis.
    axis %= len(graph.shape(x))
    norm = graph.builder.emit(op.nn.batch_norm(x, *statistics, axis=axis, training=False))
    return relax.TupleGetItem(norm, 0)


def layer_norm(graph: Graph, x: Any) -> Any:
    axes = graph.of(([-1], [1], [1, 2], [2, -1]))
    rank = len(graph.shape(x))
    if len({axis % rank for axis in axes}) < len(axes) or not all(graph.is_known(x, axis) for axis in axes):
        return None
    extents = [graph.shape(x)[axis] for axis in axes]
    if axes[-1] == -1 and (len(axes) == 1 or rank == 4) and graph.rng.random() < 0.5:
        return op.nn.rms_norm(x, graph.constant(*extents), axes=axes)
    return op.nn.layer_norm(x, graph.constant(*extents), graph.constant(*extents), axes=axes)


def channel_norm(graph: Graph, x: Any) -> Any:
    if not graph.is_known(x, 1):
        return None
    channels, axes = graph.shape(x)[1], list(range(2, len(graph.shape(x))))
    parameters = graph.constant(channels), graph.constant(channels)
    if graph.rng.random() < 0.5:
        return op.nn.instance_norm(x, *parameters, channel_axis=1, axes=axes)
    groups = graph.of(
        [count for count in (1, 2, 4, channels // 2, channels) if count and channels % count == 0]
    )
    return op.nn.group_norm(x, *parameters, num_groups=groups, channel_axis=1, axes=axes)


def prelu(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, 1, 3))
    if not graph.is_known(x, axis):
        return None
    return op.nn.prelu(x, graph.constant(graph.shape(x)[axis]), axis)


def pad(graph: Graph, x: Any) -> Any:
    shape = graph.shape(x)
    mode = graph.of(("constant", "constant", "reflect", "replicate", "circular"))
    widths = [0, 0, graph.of((0, 0, 0, 0, 1, 4)) if mode == "constant" else 0, graph.of((0, 0, 0, 4))]
    if mode != "constant":
        widths[3] = 0
    widths += [graph.of((0, 0, 1, 2)) for _ in range(2 * len(shape) - 4)]
    if any(width >= shape[place // 2] for place, width in enumerate(widths) if mode != "constant"):
        return None
    return op.nn.pad(x, widths, mode, 0.5)


def softmax(graph: Graph, x: Any) -> Any:
    return graph.of((op.nn.softmax, op.nn.log_softmax))(x, axis=graph.of((1, -1, 2)))


def reduction(graph: Graph, x: Any) -> Any:
    rank = len(graph.shape(x))
    if not rank:
        return None
    axes = sorted({int(graph.rng.integers(rank)) - graph.of((0, rank)) for _ in range(graph.of((1, 2)))})
    if len({axis % rank for axis in axes}) != len(axes):
        return None
    function = graph.of((op.sum, op.mean, op.max, op.min, op.variance))
    return function(x, axes, keepdims=graph.of((True, False)))


def extreme(graph: Graph, x: Any) -> Any:
    """Of floats, or of integers and truth values of which whole rows are the least of their type."""
    dtype = graph.of(("float32", "float32", "uint8", "bool"))
    if dtype == "uint8":
        x = graph.builder.emit(op.astype(graph.builder.emit(op.clip(x, 0, 2)), dtype))
    elif dtype == "bool":
        x = graph.builder.emit(op.greater(x, relax.const(0.7)))
    function = graph.of((op.argmax, op.argmin))
    found = graph.builder.emit(function(x, graph.of((0, 1, -1)), keepdims=graph.of((True, False))))
    return op.astype(found, "float32")


def median(graph: Graph, x: Any) -> Any:
    if not graph.all_known(x):
        return None
    found = graph.builder.emit(op.median(x, [graph.of((1, -1))], keepdims=graph.of((True, False))))
    return relax.TupleGetItem(found, 0)


def cumulative(graph: Graph, x: Any) -> Any:
    return op.cumsum(x, graph.of((1, 2, -1)))


def topk(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, -1))
    if not graph.all_known(x):
        return None
    return op.topk(x, min(2, graph.shape(x)[axis]), axis, ret_type="values")
