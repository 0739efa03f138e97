"""ONNX operators that pick elements by their places: slices, parts, and elements that are indexed."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from tvm import relax, tirx

from relay_layout.frontend.extents.arithmetic import clamped, greatest, least, product, same, simplify
from relay_layout.frontend.extents.residues import never_more
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.slices import picked
from relay_layout.frontend.operators.scattering import block
from relay_layout.frontend.values import (
    FAR,
    Extents,
    Unsupported,
    Value,
    dtype_of,
    extents,
    shape_of,
    written,
)
from relay_layout.ir import Extent, is_empty, is_static


def _split(node: Node) -> Value:
    shape = shape_of(node.input(0))
    axis = node.axis_given(len(shape), default=0)
    count = len(node.outputs)
    if node.opset < 13 and node.attributes.get("split"):
        sizes = [int(size) for size in node.attributes["split"]]
    elif node.has(1):
        # Of opset 1 they are floats.
        sizes = node.extents(1) if node.opset >= 13 else [int(size) for size in node.constant(1).reshape(-1)]
    else:
        # The last part is smaller where they cannot be equal.
        size = simplify((shape[axis] + count - 1) // count)
        sizes = [size] * (count - 1) + [simplify(shape[axis] - size * (count - 1))]
        node.requirements.more(sizes[-1], -1)
    if len(sizes) != count:
        raise Unsupported(f"splits axis {axis} of {written(shape)} into {count} parts of {written(sizes)}")
    node.requirements.equal(shape[axis], sum(sizes))
    if is_static(sizes):
        return parts(node, node.input(0), sizes, axis)
    ends = [simplify(end) for end in accumulate(sizes)]
    return [_part(node, axis, begin, end) for begin, end in zip([0, *ends], ends, strict=False)]


def _part(node: Node, axis: int, begin: Extent, end: Extent) -> Any:
    bounds = [relax.prim_value(node.plain(bound)) for bound in (begin, end)]
    return relax.op.strided_slice(node.tensor(0), [axis], bounds[:1], bounds[1:], assume_inbound=True)


def parts(node: Node, value: Value, sizes: Sequence[int], axis: int) -> list[Value]:
    """A tensor cut along ``axis``, counted from the front; Unsupported where ``sizes`` do not fit.

    Expressions among the parts are not bound to variables.
    """
    shape = shape_of(value)
    fits = not isinstance(shape[axis], int) or sum(sizes) == shape[axis]
    if min(sizes, default=0) < 0 or not fits:
        raise Unsupported(f"splits axis {axis} of {written(shape)} into {len(sizes)} parts of {list(sizes)}")
    if len(sizes) == 1:
        return [value]
    if 0 in sizes and isinstance(value, relax.Expr):
        # Relax splits into parts that have elements.
        filled = [size for size in sizes if size]
        cut = iter(parts(node, value, filled, axis) if filled else ())
        nothing = relax.ShapeExpr([*shape[:axis], 0, *shape[axis + 1 :]])
        return [next(cut) if size else relax.op.zeros(nothing, dtype_of(value)) for size in sizes]
    ends = list(accumulate(sizes))
    if isinstance(value, np.ndarray):
        return np.split(value, ends, axis)[:-1]
    if isinstance(value, Extents):
        return [extents(array, value.dtype) for array in np.split(value.array, ends, axis)[:-1]]
    whole = node.emit(relax.op.split(node.expression(value), ends[:-1], axis), "parts")
    return [relax.TupleGetItem(whole, index) for index in range(len(sizes))]


def _slice(node: Node) -> Value:
    shape = shape_of(node.input(0))
    if node.opset >= 10 and any(not isinstance(node.input(place), np.ndarray | Extents) for place in (1, 2)):
        return _sliced_by_data(node, shape)
    asked = _asked(node, len(shape))
    data = node.tensor(0)
    kept: list[tuple[int, Extent, Extent, Extent]] = []
    reversed_axes = []
    for axis, *bounds, step in asked:
        extent = shape[axis]
        start, end = (_counted_from_the_front(node, bound, extent) for bound in bounds)
        is_backwards = isinstance(step, int) and step < 0
        if is_backwards and not is_static((start, end, extent)):
            data = node.emit(relax.op.flip(data, axis), "backwards")
            start, end, step = _mirrored(node, start, end, step, extent)
        elif is_backwards:
            reversed_axes.append(axis)
        begin, stop, stride = _picked(node, start, end, step, extent)
        is_whole = is_static((begin, stride)) and (begin, stride) == (0, 1) and same(stop, extent)
        if not is_whole:
            kept.append((axis, begin, stop, stride))
    if kept:
        data = relax.op.strided_slice(
            data,
            [axis for axis, _, _, _ in kept],
            [relax.prim_value(begin) for _, begin, _, _ in kept],
            [relax.prim_value(stop) for _, _, stop, _ in kept],
            [relax.prim_value(stride) for _, _, _, stride in kept],
            assume_inbound=True,
        )
    for axis in reversed_axes:
        data = relax.op.flip(node.emit(data, "forward"), axis)
    return data


def _asked(node: Node, rank: int) -> list[tuple[int, Extent, Extent, Extent]]:
    """Axis, start, end and step of each slice, as the opset says them."""
    if node.opset < 10:
        starts, ends = list(node.attributes["starts"]), list(node.attributes["ends"])
        axes, steps = list(node.attributes.get("axes", ())), []
    else:
        starts, ends = node.extents(1), node.extents(2)
        axes = [int(axis) for axis in node.constant(3).reshape(-1)] if node.has(3) else []
        steps = node.extents(4) if node.has(4) else []
    axes = axes or list(range(len(starts)))
    steps = steps or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Unsupported(f"slices axes {axes} with steps {steps} from {starts} to {ends}")
    node.axes(axes, rank)  # Refuses what names an axis twice.
    return list(zip([node.axis(axis, rank) for axis in axes], starts, ends, steps, strict=True))


def _sliced_by_data(node: Node, shape: Sequence[Extent]) -> Value:
    """A slice with bounds that are computed at run time, of which only steps of 1 are taken."""
    number = product(shape_of(node.input(1)))
    if not isinstance(number, int) or (node.has(4) and (node.constant(4) != 1).any()):
        raise Unsupported(
            "takes steps between bounds computed at run time, which is not supported: use steps of 1"
        )
    given = node.constant(3).reshape(-1) if node.has(3) else range(number)
    axes = [node.axis(int(axis), len(shape)) for axis in given]
    sizes = node.expression(extents([shape[axis] for axis in axes]))
    none = relax.const(0, "int64")
    bounds = []
    for index in (1, 2):
        bound = node.emit(node.cast(node.reshaped(node.input(index), [number]), "int64"))
        back = node.emit(relax.op.add(bound, sizes))
        front = node.emit(relax.op.where(node.emit(relax.op.less(bound, none)), back, bound))
        inside = node.emit(relax.op.minimum(node.emit(relax.op.maximum(front, none)), sizes))
        bounds.append(inside)
    begins = node.numbers(bounds[0], number)
    counts = node.numbers(relax.op.subtract(bounds[1], bounds[0]), number)
    return relax.op.strided_slice(
        node.tensor(0),
        axes,
        [relax.prim_value(begin) for begin in begins],
        [relax.prim_value(begin + count) for begin, count in zip(begins, counts, strict=True)],
        [relax.prim_value(1)] * number,
        assume_inbound=True,
    )


def _mirrored(
    node: Node, start: Extent, end: Extent, step: int, extent: Extent
) -> tuple[Extent, Extent, int]:
    """A slice that goes backwards along an open axis, as one of the reversed elements."""
    if isinstance(start, int) and -FAR < start < -1:
        # Of fewer elements it would begin with the first.
        node.requirements.more(extent, -1 - start)
    return _from_the_end(start, extent), _from_the_end(end, extent), -step


def _picked(
    node: Node, start: Extent, end: Extent, step: Extent, extent: Extent
) -> tuple[Extent, Extent, Extent]:
    """First element, end and step of the elements that a slice picks, in ascending order."""
    if not isinstance(step, int):
        node.requirements.more(step, 0)
        begin, stop, _ = _range(node, start, end, 1, extent)
        return node.plain(begin), node.plain(stop), node.plain(step)
    begin, stop, stride = _range(node, start, end, step, extent)
    if _is_outermost(start, end, step) and _has_elements(node, extent):
        begin, stop = (0, 1) if start == 0 else (simplify(extent - 1), extent)
    return node.plain(begin), node.plain(stop), stride


def _is_outermost(start: Extent, end: Extent, step: int) -> bool:
    """Whether a slice is the first element of an axis, or the last."""
    if step != 1 or not is_static((start, end)):
        return False
    return (start, end) == (0, 1) or (start == -1 and end >= FAR)


def _has_elements(node: Node, extent: Extent) -> bool:
    """Whether an open axis has any, which is asked of the sizes of inputs where these tell how many."""
    if isinstance(extent, int) or not node.requirements.tell(extent):
        return False
    node.requirements.more(extent, 0)
    return True


def _range(node: Node, start: Extent, end: Extent, step: int, extent: Extent) -> tuple[Extent, Extent, int]:
    """As :func:`_picked`, for a step that is known."""
    if is_static((start, end, extent)):
        places = range(extent)[picked(start, end, step, extent)]
        if not places:
            return 0, 0, 1
        first, last = min(places[0], places[-1]), max(places[0], places[-1])
        return first, last + 1, abs(step)
    begin, stop = _bound(node, start, extent), _bound(node, end, extent)
    if isinstance(start, int) and 0 <= start < step and same(stop, extent):
        # Of an extent below the start there is nothing to take either way.
        begin = start
    if is_static((start, end)):
        if end == 0 or ((start < 0) == (end < 0) and end <= start):
            return 0, 0, 1
        if (start < 0) != (end < 0) and begin != 0 and not same(stop, extent):
            # Whether there are any depends on the extent.
            stop = greatest(begin, stop)
    return begin, stop, step


def _from_the_end(bound: Extent, extent: Extent) -> Extent:
    """A bound of a slice that goes backwards, as the bound of one of the reversed elements."""
    if isinstance(bound, int):
        # What is far before the first element is far behind the last one then.
        return -1 - bound if abs(bound) < FAR else (FAR if bound < 0 else 0)
    return simplify(extent - 1 - bound)


def _bound(node: Node, bound: Extent, extent: Extent) -> Extent:
    """A slice's bound along an extent of which one is symbolic, between 0 and the extent.

    Sizes of inputs may be asked not to be 0, where that tells that it is between these.
    """
    if isinstance(bound, int) and (bound == 0 or bound >= FAR):
        return extent if bound else 0
    if isinstance(bound, int) and bound < 0:
        bound = extent + bound
    if same(bound, extent):
        return extent
    inside = clamped(bound, extent)
    if isinstance(inside, int) or isinstance(extent, tirx.Var) or same(inside, bound):
        return inside
    # Of whole windows, 8 * ((h + 7) // 8), there are 4 rows in every image that has any.
    return bound if node.requirements.within_pixels(bound, extent) else inside


def _counted_from_the_front(node: Node, bound: Extent, extent: Extent) -> Extent:
    """A computed bound counts from the end where it is below zero; what several sizes make never is."""
    if isinstance(bound, int):
        return bound
    smallest = node.counts.least_size(bound)
    if never_more(bound, -1, least=smallest):
        return simplify(extent + bound)
    if never_more(0, bound, least=smallest) or len(tirx.analysis.undefined_vars(bound)) != 1:
        return bound
    below = bound if never_more(bound, 0, least=smallest) else least(bound, 0)
    above = 0 if below is bound else greatest(bound, 0)
    is_below = least(simplify(0 - below), 1)
    return simplify(above + is_below * (extent + below))


def _gather(node: Node) -> Value:
    shape = shape_of(node.input(0))
    axis = node.axis_given(len(shape), default=0)
    indices = node.input(1)
    _ask_for_known(node, indices, shape, axis)
    if isinstance(indices, np.ndarray) and isinstance(shape[axis], int):
        picked = np.where(indices < 0, indices + shape[axis], indices).astype("int64")
        return relax.op.take(node.tensor(0), node.expression(picked), axis, mode="clip")
    counted = node.signs.end(indices)
    if counted is not None:
        node.requirements.no_more(counted, shape[axis])
    places = _places(node, shape[axis])
    # An index that is out of range picks what is at the edge.
    return relax.op.take(node.tensor(0), places, axis, mode="clip")


def _ask_for_known(node: Node, indices: Value, shape: Sequence[Extent], axis: int) -> None:
    """Ask for the elements along an axis that known indices pick, which other indices do not."""
    if not isinstance(indices, np.ndarray) or not indices.size:
        return
    furthest, extent = max(int(indices.max()), -int(indices.min()) - 1), shape[axis]
    if not isinstance(extent, int):
        node.requirements.more(extent, furthest)
    elif furthest >= extent:
        raise Unsupported(f"picks elements of axis {axis} of {written(shape)} that do not exist")


def _gather_elements(node: Node) -> Value:
    """Elements at places along one axis, of the part of the data that is as large as the places elsewhere."""
    shape, places = shape_of(node.input(0)), shape_of(node.input(1))
    axis = node.axis_given(len(shape), default=0)
    if len(shape) != len(places):
        raise Unsupported(f"picks elements of {written(shape)} at {written(places)}, which has another rank")
    if is_empty(places):
        return relax.op.zeros(relax.ShapeExpr(places), dtype_of(node.input(0)))
    _ask_for_known(node, node.input(1), shape, axis)
    ends = [full if place == axis else places[place] for place, full in enumerate(shape)]
    part = block(node.emit, node.tensor(0), [0] * len(shape), ends)
    return relax.op.gather_elements(part, _places(node, shape[axis]), axis)


def _places(node: Node, extent: Extent) -> Value:
    """The second input, places along an axis of this extent, counted from the front."""
    places = node.tensor(1)
    _ask_for_elements(node, shape_of(places), [extent])
    return places if node.is_natural(1) else from_the_front(node, places, extent)


def _ask_for_elements(node: Node, places: Sequence[Extent], ends: Sequence[Extent]) -> None:
    """Ask for elements along axes of extents ``ends``, where there are any places to pick them at."""
    for end in ends:
        node.requirements.no_more(least(product(places), 1), end)


def _gather_nd(node: Node) -> Value:
    batch = int(node.attributes.get("batch_dims", 0))
    indices = node.tensor(1)
    places = shape_of(node.input(1))
    if not isinstance(places[-1], int):
        raise Unsupported(f"has {written(places[-1:])} numbers in each index, which have to be known")
    shape, known = shape_of(node.input(0)), node.input(1)
    ends = shape[batch : batch + places[-1]]
    _ask_for_elements(node, places, ends)
    for place in range(len(ends)) if isinstance(known, np.ndarray) else ():
        _ask_for_known(node, known[..., place], shape, batch + place)
    if not node.is_natural(1):
        indices = from_the_front(node, indices, ends)
    return relax.op.gather_nd(node.tensor(0), indices, batch)


def _reversed_sequences(node: Node) -> Value:
    """ReverseSequence: of each sequence [T, ...] of a batch as many first elements as its length says."""
    shape = shape_of(node.input(0))
    axes = [node.attributes.get(f"{name}_axis", default) for name, default in (("batch", 1), ("time", 0))]
    if len(shape) < 2 or sorted(axes) != [0, 1] or len(shape_of(node.input(1))) != 1:
        raise Unsupported(f"reverses {written(shape)} along axis {axes[1]} for a batch along axis {axes[0]}")
    batch, time = axes
    lengths = node.emit(relax.op.expand_dims(node.cast(node.input(1), "int64"), time), "lengths")
    places = node.emit(relax.op.expand_dims(node.places(shape[time]), batch), "places")
    last = node.emit(relax.op.subtract(lengths, relax.const(1, "int64")), "last")
    mirrored = node.emit(relax.op.subtract(last, places), "mirrored")
    inside = node.emit(relax.op.less(places, lengths), "inside")
    picked = node.emit(relax.op.where(inside, mirrored, places), "picked")
    if batch == 0:
        indices = node.emit(relax.op.expand_dims(picked, 2), "indices")
        return relax.op.gather_nd(node.tensor(0), indices, 1)
    goal = relax.ShapeExpr(shape[:2])
    sequences = node.emit(relax.op.broadcast_to(node.places(shape[batch]), goal), "sequences")
    indices = node.emit(relax.op.stack([picked, sequences], 2), "indices")
    return relax.op.gather_nd(node.tensor(0), indices)


def from_the_front(node: Node, indices: Any, extent: Extent | Sequence[Extent]) -> Any:
    """Run-time indices with negative ones, which count from the end, replaced; along several extents the last
    dimension has an index of each.
    """
    end = node.expression(extents(extent, dtype_of(indices)))
    negative = relax.op.less(indices, node.like(0, indices))
    return node.emit(relax.op.where(negative, relax.op.add(indices, end), indices), "indices")


CONVERTERS: dict[str, Converter] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ReverseSequence": _reversed_sequences,
    "Slice": _slice,
    "Split": _split,
}
