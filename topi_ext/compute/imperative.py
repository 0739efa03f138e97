"""Computes whose order matters, written as statements of TVM's own script."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T


def written(
    name: str,
    inputs: Sequence[te.Tensor],
    outputs: Sequence[tuple[Sequence[Any], str]],
    body: Callable[..., None],
) -> Any:
    """Tensors, of shapes and dtypes ``outputs``, that ``body`` fills; it gets each input, then each output.

    One tensor for one output, otherwise a list.
    """

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


def variable(dtype: str = "int32") -> Any:
    """A variable of the statements: an array of one element."""
    return T.buffer_proxy(T.alloc_buffer((1,), dtype, scope="local"))


def _buffer(name: str, shape: Sequence[Any], dtype: str) -> Any:
    return tirx.decl_buffer(shape, dtype, name, layout=None)
