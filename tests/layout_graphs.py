"""Random graphs of operators that take part in layouts, and their conversion against themselves.

`check(seed, steps, layout)` is the reproducer that failures print. A graph of fewer steps is the beginning of
the one with more, so the smallest number of steps that fails is found by counting up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.lower.legalize import legalization_map
from relay_layout.targets import resolve_target
from relay_layout.transform import LayoutRequest, convert_layout

op = relax.op
LAYOUTS = ("auto", "NHWC", "NCHW", "NCHW4c", "NCHW8c", "HWNC", "none")
CHANNELS = (1, 2, 3, 4, 6, 8, 12, 16)
EXTENTS = (1, 2, 3, 5, 7, 8)


class Graph:
    """A function under construction; every choice comes from one generator."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = relax.BlockBuilder()
        shape = (self.of((1, 1, 2, 3)), self.of(CHANNELS), self.of(EXTENTS[2:]), self.of(EXTENTS[2:]))
        self.inputs = [relax.Var("x", relax.TensorType(shape, "float32"))]
        self.values: list[Any] = list(self.inputs)

    def of(self, choices: Any) -> Any:
        """One of several."""
        return choices[int(self.rng.integers(len(choices)))]

    def constant(self, *shape: int, dtype: str = "float32") -> Any:
        """Values around one, so that nothing overflows or loses its sign by rounding."""
        return relax.const(self.rng.uniform(0.5, 1.5, shape).astype(dtype))

    def emit(self, expression: Any) -> None:
        """Bind an expression; every tensor of it becomes a value to go on from."""
        variable = self.builder.emit(expression)
        if isinstance(variable.ty, relax.TupleType):
            parts = range(len(variable.ty.fields))
            self.values += [self.builder.emit(relax.TupleGetItem(variable, part)) for part in parts]
        else:
            self.values.append(variable)

    def value(self, rank: int | None = None, dtype: str = "float32") -> Any:
        """A recent value of a rank, None if there is none."""
        fitting = [
            value for value in self.values[-6:] if dtype_of(value) == dtype and value.ty.shape is not None
        ]
        fitting = [
            value for value in fitting if rank in (None, len(shape_of(value))) and size(value) < 20_000
        ]
        return self.of(fitting) if fitting else None


def shape_of(value: Any) -> tuple[int, ...]:
    return tuple(int(extent) for extent in value.ty.shape.values)


def dtype_of(value: Any) -> str:
    return str(value.ty.dtype)


def size(value: Any) -> int:
    return int(np.prod(shape_of(value)))


