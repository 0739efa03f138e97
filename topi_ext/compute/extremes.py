"""The largest or smallest elements along axes, of data without limits."""

from collections.abc import Sequence

from tvm import te, tirx

from topi_ext.codegen.identities import EXTREME


def extreme(data: te.Tensor, axes: Sequence[int], keepdims: bool, *, largest: bool) -> te.Tensor:
    """Of floats ``data`` along ``axes``, which ``keepdims`` keeps with one element each.

    Of no element, and of infinities alone, the result is infinite once machine code is generated.
    """
    reduce = te.max if largest else te.min
    reduced = {axis: te.reduce_axis((0, data.shape[axis]), f"k{axis}") for axis in axes}
    kept = [axis for axis in range(len(data.shape)) if keepdims or axis not in reduced]

    def element(*index: tirx.Var) -> tirx.Expr:
        places = {**dict(zip(kept, index, strict=True)), **reduced}
        return reduce(data(*(places[axis] for axis in range(len(data.shape)))), axis=list(reduced.values()))

    return te.compute([1 if axis in reduced else data.shape[axis] for axis in kept], element, name=EXTREME)


__all__ = ["extreme"]
