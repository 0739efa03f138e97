"""Suppression of overlapping boxes, written for TVM's own loops with Relay's rules and order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T


def _buffer(name: str, shape: Sequence[Any], dtype: str) -> Any:
    return tirx.decl_buffer(shape, dtype, name, layout=None)


def _extern(
    name: str,
    inputs: Sequence[te.Tensor],
    outputs: Sequence[tuple[Sequence[Any], str]],
    body: Callable[..., None],
) -> Any:
    """Tensors that ``body`` fills; it gets a proxy for each input and output."""

    def generate(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            # One loop around it all, for the builder takes one statement.
            with T.serial(0, 1):
                body(*(T.buffer_proxy(buffer) for buffer in (*ins, *outs)))
            return builder.get()

    return te.extern(
        [shape for shape, _ in outputs],
        list(inputs),
        generate,
        dtype=[dtype for _, dtype in outputs],
        in_buffers=[_buffer(f"in{i}", tensor.shape, tensor.dtype) for i, tensor in enumerate(inputs)],
        out_buffers=[_buffer(f"out{i}", shape, dtype) for i, (shape, dtype) in enumerate(outputs)],
        name=name,
    )


def _local(dtype: str = "int32") -> Any:
    return T.buffer_proxy(T.alloc_buffer((1,), dtype, scope="local"))


def _overlap(first: Sequence[Any], second: Sequence[Any], dtype: str) -> Any:
    """Intersection over union of boxes between any two opposite corners; 0 where neither has an area."""
    zero = tirx.const(0.0, dtype)

    def sides(box: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        return te.min(box[0], box[2]), te.min(box[1], box[3]), te.max(box[0], box[2]), te.max(box[1], box[3])

    left, top, right, bottom = sides(first)
    left2, top2, right2, bottom2 = sides(second)
    width = te.max(zero, te.min(right, right2) - te.max(left, left2))
    height = te.max(zero, te.min(bottom, bottom2) - te.max(top, top2))
    area = height * width
    union = (right - left) * (bottom - top) + (right2 - left2) * (bottom2 - top2) - area
    return tirx.Select(union <= zero, zero, area / tirx.Select(union <= zero, tirx.const(1.0, dtype), union))


def suppress(
    data: te.Tensor,
    valid_count: te.Tensor,
    indices: te.Tensor,
    limit: te.Tensor,
    threshold: te.Tensor,
    *,
    force: bool,
    top_k: int,
    coordinates: int,
    score: int,
    identity: int,
    return_indices: bool,
    to_top: bool,
) -> Any:
    """Boxes by falling score, without those that overlap a better one of the same class.

    ``data`` has rows of ``score``, four ``coordinates`` and maybe a class (``identity``, -1 for none). Gives
    indices and how many there are, or the rows; what is dropped is -1.
    """
    batch, count, length = data.shape
    kind = data.dtype
    scores = te.compute((batch, count), lambda i, j: data[i, j, score], name="scores")
    order = topi.argsort(scores, valid_count=valid_count, axis=1, is_ascend=False, dtype="int32")

    def body(
        data: Any,
        order: Any,
        valid: Any,
        indices: Any,
        limit: Any,
        threshold: Any,
        rows: Any,
        found: Any,
        total: Any,
    ) -> None:
        def clear(i: Any, j: Any) -> None:
            with T.serial(0, length) as k:
                rows[i, j, k] = tirx.const(-1.0, kind)
            found[i, j] = T.int32(-1)

        def copy(i: Any, j: Any, source: Any) -> None:
            with T.serial(0, length) as k:
                rows[i, j, k] = data[i, source, k]
            found[i, j] = source

        def drop_overlapping(i: Any, j: Any, kept: Any, good: Any) -> None:
            good[0] = T.int32(1)
            with T.serial(0, j) as k:
                conditions = [good[0] == 1, rows[i, k, score] > 0]
                if identity >= 0:
                    conditions.append(rows[i, k, identity] >= 0)
                    if not force:
                        conditions.append(rows[i, j, identity] == rows[i, k, identity])
                with T.If(tirx.all(*conditions)), T.Then():
                    boxes = [[rows[i, row, coordinates + corner] for corner in range(4)] for row in (j, k)]
                    with T.If(_overlap(boxes[0], boxes[1], kind) >= threshold[()]), T.Then():
                        good[0] = T.int32(0)
            with T.If(good[0] == 0):
                with T.Then():
                    clear(i, j)
                with T.Else():
                    kept[0] = kept[0] + 1

        with T.parallel(0, batch) as i:
            kept, good, present = _local(), _local(), _local()
            kept[0] = T.int32(0)
            present[0] = te.max(te.min(valid[i].astype("int32"), count.astype("int32")), T.int32(0))
            considered = tirx.Select(
                tirx.all(top_k > 0, top_k < present[0]), T.int32(max(top_k, 0)), present[0]
            )
            with T.serial(0, count) as j, T.If(threshold[()] > 0):
                with T.Then(), T.If(j < considered):
                    with T.Then():
                        copy(i, j, order[i, j])
                    with T.Else():
                        clear(i, j)
                with T.Else(), T.If(j < present[0]):
                    with T.Then():
                        copy(i, j, j.astype("int32"))
                    with T.Else():
                        clear(i, j)
            with T.If(threshold[()] > 0), T.Then(), T.serial(0, present[0]) as j:
                full = kept[0] == limit[()]
                with T.If(full):
                    with T.Then():
                        clear(i, j)
                    with T.Else(), T.If(rows[i, j, score] > 0), T.Then():
                        drop_overlapping(i, j, kept, good)
            if return_indices:
                kept[0] = T.int32(0)
                with T.serial(0, count) as j, T.If(found[i, j] >= 0), T.Then():
                    good[0] = indices[i, found[i, j]].astype("int32")
                    found[i, kept[0]] = good[0]
                    kept[0] = kept[0] + 1
                with T.serial(0, count) as j, T.If(j >= kept[0]), T.Then():
                    found[i, j] = T.int32(-1)
            total[i, 0] = kept[0]

    outputs = [(data.shape, kind), ((batch, count), "int32"), ((batch, 1), "int32")]
    inputs = [data, order, valid_count, indices, limit, threshold]
    rows, found, total = _extern("non_max_suppression", inputs, outputs, body)
    if return_indices:
        return [found, total]
    return _moved_to_top(rows) if to_top else rows


def _moved_to_top(rows: te.Tensor) -> te.Tensor:
    """Rows whose first entry is not negative, in their order, before rows of -1."""
    batch, count, length = rows.shape

    def body(rows: Any, out: Any) -> None:
        with T.parallel(0, batch) as i:
            kept = _local()
            kept[0] = T.int32(0)
            with T.serial(0, count) as j, T.If(rows[i, j, 0] >= 0), T.Then():
                with T.serial(0, length) as k:
                    out[i, kept[0], k] = rows[i, j, k]
                kept[0] = kept[0] + 1
            with T.serial(0, count) as j, T.If(j >= kept[0]), T.Then(), T.serial(0, length) as k:
                out[i, j, k] = tirx.const(-1.0, rows.dtype)

    return _extern("rearrange", [rows], [(rows.shape, rows.dtype)], body)


def suppress_every_class(
    boxes: te.Tensor, scores: te.Tensor, limit: te.Tensor, threshold: te.Tensor, lowest: te.Tensor
) -> Any:
    """(image, class, box) of the boxes chosen for each class by falling score, and how many there are.

    ``boxes`` are (images, boxes, 4), ``scores`` (images, classes, boxes); only scores over ``lowest`` count.
    """
    images, classes, count = scores.shape
    flat = te.compute(
        (images * classes, count), lambda i, j: scores[i // classes, i % classes, j], name="flat"
    )
    order = topi.argsort(flat, axis=1, is_ascend=False, dtype="int32")

    def body(
        boxes: Any, flat: Any, order: Any, limit: Any, threshold: Any, lowest: Any, out: Any, total: Any
    ) -> None:
        first, good = _local("int64"), _local()
        total[0] = T.int64(0)
        with T.serial(0, images * classes * count) as row, T.serial(0, 3) as column:
            out[row, column] = T.int64(0)
        with T.serial(0, images * classes) as i:
            first[0] = total[0]
            with T.serial(0, count) as j:
                score = flat[i, order[i, j]]
                with (
                    T.If(
                        tirx.all(
                            threshold[()] > 0,
                            score > lowest[()],
                            tirx.any(limit[()] <= 0, total[0] - first[0] < limit[()].astype("int64")),
                        )
                    ),
                    T.Then(),
                ):
                    good[0] = T.int32(1)
                    with T.serial(0, total[0] - first[0]) as k:
                        other = out[first[0] + k, 2]
                        pair = [
                            [boxes[i // classes, box, corner] for corner in range(4)]
                            for box in (order[i, j], other)
                        ]
                        # A score that is not positive is never suppressed.
                        with (
                            T.If(
                                tirx.all(score > 0, _overlap(pair[0], pair[1], boxes.dtype) >= threshold[()])
                            ),
                            T.Then(),
                        ):
                            good[0] = T.int32(0)
                    with T.If(good[0] == 1), T.Then():
                        out[total[0], 0] = (i // classes).astype("int64")
                        out[total[0], 1] = (i % classes).astype("int64")
                        out[total[0], 2] = order[i, j].astype("int64")
                        total[0] = total[0] + T.int64(1)

    outputs = [((images * classes * count, 3), "int64"), ((1,), "int64")]
    inputs = [boxes, flat, order, limit, threshold, lowest]
    return _extern("all_class_non_max_suppression", inputs, outputs, body)
