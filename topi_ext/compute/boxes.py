"""Non-maximum suppression: of boxes that overlap, the one with the best score."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx, topi
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written

_CHUNK = 16
"""Chosen boxes that a box is compared with at once; a vector or two."""

Rule = Callable[[Any, Any, Any], Any]
"""Whether a better box suppresses a box, by their overlap, the threshold, and the score of the box."""


def above(common: Any, threshold: Any, score: Any) -> Any:
    """The rule of ONNX: by overlaps above the threshold."""
    del score
    return common > threshold


def overlap(first: Sequence[Any], second: Sequence[Any], dtype: str) -> Any:
    """Intersection over union of boxes (left, top, right, bottom); 0 where they have no area in common."""
    zero = tirx.const(0.0, dtype)
    width = te.min(first[2], second[2]) - te.max(first[0], second[0])
    height = te.min(first[3], second[3]) - te.max(first[1], second[1])
    common = te.max(width, zero) * te.max(height, zero)
    union = _area(first) + _area(second) - common
    empty = tirx.any(common <= zero, union <= zero)
    return tirx.Select(empty, zero, common / tirx.Select(empty, tirx.const(1.0, dtype), union))


def _area(box: Sequence[Any]) -> Any:
    return (box[2] - box[0]) * (box[3] - box[1])


def from_corners(box: Sequence[Any]) -> list[Any]:
    """(left, top, right, bottom) of a box between any two opposite corners."""
    return [
        te.min(box[0], box[2]),
        te.min(box[1], box[3]),
        te.max(box[0], box[2]),
        te.max(box[1], box[3]),
    ]


def from_center(box: Sequence[Any]) -> list[Any]:
    """(left, top, right, bottom) of (x, y, width, height) around a center."""
    half = tirx.const(0.5, box[0].ty.dtype)
    sides = [size * half for size in box[2:]]
    return [box[0] - sides[0], box[1] - sides[1], box[0] + sides[0], box[1] + sides[1]]


def suppress_every_class(
    boxes: te.Tensor,
    scores: te.Tensor,
    limit: te.Tensor,
    threshold: te.Tensor,
    lowest: te.Tensor,
    *,
    most: int | None = None,
    suppresses: Rule = above,
    sides: Callable[[Sequence[Any]], list[Any]] = from_corners,
) -> list[te.Tensor]:
    """(image, class, box) of the boxes chosen for each class by falling score, and how many there are.

    ``boxes`` are (images, boxes, 4), ``scores`` (images, classes, boxes); only scores above the scalar
    ``lowest`` count. A class has at most ``limit`` boxes, a scalar int64, for which there is room where
    there is room for ``most``, by default for all. Of equal scores the first counts as the better.
    Gives int64 (images * classes * most, 3), of which the first rows are filled, and int64 of one element.
    """
    candidates = _candidates(scores, lowest)
    # Of the tensor itself: symbols of the graph have no value inside the function.
    most = scores.shape[2] if most is None else most
    chosen, number = _choose(boxes, candidates, limit, threshold, most, suppresses, sides)
    return _gather(chosen, number, candidates.classes, most)


@dataclass(frozen=True)
class _Candidates:
    """Boxes of each class of each image, ``valid`` of them: int32 (groups,), groups being images * classes.

    Their ``scores``, their int32 ``indices`` among the boxes and the ``order`` of falling scores are (groups,
    boxes).
    """

    classes: Any
    scores: te.Tensor
    indices: te.Tensor
    valid: te.Tensor
    order: te.Tensor


def _candidates(scores: te.Tensor, lowest: te.Tensor) -> _Candidates:
    """The boxes whose scores are above ``lowest``."""
    images, classes, count = scores.shape
    groups = images * classes

    def collect(scores: Any, lowest: Any, found: Any, indices: Any, valid: Any) -> None:
        with T.parallel(0, groups) as group:
            number = variable()
            number[0] = T.int32(0)
            with T.serial(0, count) as box:
                score = scores[group // classes, group % classes, box]
                with T.If(score > lowest[()]), T.Then():
                    found[group, number[0]] = score
                    indices[group, number[0]] = box.astype("int32")
                    number[0] = number[0] + 1
            valid[group] = number[0]

    listed = [((groups, count), scores.dtype), ((groups, count), "int32"), ((groups,), "int32")]
    found, indices, valid = written("candidates", [scores, lowest], listed, collect)
    order = topi.argsort(found, valid_count=valid, axis=1, is_ascend=False, dtype="int32")
    return _Candidates(classes, found, indices, valid, order)


def _choose(
    boxes: te.Tensor,
    candidates: _Candidates,
    limit: te.Tensor,
    threshold: te.Tensor,
    most: Any,
    suppresses: Rule,
    sides: Callable[[Sequence[Any]], list[Any]],
) -> tuple[te.Tensor, te.Tensor]:
    """The indices of the boxes that each class keeps, int32 (groups, at least most), and int64 (groups,)."""
    classes, groups, dtype = candidates.classes, candidates.valid.shape[0], boxes.dtype
    room = most + _CHUNK

    def choose(
        boxes: Any,
        found: Any,
        indices: Any,
        valid: Any,
        order: Any,
        limit: Any,
        threshold: Any,
        kept: Any,
        chosen: Any,
        number: Any,
    ) -> None:
        with T.parallel(0, groups) as group:
            candidate, next_chunk, hit = variable(), variable(), variable()
            box, score = [variable(dtype) for _ in range(4)], variable(dtype)

            def read(place: Any) -> None:
                score[0] = found[group, place].astype(dtype)
                corners = [boxes[group // classes, indices[group, place], corner] for corner in range(4)]
                for side, value in zip(box, sides(corners), strict=True):
                    side[0] = value

            def look_for_hit() -> None:
                """Among those kept, a chunk at a time, which ends in boxes without an area."""
                hit[0], next_chunk[0] = T.int32(0), T.int32(0)
                with T.While(tirx.all(hit[0] == 0, next_chunk[0] < number[group])):
                    with T.serial(0, _CHUNK) as lane:
                        other = [kept[group, side, next_chunk[0] + lane] for side in range(4)]
                        common = overlap([side[0] for side in box], other, dtype)
                        hit[0] = hit[0] | suppresses(common, threshold[()], score[0]).astype("int32")
                    next_chunk[0] = next_chunk[0] + _CHUNK

            def keep(place: Any) -> None:
                with T.If(number[group] % _CHUNK == 0), T.Then(), T.serial(0, _CHUNK) as lane:
                    # Boxes without an area, which overlap none.
                    for side in range(4):
                        kept[group, side, number[group] + lane] = tirx.const(0.0, dtype)
                for side in range(4):
                    kept[group, side, number[group]] = box[side][0]
                chosen[group, number[group]] = indices[group, place]
                number[group] = number[group] + T.int64(1)

            number[group] = T.int64(0)
            candidate[0] = T.int32(0)
            with T.While(tirx.all(candidate[0] < valid[group], number[group] < limit[()])):
                place = order[group, candidate[0]]
                read(place)
                look_for_hit()
                with T.If(hit[0] == 0), T.Then():
                    keep(place)
                candidate[0] = candidate[0] + 1

    per_group = [((groups, 4, room), dtype), ((groups, room), "int32"), ((groups,), "int64")]
    found = [candidates.scores, candidates.indices, candidates.valid, candidates.order]
    inputs = [boxes, *found, limit, threshold]
    _, chosen, number = written("chosen", inputs, per_group, choose)
    return chosen, number


def _gather(chosen: te.Tensor, number: te.Tensor, classes: Any, most: Any) -> list[te.Tensor]:
    """Rows (image, class, box) of all that is chosen, one after the other, and how many there are."""
    groups = number.shape[0]

    def gather(chosen: Any, number: Any, rows: Any, total: Any) -> None:
        total[0] = T.int64(0)
        with T.serial(0, groups) as group, T.serial(0, number[group]) as place:
            rows[total[0], 0] = (group // classes).astype("int64")
            rows[total[0], 1] = (group % classes).astype("int64")
            rows[total[0], 2] = chosen[group, place].astype("int64")
            total[0] = total[0] + T.int64(1)

    outputs = [((groups * most, 3), "int64"), ((1,), "int64")]
    return written("non_max_suppression", [chosen, number], outputs, gather)


__all__ = ["Rule", "above", "from_center", "from_corners", "overlap", "suppress_every_class"]