def convolution(graph: Graph, x: Any) -> Any:
    layout = graph.of(("NCHW", "NCHW", "NHWC"))
    shape = dict(zip(layout, shape_of(x), strict=True))
    inputs, groups = shape["C"], graph.of((1, 1, 1, 2, shape["C"]))
    if inputs % groups or inputs > 64:
        return None
    outputs = groups * graph.of((1, 2, 4, 8)) if groups > 1 else graph.of(CHANNELS)
    kernel, strides, dilation = graph.of((1, 2, 3)), graph.of(((1, 1), (2, 1), (2, 2))), graph.of((1, 1, 2))
    reach = (kernel - 1) * dilation
    padding = [graph.of((0, 1, reach)) for _ in range(4)]
    if any(shape[axis] + padding[place] + padding[place + 2] <= reach for place, axis in enumerate("HW")):
        return None
    extents = {"O": outputs, "I": inputs // groups, "H": kernel, "W": kernel}
    kernel_layout = graph.of(("OIHW", "HWIO", "OHWI"))
    return op.nn.conv2d(
        x,
        graph.constant(*[extents[axis] for axis in kernel_layout]),
        strides=strides,
        padding=padding,
        dilation=dilation,
        groups=groups,
        data_layout=layout,
        kernel_layout=kernel_layout,
    )


def pooling(graph: Graph, x: Any) -> Any:
    layout = graph.of(("NCHW", "NCHW", "NHWC"))
    shape = dict(zip(layout, shape_of(x), strict=True))
    window = graph.of((1, 2, 3))
    if min(shape["H"], shape["W"]) < window:
        return None
    padding = [graph.of((0, window // 2)) for _ in range(4)]
    pool = graph.of((op.nn.max_pool2d, op.nn.avg_pool2d))
    return pool(
        x,
        (window, window),
        graph.of(((1, 1), (2, 2))),
        padding,
        ceil_mode=graph.of((False, True)),
        layout=layout,
    )


def global_pooling(graph: Graph, x: Any) -> Any:
    return op.nn.adaptive_avg_pool2d(x, graph.of(((1, 1), (2, 1))), layout=graph.of(("NCHW", "NHWC")))


def unary(graph: Graph, x: Any) -> Any:
    return graph.of((op.nn.relu, op.abs, op.sigmoid, op.tanh, op.negative, op.nn.leakyrelu))(x)


def clip(graph: Graph, x: Any) -> Any:
    return op.clip(x, 0.25, 6)


def binary(graph: Graph, x: Any) -> Any:
    """With itself, another value, or a constant that broadcasts from any rank."""
    function = graph.of((op.add, op.multiply, op.maximum, op.subtract))
    shape = shape_of(x)
    others = [value for value in graph.values if dtype_of(value) == "float32" and shape_of(value) == shape]
    if graph.rng.random() < 0.5:
        return function(x, graph.of(others))
    rank = graph.of(range(len(shape) + 1))
    extents = [graph.of((1, extent)) for extent in shape[len(shape) - rank :]]
    sides = [x, graph.constant(*extents)]
    return function(*(sides if graph.rng.random() < 0.7 else reversed(sides)))


def select(graph: Graph, x: Any) -> Any:
    return op.where(op.greater(x, relax.const(0.7)), x, op.negative(x))


def batch_norm(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, 1, -1, 0))
    statistics = [graph.constant(shape_of(x)[axis]) for _ in range(4)]
    norm = graph.builder.emit(op.nn.batch_norm(x, *statistics, axis=axis, training=False))
    return relax.TupleGetItem(norm, 0)


def layer_norm(graph: Graph, x: Any) -> Any:
    axes = graph.of(([-1], [1], [1, 2], [2, -1]))
    extents = [shape_of(x)[axis] for axis in axes]
    if axes[-1] == -1 and graph.rng.random() < 0.5:
        return op.nn.rms_norm(x, graph.constant(*extents), axes=axes)
    return op.nn.layer_norm(x, graph.constant(*extents), graph.constant(*extents), axes=axes)


def channel_norm(graph: Graph, x: Any) -> Any:
    channels = shape_of(x)[1]
    parameters = graph.constant(channels), graph.constant(channels)
    if graph.rng.random() < 0.5:
        return op.nn.instance_norm(x, *parameters, channel_axis=1, axes=[2, 3])
    groups = graph.of([count for count in (1, 2, channels) if channels % count == 0])
    return op.nn.group_norm(x, *parameters, num_groups=groups, channel_axis=1, axes=[2, 3])


def prelu(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, 1, 3))
    return op.nn.prelu(x, graph.constant(shape_of(x)[axis]), axis)


def pad(graph: Graph, x: Any) -> Any:
    widths = [
        graph.of((0, 0, 0, 1, 2)) if place >= 4 or graph.rng.random() < 0.1 else 0 for place in range(8)
    ]
    return op.nn.pad(x, widths, "constant", 0.5)


def softmax(graph: Graph, x: Any) -> Any:
    return graph.of((op.nn.softmax, op.nn.log_softmax))(x, axis=graph.of((1, -1, 2)))


def reduction(graph: Graph, x: Any) -> Any:
    rank = len(shape_of(x))
    axes = sorted({int(graph.rng.integers(rank)) - graph.of((0, rank)) for _ in range(graph.of((1, 2)))})
    if len({axis % rank for axis in axes}) != len(axes):
        return None
    return graph.of((op.sum, op.mean, op.max, op.min))(x, axes, keepdims=graph.of((True, False)))


def extreme(graph: Graph, x: Any) -> Any:
    found = op.argmax(x, graph.of((0, 1, -1)), keepdims=graph.of((True, False)))
    return op.astype(found, "float32")


def cumulative(graph: Graph, x: Any) -> Any:
    return op.cumsum(x, graph.of((1, 2, -1)))


def topk(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, -1))
    return op.topk(x, min(2, shape_of(x)[axis]), axis, ret_type="values")


def concat(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, 1, 2, -1))
    rank, shape = len(shape_of(x)), list(shape_of(x))
    axis %= rank
    shape[axis] = graph.of((1, 2, 4, shape[axis]))
    return op.concat([x, graph.constant(*shape), x], axis)


