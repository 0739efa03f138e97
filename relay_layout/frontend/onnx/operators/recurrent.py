"""ONNX's LSTM, GRU and RNN: a product for the data of all steps, and an operator for what is made of it."""

from dataclasses import dataclass, replace
from math import prod
from typing import cast

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.agreement import with_extents
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.values import Unsupported, Value, shape_of, written
from relay_layout.ir import Extent, is_static
from relay_layout.recurrent import recurrent
from topi_ext.compute.recurrent.activations import NAMES, Activation
from topi_ext.compute.recurrent.recurrence import Kind, Recurrence

_KINDS: tuple[Kind, ...] = ("GRU", "LSTM", "RNN")

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""By the attribute ``direction``, for each direction whether it begins at the end."""

_PARAMETERS: dict[str, tuple[float, ...]] = {
    "affine": (1.0, 0.0),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01,),
    "scaledtanh": (1.0, 1.0),
    "thresholdedrelu": (1.0,),
}
"""The alpha, or the alpha and the beta, of activations that have these, by default; the operators of their
names have the same."""


@dataclass(frozen=True)
class _Layer:
    """The extents of a layer. ``batch_first`` is the attribute ``layout``."""

    recurrence: Recurrence
    length: Extent
    batch: Extent
    inputs: int
    hidden: int
    batch_first: bool

    @property
    def rows(self) -> int:
        """The rows of the weights of one direction."""
        return self.recurrence.gates * self.hidden

    @property
    def directions(self) -> int:
        return len(self.recurrence.backwards)

    def time_first(self, node: Node, value: Value) -> Value:
        """A tensor whose first two dimensions are in the order of the attribute ``layout``."""
        return _permuted(node, value, [1, 0, 2]) if self.batch_first else value


def _recurrent(node: Node) -> Value:
    layer = _layer(node)
    node = _fitting(node, layer)
    recurrence, rows = layer.recurrence, layer.rows
    matrix = _permuted(node, node.input(1), [2, 0, 1])
    matrix = _reshaped(node, matrix, [layer.inputs, layer.directions * rows])
    # As rows of one matrix: of single sequences, steps would be multiplied one by one.
    data = layer.time_first(node, node.input(0))
    data = _reshaped(node, data, [layer.length * layer.batch, layer.inputs])
    projected = node.emit(relax.op.matmul(node.expression(data), node.expression(matrix)), "data")
    own_bias = recurrence.kind == "GRU" and bool(node.attributes.get("linear_before_reset", 0))
    bias: Value = None
    if node.has(3):
        added, bias = (_columns(node, node.input(3), start, start + rows) for start in (0, rows))
        added = _reshaped(node, added if own_bias else _sum(node, added, bias), [-1])
        projected = node.emit(relax.op.add(projected, node.expression(added)), "data")
    sequences = [layer.length, layer.batch, layer.directions * rows]
    projected = node.emit(relax.op.reshape(projected, sequences), "data")
    if own_bias and bias is None:
        bias = np.zeros([layer.directions, rows], str(projected.ty.dtype))
    optional = {
        "hidden": _state(node, layer, 5),
        "cell": _state(node, layer, 6) if len(recurrence.states) > 1 else None,
        "lengths": _lengths(node, layer),
        "bias": node.expression(bias) if own_bias else None,
        "peepholes": node.tensor(7) if node.has(7) else None,
    }
    weight = node.expression(_permuted(node, node.input(2), [0, 2, 1]))
    found = node.emit(recurrent(recurrence, projected, weight, **optional), "steps")
    outputs = [node.emit(relax.TupleGetItem(found, place)) for place in range(1 + len(recurrence.states))]
    if not layer.batch_first:
        return outputs
    sequence, *states = outputs
    return [_permuted(node, sequence, [2, 0, 1, 3]), *(_permuted(node, state, [1, 0, 2]) for state in states)]


def _layer(node: Node) -> _Layer:
    """Unsupported for shapes that do not fit each other."""
    recurrence = _recurrence(node)
    batch_first = bool(node.attributes.get("layout", 0))
    shape, weight, own = (shape_of(node.input(index)) for index in range(3))
    if len(shape) != 3 or not is_static(weight) or not is_static(own):
        raise Unsupported(f"reads {written(shape)} with weights of {written(weight)} and {written(own)}")
    hidden = int(own[-1])
    length, batch = shape[1 if batch_first else 0], shape[0 if batch_first else 1]
    layer = _Layer(recurrence, length, batch, int(shape[2]), hidden, batch_first)
    directions, rows = layer.directions, layer.rows
    if weight != [directions, rows, shape[2]] or own != [directions, rows, hidden]:
        raise Unsupported(
            f"reads {written(shape)} with weights of {written(weight)} and {written(own)}, "
            f"which do not fit the direction '{node.attributes.get('direction', 'forward')}'"
        )
    if node.attributes.get("hidden_size", hidden) != hidden:
        raise Unsupported(f"has hidden_size {node.attributes['hidden_size']}, but weights for {hidden}")
    return layer


def _fitting(node: Node, layer: _Layer) -> Node:
    """The node with states and lengths for as many sequences as there are; Unsupported if they do not fit."""
    directions, batch, hidden = layer.directions, layer.batch, layer.hidden
    state = [batch, directions, hidden] if layer.batch_first else [directions, batch, hidden]
    due = {3: [directions, 2 * layer.rows], 4: [batch], 5: state, 6: state, 7: [directions, 3 * hidden]}
    inputs = list(node.inputs)
    for index, expected in due.items():
        if not node.has(index):
            continue
        inputs[index] = with_extents(node, node.input(index), expected)
        if inputs[index] is None:
            given = written(shape_of(node.input(index)))
            raise Unsupported(f"has {given} for its input {index}, where {written(expected)} is due")
    return replace(node, inputs=tuple(inputs))


def _recurrence(node: Node) -> Recurrence:
    """What the attributes say."""
    direction = node.attributes.get("direction", "forward")
    if direction not in _DIRECTIONS:
        raise Unsupported(f"has the unknown direction '{direction}'")
    usual = Recurrence(
        cast("Kind", node.operator),
        _DIRECTIONS[direction],
        clip=float(node.attributes.get("clip", 0.0)),
        input_forget=bool(node.attributes.get("input_forget", 0)),
    )
    names = node.attributes.get("activations")
    if not names:
        return usual
    due = sum(map(len, usual.activations))
    if len(names) != due:
        raise Unsupported(f"names {len(names)} activations where {due} are due")
    alphas, betas = (list(node.attributes.get(f"activation_{name}", ())) for name in ("alpha", "beta"))
    found = [_activation(name, alphas, betas) for name in names]
    each = due // len(usual.backwards)
    directions = tuple(tuple(found[start : start + each]) for start in range(0, due, each))
    return Recurrence(usual.kind, usual.backwards, directions, usual.clip, usual.input_forget)


def _activation(name: str, alphas: list[float], betas: list[float]) -> Activation:
    """The activation of a name, which files write in any letters.

    ``activation_alpha`` and ``activation_beta`` are taken in order by the activations that have such a
    parameter, and those that find none left have the default of the operator of their name.
    """
    small = name.lower()
    if small not in NAMES:
        raise Unsupported(
            f"has the activation '{name}', which is not supported; {', '.join(sorted(NAMES))} are"
        )
    defaults = _PARAMETERS.get(small, ())
    given = (
        left.pop(0) if left else default for left, default in zip((alphas, betas), defaults, strict=False)
    )
    return Activation(small, *given)


def _state(node: Node, layer: _Layer, place: int) -> Value:
    """The first state of an input, None where it is zero."""
    value = node.optional(place)
    if value is None or (isinstance(value, np.ndarray) and not value.any()):
        return None
    return node.expression(layer.time_first(node, value))


def _lengths(node: Node, layer: _Layer) -> Value:
    """How many steps each sequence has, None where all have all."""
    lengths = node.optional(4)
    if isinstance(lengths, np.ndarray) and isinstance(layer.length, int):
        if lengths.size and not 0 <= lengths.min() <= lengths.max() <= layer.length:
            raise Unsupported(f"has lengths {lengths.tolist()} of sequences of {layer.length} steps")
        if (lengths == layer.length).all():
            return None
    return None if lengths is None else node.cast(lengths, "int32")


def _permuted(node: Node, value: Value, axes: list[int]) -> Value:
    """The dimensions in another order; by a reshape where no more than one of them has elements to move."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value.transpose(axes))
    shape = shape_of(value)
    moved = [axis for axis in axes if shape[axis] != 1]
    if moved == sorted(moved):
        return _reshaped(node, value, [shape[axis] for axis in axes])
    return node.emit(relax.op.permute_dims(node.expression(value), axes), "permuted")


def _reshaped(node: Node, value: Value, shape: list[Extent]) -> Value:
    if shape == [-1]:
        shape = [prod(shape_of(value))]
    result = node.reshaped(value, shape)
    return node.emit(result, "reshaped") if isinstance(result, relax.Call) else result


def _columns(node: Node, value: Value, start: int, stop: int) -> Value:
    """A part of the last dimension; a constant stays one."""
    if isinstance(value, np.ndarray):
        return value[..., start:stop]
    return node.emit(relax.op.strided_slice(value, [1], [start], [stop]), "bias")


def _sum(node: Node, left: Value, right: Value) -> Value:
    if isinstance(left, np.ndarray):
        return left + right
    return node.emit(relax.op.add(left, right), "bias")


CONVERTERS: dict[str, Converter] = dict.fromkeys(_KINDS, _recurrent)
