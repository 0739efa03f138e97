"""TensorScatter, with which decoders write new keys and values into buffers of earlier ones.

Letters of shapes: N sequences, L places of a buffer, S new ones.
"""

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.agreement import with_extents
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.values import Unsupported, Value, shape_of, written
from relay_layout.ir import Extent, scalar


def _tensor_scatter(node: Node) -> Value:
    """The buffer [N, .., L, ..] with new places [N, .., S, ..] in it, from where each sequence says on.

    Where a buffer is circular, what does not fit behind its end goes to its begin; else it is left out.
    """
    buffer, new = shape_of(node.input(0)), shape_of(node.input(1))
    axis = node.axis_given(len(buffer), default=-2)
    due = [*buffer[:axis], new[axis] if len(new) == len(buffer) else 1, *buffer[axis + 1 :]]
    rows = with_extents(node, node.input(1), due)
    if axis == 0 or rows is None:
        raise Unsupported(f"writes {written(new)} into {written(buffer)} along axis {axis}")
    mode = node.attributes.get("mode", "linear")
    if mode not in ("linear", "circular"):
        raise Unsupported(f"has the mode '{mode}', which is not supported; linear and circular are")
    length, count = (scalar(node.emit, node.plain(shape[axis])) for shape in (buffer, new))
    start = node.cast(_starts(node, buffer[0]), "int64")
    column = node.emit(relax.op.expand_dims(node.emit(start, "start"), 1), "start")
    places = node.places(buffer[axis])
    later = node.emit(relax.op.subtract(places, column), "later")
    if mode == "circular":
        later = node.emit(relax.op.floor_mod(later, length), "later")
    is_new = node.emit(relax.op.less(later, count), "is_new")
    nothing = relax.const(0, "int64")
    is_new = node.emit(
        relax.op.logical_and(is_new, node.emit(relax.op.greater_equal(later, nothing), "behind")), "is_new"
    )
    # What is outside is not chosen, but read.
    last = node.emit(relax.op.subtract(count, relax.const(1, "int64")), "last")
    index = node.emit(relax.op.maximum(node.emit(relax.op.minimum(later, last), "index"), nothing), "index")
    spread = node.emit(
        relax.op.broadcast_to(index, relax.ShapeExpr([node.plain(buffer[0]), node.plain(buffer[axis])])),
        "index",
    )
    others = [place for place in range(1, len(buffer)) if place != axis]
    turned = [0, axis, *others]
    rows = node.expression(rows)
    rows = rows if axis == 1 else node.emit(relax.op.permute_dims(rows, turned), "rows")
    found = node.emit(
        relax.op.gather_nd(rows, node.emit(relax.op.expand_dims(spread, 2), "index"), 1), "found"
    )
    if axis != 1:
        back = [turned.index(place) for place in range(len(buffer))]
        found = node.emit(relax.op.permute_dims(found, back), "found")
    around = [place for place in range(len(buffer)) if place not in (0, axis)]
    chosen = node.emit(relax.op.expand_dims(is_new, around), "chosen")
    return relax.op.where(chosen, found, node.tensor(0))


def _starts(node: Node, sequences: Extent) -> Value:
    """Where each sequence's new places begin, or one number of all."""
    given = node.optional(2)
    if given is None:
        return np.zeros(1, "int64")
    shape = shape_of(given)
    fitting = given if shape == [1] else with_extents(node, given, [sequences])
    if fitting is None:
        raise Unsupported(f"has places {written(shape)} where {written([sequences])} are due")
    return fitting


CONVERTERS: dict[str, Converter] = {"TensorScatter": _tensor_scatter}
