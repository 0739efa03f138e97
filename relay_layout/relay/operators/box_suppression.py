"""Suppression of overlapping boxes, written for TVM's own loops with Relay's rules and order."""

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.boxes import from_corners, overlap
from topi_ext.compute.boxes import suppress_every_class as every_class
from topi_ext.compute.imperative import variable, written
from topi_ext.compute.sorting import falling_order


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

    ``data`` [B, N, K] of floats has rows with a ``score``, four ``coordinates`` and maybe a class
    (``identity``, -1 for none), each a place in a row. ``valid_count`` [B] says how many rows there are,
    ``indices`` [B, N] what each is called; ``limit`` and ``threshold`` have no dimensions. Gives int32
    indices [B, N] and how many there are [B, 1], or the rows [B, N, K]; what is dropped is -1.
    """
    batch, count, _ = data.shape
    scores = te.compute((batch, count), lambda i, j: data[i, j, score], name="scores")
    order = falling_order(scores, valid_count)
    columns = _Columns(score, coordinates, identity)

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
        with T.parallel(0, batch) as i:
            kept, good, present = variable(), variable(), variable()
            result = _Result(i, rows, found, columns)
            kept[0] = T.int32(0)
            present[0] = te.max(te.min(valid[i].astype("int32"), count.astype("int32")), T.int32(0))
            result.begin(data, order, present[0], threshold, top_k)
            with T.If(threshold[()] > 0), T.Then(), T.serial(0, present[0]) as j:
                full = kept[0] == limit[()]
                with T.If(full):
                    with T.Then():
                        result.clear(j)
                    with T.Else(), T.If(rows[i, j, score] > 0), T.Then():
                        result.drop_overlapping(j, kept, good, threshold, force=force)
            if return_indices:
                result.list_indices(count, indices, kept, good)
            total[i, 0] = kept[0]

    outputs = [(data.shape, data.dtype), ((batch, count), "int32"), ((batch, 1), "int32")]
    inputs = [data, order, valid_count, indices, limit, threshold]
    rows, found, total = written("non_max_suppression", inputs, outputs, body)
    if return_indices:
        return [found, total]
    return _moved_to_top(rows) if to_top else rows


@dataclass(frozen=True)
class _Columns:
    """Where a row has its score, its four coordinates from there on, and its class, or -1."""

    score: int
    coordinates: int
    identity: int


@dataclass(frozen=True)
class _Result:
    """What is found of one ``image``, as statements write it: rows of boxes, and their places in the data."""

    image: Any
    rows: Any
    found: Any
    columns: _Columns

    def clear(self, place: Any) -> None:
        """No box at a place."""
        with T.serial(0, self.rows.shape[2]) as k:
            self.rows[self.image, place, k] = tirx.const(-1.0, self.rows.dtype)
        self.found[self.image, place] = T.int32(-1)

    def begin(self, data: Any, order: Any, present: Any, threshold: Any, top_k: int) -> None:
        """The ``present`` boxes, or the first ``top_k`` in their order; as they come without a threshold."""
        considered = tirx.Select(tirx.all(top_k > 0, top_k < present), T.int32(max(top_k, 0)), present)
        with T.serial(0, self.rows.shape[1]) as j, T.If(threshold[()] > 0):
            with T.Then(), T.If(j < considered):
                with T.Then():
                    self.copy(j, data, order[self.image, j])
                with T.Else():
                    self.clear(j)
            with T.Else(), T.If(j < present):
                with T.Then():
                    self.copy(j, data, j.astype("int32"))
                with T.Else():
                    self.clear(j)

    def copy(self, place: Any, data: Any, source: Any) -> None:
        """The box that is the data's ``source``."""
        with T.serial(0, self.rows.shape[2]) as k:
            self.rows[self.image, place, k] = data[self.image, source, k]
        self.found[self.image, place] = source

    def drop_overlapping(self, place: Any, kept: Any, good: Any, threshold: Any, *, force: bool) -> None:
        """No box where one before overlaps it, and otherwise one more that is ``kept``.

        Only those of the same class count, unless ``force``.
        """
        i, rows, columns = self.image, self.rows, self.columns
        good[0] = T.int32(1)
        with T.serial(0, place) as k:
            conditions = [good[0] == 1, rows[i, k, columns.score] > 0]
            if columns.identity >= 0:
                conditions.append(rows[i, k, columns.identity] >= 0)
                if not force:
                    conditions.append(rows[i, place, columns.identity] == rows[i, k, columns.identity])
            with T.If(tirx.all(*conditions)), T.Then():
                box, other = (
                    from_corners([rows[i, row, columns.coordinates + corner] for corner in range(4)])
                    for row in (place, k)
                )
                with T.If(overlap(box, other, rows.dtype) >= threshold[()]), T.Then():
                    good[0] = T.int32(0)
        with T.If(good[0] == 0):
            with T.Then():
                self.clear(place)
            with T.Else():
                kept[0] = kept[0] + 1

    def list_indices(self, count: Any, indices: Any, kept: Any, index: Any) -> None:
        """``found`` becomes the ``indices`` of boxes that are left, without gaps, and ``kept`` how many."""
        i, found = self.image, self.found
        kept[0] = T.int32(0)
        with T.serial(0, count) as j, T.If(found[i, j] >= 0), T.Then():
            index[0] = indices[i, found[i, j]].astype("int32")
            found[i, kept[0]] = index[0]
            kept[0] = kept[0] + 1
        with T.serial(0, count) as j, T.If(j >= kept[0]), T.Then():
            found[i, j] = T.int32(-1)


def _moved_to_top(rows: te.Tensor) -> te.Tensor:
    """Rows whose first entry is not negative, in their order, before rows of -1."""
    batch, count, length = rows.shape

    def body(rows: Any, out: Any) -> None:
        with T.parallel(0, batch) as i:
            kept = variable()
            kept[0] = T.int32(0)
            with T.serial(0, count) as j, T.If(rows[i, j, 0] >= 0), T.Then():
                with T.serial(0, length) as k:
                    out[i, kept[0], k] = rows[i, j, k]
                kept[0] = kept[0] + 1
            with T.serial(0, count) as j, T.If(j >= kept[0]), T.Then(), T.serial(0, length) as k:
                out[i, j, k] = tirx.const(-1.0, rows.dtype)

    return written("rearrange", [rows], [(rows.shape, rows.dtype)], body)


def suppress_every_class(
    boxes: te.Tensor, scores: te.Tensor, limit: te.Tensor, threshold: te.Tensor, lowest: te.Tensor
) -> Any:
    """(image, class, box) of the boxes chosen for each class by falling score, and how many there are.

    ``boxes`` are (images, boxes, 4), ``scores`` (images, classes, boxes); only scores over ``lowest`` count.
    Rows beyond are zero. There is no ``limit`` if it is not positive, and nothing without a ``threshold``.
    """
    count = scores.shape[2].astype("int64")

    def most() -> Any:
        given = limit[()].astype("int64")
        counted = tirx.Select(given <= 0, count, given)
        return tirx.Select(threshold[()] > 0, counted, tirx.const(0, "int64"))

    def rule(common: Any, least: Any, score: Any) -> Any:
        # A score that is not positive is never suppressed.
        return tirx.all(score > 0, common >= least)

    rows, total = every_class(
        boxes, scores, te.compute((), most, name="limit"), threshold, lowest, suppresses=rule
    )
    filled = te.compute(
        rows.shape,
        lambda row, column: tirx.if_then_else(row < total[0], rows[row, column], tirx.const(0, "int64")),
        name="filled",
    )
    return [filled, total]
