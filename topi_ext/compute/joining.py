"""Concatenation of tensors whose extents are known late."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from tvm import te
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import written


def joined(tensors: Sequence[te.Tensor], axis: int) -> te.Tensor:
    """``tensors``, which differ in their extents along ``axis`` at most, as one: copied one after the other.

    An expression for each element would compare its place with the end of every tensor.
    """
    ends = [tensors[0].shape[axis]]
    for tensor in tensors[1:]:
        ends.append(ends[-1] + tensor.shape[axis])
    shape = [*tensors[0].shape[:axis], ends[-1], *tensors[0].shape[axis + 1 :]]

    def body(*buffers: Any) -> None:
        *sources, result = buffers
        for place, (tensor, source) in enumerate(zip(tensors, sources, strict=True)):
            begin = ends[place - 1] if place else 0
            with ExitStack() as loops:
                index = [loops.enter_context(T.serial(0, extent)) for extent in tensor.shape]
                moved = [*index[:axis], index[axis] + begin, *index[axis + 1 :]]
                result[tuple(moved)] = source[tuple(index)]

    return written("joined", list(tensors), [(shape, tensors[0].dtype)], body)


__all__ = ["joined"]
