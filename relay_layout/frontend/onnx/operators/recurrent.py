"""ONNX's LSTM, GRU and RNN as Relax operators: one product for all data, then one step after the other.

Of sequences of any length a kernel takes all steps; those of a known length are unrolled. There, time comes
first. Each state is [batch, hidden], or [batch, 1, hidden] where the batch is symbolic, which is a shape that
products with constant matrices have kernels for. Time and batch are one dimension, so that splitting the
data, and joining the results, moves memory in one piece or not at all.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from tvm import relax, te

from relay_layout.frontend.extent_arithmetic import same
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.activations import named_activations
from relay_layout.frontend.onnx.operators.recurrent_cells import CELLS, Cell, State, Weights, columns
from relay_layout.frontend.onnx.values import Array, Unsupported, Value, dtype_of, shape_of, written
from relay_layout.ir import Extent, is_static
from topi_ext.compute.recurrence import Kind, packed, recurrent

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""By the attribute ``direction``, for each direction whether it begins at the end."""


@dataclass(frozen=True)
class _Layer:
    """The extents of a layer. ``batch_first`` is the attribute ``layout``."""

    length: Extent
    batch: Extent
    inputs: int
    hidden: int
    backwards: tuple[bool, ...]
    batch_first: bool

    def rows(self, count: int, columns: int) -> list[Extent]:
        """The shape of ``count`` times the batch, in one dimension."""
        between = [] if isinstance(self.batch, int) else [1]
        return [self.batch * count, *between, columns]

    def border(self, *outer: int) -> list[Extent]:
        """The shape of a state of all directions, or of one of ``outer``, time or directions first."""
        return [*(outer or (len(self.backwards),)), self.batch, self.hidden]


@dataclass(frozen=True)
class _Run:
    """What one direction gives: hidden states in order of time, and the last state."""

    hidden: list[Any]
    last: State


def _recurrent(node: Node) -> Value:
    kind = CELLS[node.operator]
    layer = _layer(node, kind)
    ordered = _swapped(node, node.input(0)) if layer.batch_first else node.input(0)
    if not isinstance(layer.length, int):
        return _looped(node, kind, layer, ordered)
    data = _reshaped(node, ordered, layer.rows(layer.length, layer.inputs))
    activations = named_activations(node, kind.activations, len(layer.backwards))
    active = _active(node, layer)
    runs = []
    for index, backwards in enumerate(layer.backwards):
        cell = kind(node, layer.hidden, _weights(node, kind, layer, index), activations[index])
        steps = _steps(node, layer, _projected(node, data, cell))
        order = range(layer.length)[::-1] if backwards else range(layer.length)
        runs.append(_run(cell, steps, order, active, _initial(node, kind, layer, index)))
    outputs = [_sequence(node, layer, runs) if _wanted(node, 0) else None]
    for place in range(kind.states):
        last = [run.last[place] for run in runs]
        outputs.append(_stacked(node, layer, last) if _wanted(node, place + 1) else None)
    return outputs


def _looped(node: Node, kind: type[Cell], layer: _Layer, data: Value) -> Value:
    """By a kernel with a loop over the steps of ``data``, time first."""
    _check_plain(node, kind, layer)
    name = cast("Kind", node.operator)
    weights = [_weights(node, kind, layer, index) for index in range(len(layer.backwards))]
    own_bias = name == "GRU" and bool(node.attributes.get("linear_before_reset", 0))
    zero = np.zeros(kind.gates * layer.hidden, "float32")
    biases = [
        [zero if term is None else np.asarray(term) for term in (one.data_bias, one.recurrence_bias)]
        for one in weights
    ]
    added = np.concatenate([first if own_bias else first + second for first, second in biases])
    matrix = np.concatenate([one.data for one in weights], axis=1)
    product = node.emit(relax.op.matmul(node.expression(data), node.expression(matrix)), "data")
    projected = node.emit(relax.op.add(product, node.expression(added)), "data")
    states = []
    for place in (5, 6)[: kind.states]:
        value = node.optional(place)
        if value is None:
            nothing = node.like(0.0, data)
            value = node.emit(relax.op.broadcast_to(nothing, relax.ShapeExpr(layer.border())), "state")
        elif layer.batch_first:
            value = _swapped(node, value)
        states.append(node.expression(value))
    given = {"lengths": node.cast(node.input(4), "int32")} if node.has(4) else {}
    if own_bias:
        given["bias"] = node.expression(np.stack([second for _, second in biases]))
    names = list(given)

    def layers(data: te.Tensor, weight: te.Tensor, *others: te.Tensor) -> list[te.Tensor]:
        options = dict(zip(names, others[kind.states :], strict=True))
        return recurrent(name, data, weight, others[: kind.states], backwards=layer.backwards, **options)

    matrices = np.stack([one.recurrence for one in weights])
    recurrence = node.expression(packed(name, matrices, reset_first=not own_bias))
    found = node.emit(
        node.builder.call_te(
            layers, projected, recurrence, *states, *given.values(), primfunc_name_hint=name.lower()
        ),
        "steps",
    )
    sequence, *last = (relax.TupleGetItem(found, index) for index in range(1 + kind.states))
    if not layer.batch_first:
        return [sequence, *last]
    turned = relax.op.permute_dims(node.emit(sequence, "sequence"), [2, 0, 1, 3])
    return [turned, *(_swapped(node, node.emit(state, "state")) for state in last)]


