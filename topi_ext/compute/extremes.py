"""The largest or smallest elements along axes, of data without limits."""

from collections.abc import Sequence
from math import inf

from tvm import te, tirx


def extreme(data: te.Tensor, axes: Sequence[int], keepdims: bool, *, largest: bool) -> te.Tensor:
    """Of floats ``data`` along ``axes``, which ``keepdims`` keeps with one element each.

    Of no element, and of infinities alone, the result is infinite; TVM's own begins with the largest number
    that is not.
    """
    better = tirx.max if largest else tirx.min

    def identity(dtype: str) -> tirx.Expr:
        return tirx.const(-inf if largest else inf, dtype)

    reduce = te.comm_reducer(lambda one, other: better(one, other), identity, name="extreme")
    reduced = {axis: te.reduce_axis((0, data.shape[axis]), f"k{axis}") for axis in axes}
    kept = [axis for axis in range(len(data.shape)) if keepdims or axis not in reduced]

    def element(*index: tirx.Var) -> tirx.Expr:
        places = {**dict(zip(kept, index, strict=True)), **reduced}
        return reduce(data(*(places[axis] for axis in range(len(data.shape)))), axis=list(reduced.values()))

    return te.compute([1 if axis in reduced else data.shape[axis] for axis in kept], element, name="extreme")


__all__ = ["extreme"]
