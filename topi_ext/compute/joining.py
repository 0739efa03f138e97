"""Concatenation of tensors whose extents are known late."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written


def joined(tensors: Sequence[te.Tensor], axis: int) -> te.Tensor:
    """``tensors``, which differ in their extents along ``axis`` at most, as one: copied one after the other.

    An expression for each element would compare its place with the end of every tensor.
    """
    extents = [tensor.shape[axis] for tensor in tensors]
    shape = [*tensors[0].shape[:axis], sum(extents[1:], extents[0]), *tensors[0].shape[axis + 1 :]]

    def body(*buffers: Any) -> None:
        *sources, result = buffers
        # A sum of all extents so far would be as long as there are tensors, for each of them.
        begin = variable("int64")
        begin[0] = tirx.const(0, "int64")
        for tensor, extent, source in zip(tensors, extents, sources, strict=True):
            with ExitStack() as loops:
                index = [loops.enter_context(T.serial(0, extent)) for extent in tensor.shape]
                moved = [*index[:axis], index[axis] + begin[0], *index[axis + 1 :]]
                result[tuple(moved)] = source[tuple(index)]
            begin[0] = begin[0] + extent

    return written("joined", list(tensors), [(shape, tensors[0].dtype)], body)


__all__ = ["joined"]
