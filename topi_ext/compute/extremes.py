"""The largest or smallest elements along axes, of data without limits."""

from collections.abc import Sequence

from tvm import te, tirx

from topi_ext.codegen.infinite_extremes import INFINITE


def extreme(data: te.Tensor, axes: Sequence[int], keepdims: bool, *, largest: bool) -> te.Tensor:
    """The extreme of floats ``data`` along ``axes``, which ``keepdims`` keeps with one element each.

    Of no element, and of infinities alone, the result is infinite once machine code is generated.
    """
    reduce = te.max if largest else te.min
    reduced = {axis: te.reduce_axis((0, data.shape[axis]), f"k{axis}") for axis in axes}
    kept = [axis for axis in range(len(data.shape)) if keepdims or axis not in reduced]

    def element(*index: tirx.Var) -> tirx.Expr:
        places = {**dict(zip(kept, index, strict=True)), **reduced}
        return reduce(data(*(places[axis] for axis in range(len(data.shape)))), axis=list(reduced.values()))

    shape = [1 if axis in reduced else data.shape[axis] for axis in kept]
    return te.compute(shape, element, name="extreme", attrs={INFINITE: 1})


def first_place(data: te.Tensor, keepdims: bool, *, largest: bool) -> te.Tensor:
    """The place of the largest or smallest element along the last axis, int64; the first of several.

    Found as the first element that equals the extreme, which vectors do: that of pairs of an element and its
    place is not taken by any. 0 where no element is a number.
    """
    axis, length = len(data.shape) - 1, data.shape[-1]
    limit = extreme(data, [axis], True, largest=largest)
    place = te.reduce_axis((0, length), "place")
    rows = [*data.shape[:-1], 1] if keepdims else list(data.shape[:-1])
    none = tirx.max_value("int32")

    def first(*index: tirx.Var) -> tirx.Expr:
        row = index[:axis]
        found = tirx.Select(data(*row, place) == limit(*row, 0), place.var.astype("int32"), none)
        return te.min(found, axis=place)

    places = te.compute(rows, first, name="places")
    zero = tirx.const(0, "int64")
    return te.compute(
        rows,
        lambda *index: tirx.Select(places(*index) == none, zero, places(*index).astype("int64")),
        name="first_place",
    )
