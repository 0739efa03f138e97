"""Non-maximum suppression: of overlapping boxes of a class, the one with the highest score is kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written
from topi_ext.compute.sorting import COUNTS, entry, place_of, sort_entries, sort_key

_CHUNK = 16
"""Kept boxes that a candidate is compared with at once: one or two vectors."""

Rule = Callable[[Any, Any, Any], Any]
"""From the overlap with a kept box, the threshold, and the score of a box: does the kept box suppress it?"""

ToCorners = Callable[[Sequence[Any]], list[Any]]
"""From the four numbers of a box as the tensor has them: (left, top, right, bottom)."""


def above(common: Any, threshold: Any, score: Any) -> Any:
    """The rule of ONNX: boxes are suppressed by overlaps above the threshold."""
    return common > threshold


def overlap(first: Sequence[Any], second: Sequence[Any], dtype: str) -> Any:
    """Intersection over union of two boxes (left, top, right, bottom); 0 if they do not intersect."""
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
    sides: ToCorners = from_corners,
) -> list[te.Tensor]:
    """Non-maximum suppression of each class by itself.

    ``boxes`` is (images, boxes, 4), ``scores`` (images, classes, boxes), both of floats; ``limit`` (int64),
    ``threshold`` and ``lowest`` are scalars. Only boxes with scores above ``lowest`` are candidates; of equal
    scores the first counts as higher. A class keeps at most ``limit`` boxes, which must not exceed ``most``,
    by default the number of boxes. Returns int64 (images * classes * most, 3), whose first rows are (image,
    class, box) of the kept boxes by class and falling score, and int64 (1,), the number of these rows.
    """
    # Of the tensor itself: symbols of the graph have no value inside the function.
    most = scores.shape[2] if most is None else most
    chosen, number = _Suppression(boxes, scores, most, suppresses, sides).kept(limit, threshold, lowest)
    return _gather(chosen, number, scores.shape[1], most)


def _candidates(scores: te.Tensor, lowest: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """The boxes of each group, a class of an image, whose scores are above the scalar ``lowest``.

    By falling score, as entries of :mod:`topi_ext.compute.sorting`, (images * classes, boxes), and how many
    there are, int32 (images * classes,).
    """
    images, classes, count = scores.shape
    groups = images * classes

    def collect(scores: Any, lowest: Any, entries: Any, valid: Any, other: Any, counts: Any) -> None:
        with T.parallel(0, groups) as group:
            number = variable()
            number[0] = T.int32(0)
            with T.serial(0, count) as box:
                score = scores[group // classes, group % classes, box]
                with T.If(score > lowest[()]), T.Then():
                    entries[group, number[0]] = entry(sort_key(score, largest=True), box)
                    number[0] = number[0] + 1
            sort_entries(entries, other, counts, group, number[0])
            valid[group] = number[0]

    entries = ((groups, count), "int64")
    outputs = [entries, ((groups,), "int32"), entries, ((groups, COUNTS), "int32")]
    found, valid, *_ = written("candidates", [scores, lowest], outputs, collect)
    return found, valid


@dataclass(frozen=True)
class _Suppression:
    """The suppression of the candidates of every group, each group in one thread."""

    boxes: te.Tensor
    scores: te.Tensor
    most: Any
    suppresses: Rule
    sides: ToCorners

    def kept(self, limit: te.Tensor, threshold: te.Tensor, lowest: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
        """The indices of the kept boxes, int32 (groups, at least most), and their number, int64 (groups,)."""
        found, valid = _candidates(self.scores, lowest)
        groups, dtype = valid.shape[0], self.boxes.dtype
        room = self.most + _CHUNK
        inputs = [self.boxes, self.scores, found, valid, limit, threshold]
        outputs = [((groups, 4, room), dtype), ((groups, room), "int32"), ((groups,), "int64")]

        def choose(*buffers: Any) -> None:
            buffers_of_group = _GroupBuffers(*buffers)
            with T.parallel(0, groups) as group:
                self._choose(buffers_of_group, group)

        _, chosen, number = written("chosen", inputs, outputs, choose)
        return chosen, number

    def _choose(self, at: "_GroupBuffers", group: Any) -> None:
        """Go through the candidates of a group by falling score, and keep those that no kept one
        suppresses.
        """
        dtype, classes = self.boxes.dtype, self.scores.shape[1]
        candidate, next_chunk, hit = variable(), variable(), variable()
        box, score = [variable(dtype) for _ in range(4)], variable(dtype)

        def read(place: Any) -> None:
            image, of_image = group // classes, group % classes
            score[0] = at.scores[image, of_image, place].astype(dtype)
            corners = [at.boxes[image, place, corner] for corner in range(4)]
            for side, value in zip(box, self.sides(corners), strict=True):
                side[0] = value

        def look_for_hit() -> None:
            """Compare with the kept boxes, a chunk at a time; the last chunk is filled with empty boxes."""
            hit[0], next_chunk[0] = T.int32(0), T.int32(0)
            with T.While(tirx.all(hit[0] == 0, next_chunk[0] < at.number[group])):
                with T.serial(0, _CHUNK) as lane:
                    other = [at.kept[group, side, next_chunk[0] + lane] for side in range(4)]
                    common = overlap([side[0] for side in box], other, dtype)
                    hit[0] = hit[0] | self.suppresses(common, at.threshold[()], score[0]).astype("int32")
                next_chunk[0] = next_chunk[0] + _CHUNK

        def keep(place: Any) -> None:
            with T.If(at.number[group] % _CHUNK == 0), T.Then(), T.serial(0, _CHUNK) as lane:
                # Fill the next chunk with empty boxes, which overlap none.
                for side in range(4):
                    at.kept[group, side, at.number[group] + lane] = tirx.const(0.0, dtype)
            for side in range(4):
                at.kept[group, side, at.number[group]] = box[side][0]
            at.chosen[group, at.number[group]] = place
            at.number[group] = at.number[group] + T.int64(1)

        at.number[group] = T.int64(0)
        candidate[0] = T.int32(0)
        with T.While(tirx.all(candidate[0] < at.valid[group], at.number[group] < at.limit[()])):
            place = place_of(at.entries[group, candidate[0]])
            read(place)
            look_for_hit()
            with T.If(hit[0] == 0), T.Then():
                keep(place)
            candidate[0] = candidate[0] + 1


class _GroupBuffers(NamedTuple):
    """The buffers of :meth:`_Suppression.kept`: inputs, and what is written."""

    boxes: Any
    scores: Any
    entries: Any
    valid: Any
    limit: Any
    threshold: Any
    kept: Any
    """(groups, 4, room): the sides of the kept boxes, in chunks."""

    chosen: Any
    """(groups, room): their indices."""

    number: Any
    """(groups,): how many there are."""


def _gather(chosen: te.Tensor, number: te.Tensor, classes: Any, most: Any) -> list[te.Tensor]:
    """(image, class, box) of the kept boxes of all groups, one after the other, and how many there are."""
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
