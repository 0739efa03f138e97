"""Computes whose order matters, written as statements of TVM's own script."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

_REGISTER = 16
"""Elements, of which no register of a processor holds more."""

_LONGEST = 4 * _REGISTER
"""Elements of a vector, which are in 4 registers of AVX-512 or 16 of NEON, half of all."""


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


def variable(dtype: str = "int32", lanes: int = 1) -> Any:
    """A variable of the statements: an array of one element, or of as many as a vector has ``lanes``."""
    return T.buffer_proxy(T.alloc_buffer((lanes,), dtype, scope="local"))


def view_of(buffer: Any, shape: Sequence[Any], dtype: str) -> Any:
    """The elements of a buffer, of which there are as many, by indices of another shape."""
    return T.buffer_proxy(T.decl_buffer(shape, dtype, data=buffer.data, layout=None))


def vectors(extent: int) -> Iterator[tuple[Any, int]]:
    """All of ``extent`` neighbours in vectors of whole registers: the first place of each, and its lanes.

    The statements for each are written in the body of the Python loop over them.
    """
    if extent >= _LONGEST:
        with T.serial(0, extent // _LONGEST) as number:
            yield number * _LONGEST, _LONGEST
    begin = extent // _LONGEST * _LONGEST
    if lanes := (extent - begin) // _REGISTER * _REGISTER:
        yield begin, lanes
    if rest := extent - begin - lanes:
        yield begin + lanes, rest


@contextmanager
def loops(shape: Sequence[Any], known: Mapping[int, Any] | None = None) -> Iterator[list[Any]]:
    """Loops over all extents, one in the other, but those of dimensions whose place is known."""
    known = known or {}
    with ExitStack() as stack:
        yield [
            known[at] if at in known else stack.enter_context(T.serial(0, extent))
            for at, extent in enumerate(shape)
        ]


def by_threads_where(is_large: Any, write: Callable[[Callable[..., Any]], None]) -> None:
    """The statements that ``write`` writes for a kind of loop: a parallel one where a condition holds."""
    with T.If(is_large):
        with T.Then():
            write(T.parallel)
        with T.Else():
            write(T.serial)


def _buffer(name: str, shape: Sequence[Any], dtype: str) -> Any:
    return tirx.decl_buffer(shape, dtype, name, layout=None)
