"""Tiles in shared memory whose rows lie in different banks without padding.

Rows of a tile are 2, 4 or 8 chunks of 16 bytes, so that 4, 2 or 1 rows fill a line of 32 banks. Chunk ``c``
of the row ``r`` lies where chunk ``c ^ (r // rows of a line) % chunks`` would. A copy of a whole line still
meets each bank once, and so do the eight rows that ldmatrix reads at the same chunk. (The permutation is that
of CUTLASS's and cuDNN's layouts; see NVIDIA, "CUTLASS: Efficient GEMM in CUDA", shared memory layouts. wgmma
has it built in for rows of each length.)

A schedule asks for it by rows of a power of two: other rows are left as they are.
"""

from collections.abc import Callable
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, Op
from tvm.ir.expr import TensorLoad
from tvm_ffi import structural_map, structural_walk

from topi_ext.codegen.passes import function_pass
from topi_ext.cuda.codegen.device_functions import called
from topi_ext.cuda.codegen.statements import ASYNC_COPY, holds
from topi_ext.cuda.codegen.wgmma import MULTIPLY, row_bytes_of
from topi_ext.cuda.codegen.wide_copies import is_multiple
from topi_ext.cuda.workload import COPY_BYTES
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.ir import repeated

LINE_BYTES = 128
"""What the banks of shared memory hold side by side."""

SWIZZLED_ROWS = (32, 64, 128)
"""Bytes of the rows of a tile that ldmatrix or wgmma reads."""

_LDMATRIX = Op.get("tirx.ptx_legacy.ldmatrix")


@function_pass
def swizzle_tiles(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Permute the chunks that ldmatrix or wgmma reads, and that copies from global memory write, asynchronous
    or not.

    Expects device functions with flat buffers, their tiles at offsets of whole tiles.
    """
    rows = _row_bytes(func.body)
    if rows not in SWIZZLED_ROWS:
        return func
    staged = _staged(func.body)
    moved = [
        (Call, lambda call: _moved(call, rows)),
        (tirx.BufferStore, lambda store: _stored(store, rows, staged)),
    ]
    return func.with_body(structural_map(func.body, moved))


def _row_bytes(body: Any) -> int:
    """How far apart the rows are that ldmatrix or wgmma reads; 0 where nothing is read so, or not by equal
    rows.
    """
    found: set[int] = set()

    def visit(call: Call) -> None:
        if call.op.same_as(_LDMATRIX):
            found.add(_stride(call.args[6]) * _bytes(call.args[5].args[0]))
        elif called(call).startswith(MULTIPLY):
            found.add(row_bytes_of(int(call.args[4])))

    structural_walk(body, (Call, visit))
    return found.pop() if len(found) == 1 else 0


def _stride(rows: Any) -> int:
    """Elements from the row that the first lane names to that of the second."""
    first, second = (_of_lane(rows, lane) for lane in range(2))
    return int(tvm.sym.Analyzer().simplify(second - first))


def _of_lane(rows: Any, lane: int) -> Any:
    number = tirx.const(lane, "int32")
    return structural_map(rows, (tirx.Var, lambda _: number))


def _bytes(typed: Any) -> int:
    return DTYPE_BYTES[str(typed.ty.dtype)]


def _moved(call: Call, row_bytes: int) -> Any:
    if call.op.same_as(ASYNC_COPY):
        arguments = list(call.args)
        size = DTYPE_BYTES[str(call.ty.dtype)]
        arguments[1] = _swizzled(arguments[1], row_bytes // size, COPY_BYTES // size)
    elif call.op.same_as(_LDMATRIX):
        arguments = list(call.args)
        size = _bytes(arguments[5].args[0])
        arguments[6] = _rows(arguments[5].args[2], arguments[6], row_bytes // size, COPY_BYTES // size)
    else:
        return call
    return Call(call.op, arguments, call.attrs, call.ty_args, ret_ty=call.ty)


def _staged(body: Any) -> list[Any]:
    """The registers through which copies from global to shared memory pass."""
    found: list[Any] = []

    def visit(store: tirx.BufferStore) -> None:
        if store.buffer.scope() == "local" and _reads(store.value, _is_global):
            found.append(store.buffer)

    structural_walk(body, (tirx.BufferStore, visit))
    return found


def _is_global(buffer: Any) -> bool:
    return buffer.scope() in ("", "global")


def _stored(store: tirx.BufferStore, row_bytes: int, staged: list[Any]) -> Any:
    """A copy that is no asynchronous one: the architecture has none, or values are converted, or they are a
    constant that surrounds the image.
    """

    def is_copied(buffer: Any) -> bool:
        return _is_global(buffer) or any(buffer.same_as(found) for found in staged)

    value = repeated(store.value)
    is_constant = isinstance(value, tirx.IntImm | tirx.FloatImm)
    if not store.buffer.scope().startswith("shared") or not (is_constant or _reads(value, is_copied)):
        return store
    scalar, _, lanes = str(store.buffer.dtype).partition("x")
    size = DTYPE_BYTES[scalar] * int(lanes or 1)
    index = tvm.sym.Analyzer().simplify(store.indices[0])
    ramp = isinstance(index, tirx.Ramp)
    place = _swizzled(index.base if ramp else index, row_bytes // size, COPY_BYTES // size)
    moved = tirx.Ramp(place, index.stride, index.lanes) if ramp else place
    return tirx.BufferStore(store.buffer, store.value, [moved])


def _reads(value: Any, is_meant: Callable[[Any], bool]) -> bool:
    """Does an expression read a buffer that is meant?"""
    return holds(value, TensorLoad, lambda load: is_meant(load.source))


def _swizzled(offset: Any, row: int, chunk: int) -> Any:
    """Where the element at ``offset`` lies; all in elements.

    What is a multiple of the rows after which the permutation begins anew is added behind it, so that threads
    compute the permutation once for all copies.
    """
    line = row * max(1, LINE_BYTES // COPY_BYTES * chunk // row)
    chunks = row // chunk
    whole, rest = tirx.const(0, "int32"), tirx.const(0, "int32")
    for part in _addends(tvm.sym.Analyzer().simplify(offset)):
        if is_multiple(part, line * chunks):
            whole = whole + part
        else:
            rest = rest + part
    term = tirx.bitwise_and(tirx.floordiv(rest, line), chunks - 1)
    return whole + tirx.bitwise_xor(rest, term * chunk)


def _addends(expression: Any) -> list[Any]:
    if isinstance(expression, tirx.Add):
        return [*_addends(expression.a), *_addends(expression.b)]
    return [expression]


def _rows(begin: Any, rows: Any, row: int, chunk: int) -> Any:
    """The elements from ``begin``, that of a fragment, to where the chunks that ``rows`` names lie.

    Fragments begin at a multiple of 16 rows, so that the permutation depends on the lane alone.
    """
    analyzer = tvm.sym.Analyzer()
    column = analyzer.simplify(tirx.floormod(begin, row))
    line = row * max(1, LINE_BYTES // COPY_BYTES * chunk // row)
    term = tirx.bitwise_and(tirx.floordiv(rows, line), row // chunk - 1)
    inside = tirx.floormod(rows, row)
    place = tirx.bitwise_xor(column + inside, term * chunk)
    return rows - inside + place - column
