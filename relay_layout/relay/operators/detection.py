"""Operators of relay.vision on anchors and boxes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, constant, dtype_of, is_static
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.box_suppression import suppress, suppress_every_class
from relay_layout.relay.operators.operator import Operator, Scope, extents, rank_of, static_extents
from relay_layout.relay.operators.resizing import one_of

_MOST_ANCHORS = 1024
"""How many sizes or ratios of anchors there may be."""


def _floats(values: Any, name: str, count: int | None = None) -> list[float]:
    if (
        not isinstance(values, tuple)
        or not 1 <= len(values) <= _MOST_ANCHORS
        or len(values) != (count or len(values))
    ):
        raise ModelError(f"{name} needs {count or f'1 to {_MOST_ANCHORS}'} numbers")
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
        raise ModelError(f"{name} has an entry that is no finite number")
    return [float(value) for value in values]


def _anchors(
    halves: te.Tensor,
    height: int,
    width: int,
    steps: Sequence[float],
    offsets: Sequence[float],
    clip: bool,
    dtype: str,
) -> te.Tensor:
    """(1, anchors, 4): boxes of every half width and half height around every pixel."""
    kinds = halves.shape[0]

    def compute(_: Any, anchor: Any, corner: Any) -> Any:
        kind, pixel = anchor % kinds, anchor // kinds
        centers = [
            (place.astype("float32") + tirx.const(offsets[axis], "float32"))
            * tirx.const(steps[axis], "float32")
            for axis, place in enumerate((pixel // width, pixel % width))
        ]
        center = tirx.Select(corner % 2 == 0, centers[1], centers[0])
        value = tirx.Select(corner < 2, center - halves[kind, corner % 2], center + halves[kind, corner % 2])
        if clip:
            value = te.max(te.min(value, tirx.const(1, "float32")), tirx.const(0, "float32"))
        return value.astype(dtype)

    return te.compute((1, height * width * kinds, 4), compute, name="multibox_prior")


def _multibox_prior(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    shape = extents(operands[0])
    if len(shape) != 4 or not is_static(shape[2:]):
        raise ModelError("the data must have 4 dimensions, of which the last two are known")
    height, width = shape[2:]
    sizes, ratios = _floats(attributes.sizes, "sizes"), _floats(attributes.ratios, "ratios")
    if min(ratios) <= 0:
        raise ModelError("ratios must be positive")
    steps = [
        step if step > 0 else 1.0 / max(extent, 1)
        for step, extent in zip(_floats(attributes.steps, "steps", 2), (height, width), strict=True)
    ]
    aspect = height / max(width, 1)
    halves = [(size * aspect / 2, size / 2) for size in sizes]
    halves += [
        (sizes[0] * aspect * math.sqrt(ratio) / 2, sizes[0] / math.sqrt(ratio) / 2) for ratio in ratios[1:]
    ]
    return scope.builder.call_te(
        _anchors,
        constant(np.array(halves, "float32")),
        height,
        width,
        steps,
        _floats(attributes.offsets, "offsets", 2),
        attributes.clip,
        dtype_of(operands[0]),
        primfunc_name_hint="multibox_prior",
    )


def _decoded(
    scores: te.Tensor,
    locations: te.Tensor,
    anchors: te.Tensor,
    variances: Sequence[float],
    clip: bool,
    threshold: float,
    keep_background: bool,
) -> Any:
    """Class, score and box of every anchor that holds something, before rows of -1, and their number."""
    images, classes, count = scores.shape
    kind = locations.dtype
    first = 0 if keep_background else 1
    considered = te.compute(
        (images, classes - first, count), lambda i, k, j: scores[i, k + first, j], name="considered"
    )
    best = topi.max(considered, axis=1)
    which = topi.argmax(considered, axis=1)

    def row(i: Any, j: Any, column: Any) -> Any:
        score = best[i, j]
        chosen = tirx.all(score > tirx.const(-1, scores.dtype), which[i, j] + first > 0)
        certain = tirx.all(chosen, score >= tirx.const(threshold, scores.dtype))
        zero, removed = tirx.const(0.0, kind), tirx.const(0.0 if keep_background else -1.0, kind)
        identity = tirx.Select(certain, which[i, j].astype(kind), removed if not keep_background else zero)

        def corner(axis: int, sign: int) -> Any:
            low, high = anchors[0, j, axis], anchors[0, j, axis + 2]
            extent = high - low
            middle = (low + high) / tirx.const(2.0, kind)
            center = locations[i, j * 4 + axis] * tirx.const(variances[axis], kind) * extent + middle
            half = te.exp(locations[i, j * 4 + axis + 2] * tirx.const(variances[axis + 2], kind)) * extent
            value = center + half / tirx.const(2.0 * sign, kind)
            return te.max(zero, te.min(tirx.const(1.0, kind), value)) if clip else value

        entries = [identity, score.astype(kind), corner(0, -1), corner(1, -1), corner(0, 1), corner(1, 1)]
        value = entries[5]
        for position in range(4, -1, -1):
            value = tirx.Select(column == position, entries[position], value)
        return value

    rows = te.compute((images, count, 6), row, name="rows")
    lowest = float(np.finfo(str(kind)).min)
    valid, out, _ = topi.vision.get_valid_counts(rows, lowest, 0, 1)
    return [out, valid]


def _multibox_transform_loc(
    scope: Scope, operands: Sequence[Expression], attributes: Attributes
) -> Expression:
    scores, locations, anchors = operands
    if rank_of(scores) != 3 or rank_of(locations) != 2 or rank_of(anchors) != 3:
        raise ModelError("the operands must have 3, 2 and 3 dimensions")
    images, classes, count = static_extents(scores)
    if extents(locations) != (images, count * 4) or extents(anchors)[1:] != (count, 4):
        raise ModelError(f"locations and anchors do not fit {count} anchors of {images} images")
    if classes < 2 - attributes.keep_background:
        raise ModelError("there is no class beside the background")
    return scope.builder.call_te(
        _decoded,
        scores,
        locations,
        anchors,
        _floats(attributes.variances, "variances", 4),
        attributes.clip,
        attributes.threshold,
        attributes.keep_background,
        primfunc_name_hint="multibox_transform_loc",
    )


def _check_column(name: str, column: int, length: int, least: int = 0) -> None:
    if not least <= column < length:
        raise ModelError(f"{name} is {column}, but rows have {length} entries")


def _number(scope: Scope, value: Expression, what: str, dtype: str) -> Expression:
    """A typed value without dimensions, of ``dtype``."""
    if rank_of(value):
        raise ModelError(f"{what} is a number, not a tensor of {rank_of(value)} dimensions")
    return scope.emit(relax.op.astype(value, dtype))


def _check_rows(data: Expression) -> int:
    """How many entries the rows of boxes have."""
    if rank_of(data) != 3:
        raise ModelError(f"the data has {rank_of(data)} dimensions, not 3")
    if not dtype_of(data).startswith("float"):
        raise ModelError(f"the data is {dtype_of(data)}; it must be floating point")
    length = extents(data)[2]
    if not isinstance(length, int):
        raise ModelError("the last extent of the data must be known")
    return length


def _get_valid_counts(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data, threshold = operands
    length = _check_rows(data)
    _check_column("score_index", attributes.score_index, length)
    _check_column("id_index", attributes.id_index, length, -1)
    kind = dtype_of(data)
    threshold = relax.op.reshape(_number(scope, threshold, "score_threshold", kind), [1, 1])
    # Rows that do not count get a score of -1, so that the one comparison finds them.
    score = relax.op.strided_slice(data, [2], [attributes.score_index], [attributes.score_index + 1], [1])
    good = relax.op.greater(relax.op.squeeze(score, [2]), threshold)
    if attributes.id_index >= 0:
        identity = relax.op.strided_slice(data, [2], [attributes.id_index], [attributes.id_index + 1], [1])
        known = relax.op.greater_equal(relax.op.squeeze(identity, [2]), constant(np.array(0, kind)))
        good = relax.op.logical_and(good, known)
    return scope.builder.call_te(
        _compacted, data, scope.emit(good), length, primfunc_name_hint="get_valid_counts"
    )


def _compacted(data: te.Tensor, good: te.Tensor, length: int) -> Any:
    """How many rows are good, these rows in their order before rows of -1, and their indices."""
    images, count, _ = data.shape
    flagged = te.compute(
        (images, count, length + 1),
        lambda i, j, k: tirx.if_then_else(
            k == length, good[i, j].astype(data.dtype), data[i, j, te.min(k, length - 1)]
        ),
        name="flagged",
    )
    valid, rows, indices = topi.vision.get_valid_counts(flagged, 0.5, -1, length)
    kept = te.compute((images, count, length), lambda i, j, k: rows[i, j, k], name="kept")
    return [valid, kept, indices]


def _non_max_suppression(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data, valid_count, indices, limit, threshold = operands
    length = _check_rows(data)
    if rank_of(valid_count) != 1 or rank_of(indices) != 2:
        raise ModelError("valid_count must have 1 dimension and indices 2")
    for name in ("score_index", "coord_start"):
        _check_column(name, attributes[name], length)
    _check_column("coord_start + 3", attributes.coord_start + 3, length)
    _check_column("id_index", attributes.id_index, length, -1)

    def compute(*tensors: te.Tensor) -> Any:
        return suppress(
            *tensors,
            force=attributes.force_suppress,
            top_k=attributes.top_k,
            coordinates=attributes.coord_start,
            score=attributes.score_index,
            identity=attributes.id_index,
            return_indices=attributes.return_indices,
            to_top=attributes.invalid_to_bottom,
        )

    return scope.builder.call_te(
        compute,
        data,
        valid_count,
        indices,
        _number(scope, limit, "max_output_size", "int32"),
        _number(scope, threshold, "iou_threshold", dtype_of(data)),
        primfunc_name_hint="non_max_suppression",
    )


def _all_class(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    boxes, scores, limit, threshold, lowest = operands
    one_of(attributes.output_format, ("onnx",), "output_format")
    if rank_of(boxes) != 3 or rank_of(scores) != 3 or extents(boxes)[2] != 4:
        raise ModelError("boxes must have the shape (images, boxes, 4) and scores (images, classes, boxes)")
    if static_extents(boxes)[:2] != static_extents(scores)[::2]:
        raise ModelError("boxes and scores are not of the same images and boxes")
    return scope.builder.call_te(
        suppress_every_class,
        boxes,
        scores,
        _number(scope, limit, "max_output_boxes_per_class", "int32"),
        _number(scope, threshold, "iou_threshold", dtype_of(boxes)),
        _number(scope, lowest, "score_threshold", dtype_of(scores)),
        primfunc_name_hint="all_class_non_max_suppression",
    )


_SUPPRESSION = ("data", "valid_count", "indices", "max_output_size", "iou_threshold")
_ALL_CLASS = ("boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold")

ROWS: tuple[Operator, ...] = (
    Operator(
        "vision.multibox_prior",
        ("data",),
        _multibox_prior,
        "MultiBoxPriorAttrs",
        signature=("data, sizes=(1.0,), ratios=(1.0,), steps=(-1.0, -1.0), offsets=(0.5, 0.5), clip=False"),
        carried=True,
    ),
    Operator(
        "vision.multibox_transform_loc",
        ("cls_prob", "loc_pred", "anchor"),
        _multibox_transform_loc,
        "MultiBoxTransformLocAttrs",
        signature=(
            "cls_prob, loc_pred, anchor, clip=True, threshold=0.01, variances=(0.1, 0.1, 0.2, 0.2), "
            "keep_background=False"
        ),
        results=2,
        carried=True,
    ),
    Operator(
        "vision.get_valid_counts",
        ("data", "score_threshold"),
        _get_valid_counts,
        "GetValidCountsAttrs",
        signature="data, score_threshold, id_index=0, score_index=1",
        prepare=lambda data, score_threshold, **indices: ([data, score_threshold], indices),
        results=3,
        carried=True,
    ),
    Operator(
        "vision.non_max_suppression",
        _SUPPRESSION,
        _non_max_suppression,
        "NonMaximumSuppressionAttrs",
        signature=(
            "data, valid_count, indices, max_output_size=-1, iou_threshold=0.5, force_suppress=False, "
            "top_k=-1, coord_start=2, score_index=1, id_index=0, return_indices=True, invalid_to_bottom=False"
        ),
        results=lambda operands, attributes: 2 if attributes.get("return_indices", True) else None,
        carried=True,
    ),
    Operator(
        "vision.all_class_non_max_suppression",
        _ALL_CLASS,
        _all_class,
        "AllClassNonMaximumSuppressionAttrs",
        signature=(
            "boxes, scores, max_output_boxes_per_class=-1, iou_threshold=-1.0, score_threshold=-1.0, "
            "output_format='onnx'"
        ),
        results=2,
        carried=True,
    ),
)