def _check_plain(node: Node, kind: type[Cell], layer: _Layer) -> None:
    """Unsupported for what the kernel does not compute."""
    lacking = None
    activations = [str(name).lower() for name in node.attributes.get("activations", ())]
    usual = [name.lower() for name in kind.activations] * len(layer.backwards)
    if activations and activations != usual:
        lacking = f"activations {', '.join(activations)}"
    elif node.attributes.get("clip"):
        lacking = "clip"
    elif node.has(7):
        lacking = "peepholes"
    elif node.attributes.get("input_forget", 0):
        lacking = "input_forget"
    elif not all(isinstance(node.optional(place), np.ndarray | None) for place in (1, 2, 3)):
        lacking = "weights that are computed"
    elif dtype_of(node.input(0)) != "float32":
        lacking = dtype_of(node.input(0))
    if lacking is not None:
        raise Unsupported(
            f"reads sequences of the symbolic length '{layer.length}' with {lacking}, "
            "which is not supported: give the model's input a fixed shape (--input-shape)"
        )


def _wanted(node: Node, index: int) -> bool:
    return index < len(node.outputs) and bool(node.outputs[index])


def _layer(node: Node, kind: type[Cell]) -> _Layer:
    """Unsupported for shapes that do not fit each other."""
    direction = node.attributes.get("direction", "forward")
    if direction not in _DIRECTIONS:
        raise Unsupported(f"has the unknown direction '{direction}'")
    backwards = _DIRECTIONS[direction]
    batch_first = bool(node.attributes.get("layout", 0))
    shape, weight, recurrence = (shape_of(node.input(index)) for index in range(3))
    if len(shape) != 3 or not is_static(weight) or not is_static(recurrence):
        raise Unsupported(
            f"reads {written(shape)} with weights of {written(weight)} and {written(recurrence)}"
        )
    hidden = int(recurrence[-1])
    length, batch = shape[1 if batch_first else 0], shape[0 if batch_first else 1]
    directions, rows = len(backwards), kind.gates * hidden
    if weight != [directions, rows, shape[2]] or recurrence != [directions, rows, hidden]:
        raise Unsupported(
            f"reads {written(shape)} with weights of {written(weight)} and {written(recurrence)}, "
            f"which do not fit the direction '{direction}'"
        )
    if node.attributes.get("hidden_size", hidden) != hidden:
        raise Unsupported(f"has hidden_size {node.attributes['hidden_size']}, but weights for {hidden}")
    layer = _Layer(length, batch, int(shape[2]), hidden, backwards, batch_first)
    state = [batch, directions, hidden] if batch_first else [directions, batch, hidden]
    due = {3: [directions, 2 * rows], 4: [batch], 5: state, 6: state, 7: [directions, 3 * hidden]}
    for index, expected in due.items():
        given = shape_of(node.input(index)) if node.has(index) else expected
        if len(given) != len(expected) or not all(map(same, given, expected)):
            raise Unsupported(f"has {written(given)} for its input {index}, where {written(expected)} is due")
    return layer


def _reshaped(node: Node, value: Value, shape: list[Extent]) -> Value:
    result = node.reshaped(value, shape)
    return node.emit(result, "reshaped") if isinstance(result, relax.Call) else result


def _swapped(node: Node, value: Value) -> Value:
    """The first two dimensions in turn; by a reshape where one of them has one element."""
    shape = shape_of(value)
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value.swapaxes(0, 1))
    if 1 in shape[:2]:
        return _reshaped(node, value, [shape[1], shape[0], *shape[2:]])
    axes = [1, 0, *range(2, len(shape))]
    return node.emit(relax.op.permute_dims(node.expression(value), axes), "swapped")


def _direction(node: Node, value: Value, index: int) -> Value:
    """Of a tensor with a first dimension of directions, the part of one, without that dimension."""
    if isinstance(value, np.ndarray):
        return value[index]
    shape = shape_of(value)
    if shape[0] > 1:
        value = node.emit(relax.op.strided_slice(value, [0], [index], [index + 1]), "direction")
    return _reshaped(node, value, shape[1:])