def split(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, 1, 2))
    extent = shape_of(x)[axis]
    if extent < 2:
        return None
    sections = graph.of(([extent // 2], [1], 2 if extent % 2 == 0 else 1))
    return op.split(x, sections, axis)


def sliced(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, 1, 2, 3))
    extent = shape_of(x)[axis]
    begin = graph.of((0, 0, extent // 2, -1))
    end = graph.of((extent, extent, extent + 9))
    return op.strided_slice(x, [axis], [begin], [end], [graph.of((1, 1, 2))])


def stack(graph: Graph, x: Any) -> Any:
    return op.squeeze(op.max(op.stack([x, op.abs(x)], graph.of((0, 1, 4))), graph.of((0, 1)), keepdims=True))


def expand(graph: Graph, x: Any) -> Any:
    axis = graph.of(([0], [1], [-1], [2]))
    expanded = graph.builder.emit(op.expand_dims(x, axis))
    return op.squeeze(op.nn.relu(expanded), axis)


def reshape(graph: Graph, x: Any) -> Any:
    n, c, h, w = shape_of(x)
    shapes = [(n, c, h * w), (n * c, h, w), (n, c * h * w), (n, 1, c, h, w)]
    if c % 2 == 0:
        shapes += [(n, 2, c // 2, h, w)]
    middle = graph.builder.emit(op.reshape(x, graph.of(shapes)))
    return op.reshape(op.abs(middle), (n, c, h, w))


def shuffle(graph: Graph, x: Any) -> Any:
    """Channels of two groups interleaved."""
    n, c, h, w = shape_of(x)
    if c % 2:
        return None
    return op.reshape(op.permute_dims(op.reshape(x, (n, 2, c // 2, h, w)), [0, 2, 1, 3, 4]), (n, c, h, w))


def transpose(graph: Graph, x: Any) -> Any:
    return op.permute_dims(x, graph.of(([0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2], [1, 0, 2, 3])))


def repeated(graph: Graph, x: Any) -> Any:
    kind = graph.of(("tile", "repeat", "flip", "take"))
    axis = graph.of((1, 2, 3))
    if kind == "tile":
        return op.tile(x, [1 + (place == axis) for place in range(4)])
    if kind == "repeat":
        return op.repeat(x, 2, axis)
    if kind == "flip":
        return op.flip(x, axis)
    return op.take(x, relax.const(np.array([0, shape_of(x)[axis] - 1, 0], "int64")), axis)


def resize(graph: Graph, x: Any) -> Any:
    layout = graph.of(("NCHW", "NHWC"))
    return op.image.resize2d(
        x,
        (graph.of((2, 4, 6)), graph.of((3, 5))),
        layout=layout,
        method=graph.of(("linear", "nearest_neighbor")),
    )


def quantized(graph: Graph, x: Any) -> Any:
    axis = graph.of((1, -1))
    scale, zero = graph.constant(shape_of(x)[axis]), relax.const(np.zeros(shape_of(x)[axis], "int8"))
    quantized = graph.builder.emit(op.quantize(x, scale, zero, axis))
    return op.dequantize(quantized, scale, zero, axis)


def gathered(graph: Graph, x: Any) -> Any:
    shape = shape_of(x)
    axis = graph.of((1, 3))
    indices = relax.const(graph.rng.integers(0, shape[axis], shape).astype("int64"))
    if graph.rng.random() < 0.5:
        return op.gather_elements(x, indices, axis)
    return op.scatter_elements(x, op.argsort(x, axis, dtype="int64"), op.abs(x), axis)


def matrix(graph: Graph, x: Any) -> Any:
    return op.matmul(x, graph.constant(shape_of(x)[-1], graph.of((1, 3, 4))))


STEPS: list[tuple[Callable[[Graph, Any], Any], int | None, int]] = [
    (convolution, 4, 10),
    (pooling, 4, 3),
    (global_pooling, 4, 1),
    (unary, None, 3),
    (clip, None, 1),
    (binary, None, 5),
    (select, None, 1),
    (batch_norm, 4, 2),
    (layer_norm, 4, 2),
    (channel_norm, 4, 2),
    (prelu, 4, 1),
    (pad, 4, 2),
    (softmax, 4, 1),
    (reduction, None, 2),
    (extreme, 4, 1),
    (cumulative, 4, 1),
    (topk, 4, 1),
    (concat, 4, 2),
    (split, 4, 2),
    (sliced, 4, 2),
    (stack, 4, 1),
    (expand, None, 1),
    (reshape, 4, 2),
    (shuffle, 4, 1),
    (transpose, 4, 2),
    (repeated, 4, 2),
    (resize, 4, 1),
    (quantized, 4, 1),
    (gathered, 4, 1),
    (matrix, 4, 1),
]
"""What a step may add, the rank that it takes, and how often it is tried."""


def random_module(seed: int, steps: int) -> tvm.IRModule:
    """A module whose main has one input and gives every value that nothing else reads."""
    graph = Graph(seed)
    weights = np.array([weight for _, _, weight in STEPS], float)
    with graph.builder.function("main", graph.inputs):
        with graph.builder.dataflow():
            for _ in range(steps):
                step, rank, _ = STEPS[int(graph.rng.choice(len(STEPS), p=weights / weights.sum()))]
                value = graph.value(rank)
                expression = step(graph, value) if value is not None else None
                if expression is not None:
                    graph.emit(expression)
            outputs = [graph.builder.emit_output(value) for value in graph.values[-3:]]
        graph.builder.emit_func_output(relax.Tuple(outputs))
    return graph.builder.finalize()


def execute(module: tvm.IRModule, image: np.ndarray) -> list[np.ndarray]:
    """What main computes, lowered as it is and not optimised."""
    target = tvm.target.Target({"kind": "llvm", "opt-level": 1})
    with target:
        module = relax.transform.LegalizeOps(legalization_map())(module)
    machine = relax.VirtualMachine(tvm.compile(module, target), tvm.cpu())
    return [tensor.numpy() for tensor in machine["main"](tvm.runtime.tensor(image))]


def check(seed: int, steps: int, layout: str) -> None:
    """Convert a graph and compare what it computes with what it computed."""
    module = random_module(seed, steps)
    target = resolve_target("native", threads=2)
    converted, _ = convert_layout(module, LayoutRequest.parse(layout), target)
    shape = shape_of(module["main"].params[0])
    image = np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")
    for want, have in zip(execute(module, image), execute(converted, image), strict=True):
        scale = float(np.abs(want).max(initial=0.0)) + 1e-6
        assert want.shape == have.shape and want.dtype == have.dtype
        worst = float(np.abs(want.astype("float64") - have).max(initial=0.0))
        assert np.isfinite(have).all() == np.isfinite(want).all()
        assert not np.isfinite(worst) or worst <= 1e-3 * scale, f"differs by {worst / scale:.1e}"


def failure(seed: int, steps: int, layout: str) -> str | None:
    """The reproducer of the smallest beginning of a graph that fails, None if it does not."""
    error = _error(seed, steps, layout)
    if error is None:
        return None
    for fewer in range(1, steps):
        found = _error(seed, fewer, layout)
        if found is not None:
            steps, error = fewer, found
            break
    return f"tests.layout_graphs.check({seed}, {steps}, {layout!r}): {error}"


def _error(seed: int, steps: int, layout: str) -> str | None:
    try:
        check(seed, steps, layout)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip()[:300]}"
    return None