def _weights(node: Node, kind: type[Cell], layer: _Layer, index: int) -> Weights:
    biases: tuple[Value, Value] = (None, None)
    if node.has(3):
        both, middle = _direction(node, node.input(3), index), kind.gates * layer.hidden
        biases = columns(node, both, 0, middle), columns(node, both, middle, 2 * middle)
    return Weights(
        _transposed(node, _direction(node, node.input(1), index)),
        _transposed(node, _direction(node, node.input(2), index)),
        *biases,
        _direction(node, node.input(7), index) if node.has(7) else None,
    )


def _transposed(node: Node, matrix: Value) -> Value:
    if isinstance(matrix, np.ndarray):
        return np.ascontiguousarray(matrix.T)
    return node.emit(relax.op.permute_dims(matrix, [1, 0]), "transposed")


def _projected(node: Node, data: Value, cell: Cell) -> Any:
    """The product of the data of all steps and the weights, with the bias."""
    product = node.emit(relax.op.matmul(node.expression(data), node.expression(cell.weights.data)), "data")
    bias = cell.bias
    return product if bias is None else node.emit(relax.op.add(product, node.expression(bias)), "data")


def _steps(node: Node, layer: _Layer, value: Any) -> list[Any]:
    """The parts of a tensor of :meth:`_Layer.rows`, in order of time."""
    if layer.length == 1:
        return [value]
    parts = node.emit(relax.op.split(value, layer.length, axis=0), "steps")
    return [node.emit(parts[index], "data") for index in range(layer.length)]


def _initial(node: Node, kind: type[Cell], layer: _Layer, index: int) -> State:
    state: list[Any] = []
    for place in (5, 6)[: kind.states]:
        value = node.optional(place)
        if value is None or (isinstance(value, np.ndarray) and not value.any()):
            state.append(None)
            continue
        value = _swapped(node, value) if layer.batch_first else value
        rows = _reshaped(node, _direction(node, value, index), layer.rows(1, layer.hidden))
        state.append(node.expression(rows))
    return tuple(state)


def _active(node: Node, layer: _Layer) -> list[Any] | None:
    """For each step which sequences have not ended before, as a column; None where all go to the end."""
    if not node.has(4):
        return None
    lengths = node.input(4)
    shape = layer.rows(1, 1)
    if isinstance(lengths, np.ndarray):
        if lengths.size and not 0 <= lengths.min() <= lengths.max() <= layer.length:
            raise Unsupported(f"has lengths {lengths.tolist()} of sequences of {layer.length} steps")
        if (lengths == layer.length).all():
            return None
        return [node.expression((step < lengths).reshape(shape)) for step in range(layer.length)]
    # All comparisons at once: one for each step would be as many kernels, as the numbers are in their code.
    times: Array = np.arange(layer.length, dtype=dtype_of(lengths)).reshape(-1, 1)
    running = node.emit(relax.op.less(node.expression(times), node.expression(lengths)), "running")
    return _steps(node, layer, _reshaped(node, running, layer.rows(layer.length, 1)))


def _run(cell: Cell, steps: list[Any], order: range, active: list[Any] | None, state: State) -> _Run:
    hidden: list[Any] = [None] * len(steps)
    for step in order:
        after = cell.step(steps[step], state)
        hidden[step] = after[0]
        if active is not None:
            mask = active[step]
            zero = cell.node.like(0.0, after[0])
            hidden[step] = cell.bound(relax.op.where(mask, after[0], zero))
            after = tuple(
                cell.bound(relax.op.where(mask, new, zero if old is None else old))
                for new, old in zip(after, state, strict=True)
            )
        state = after
    return _Run(hidden, state)


def _sequence(node: Node, layer: _Layer, runs: list[_Run]) -> Value:
    """The output Y: [time, directions, batch, hidden], or [batch, time, directions, hidden]."""
    shape = layer.border(layer.length, 1)
    each = [_reshaped(node, _joined(node, run.hidden, 0), shape) for run in runs]
    whole = _joined(node, each, 1)
    return relax.op.permute_dims(whole, [2, 0, 1, 3]) if layer.batch_first else whole


def _stacked(node: Node, layer: _Layer, states: list[Any]) -> Value:
    """An output of last states: [directions, batch, hidden], or [batch, directions, hidden]."""
    result = _reshaped(node, _joined(node, states, 0), layer.border())
    return _swapped(node, result) if layer.batch_first else result


def _joined(node: Node, parts: list[Any], axis: int) -> Any:
    return parts[0] if len(parts) == 1 else node.emit(relax.op.concat(parts, axis=axis), "joined")


CONVERTERS: dict[str, Converter] = dict.fromkeys(CELLS, _recurrent)
