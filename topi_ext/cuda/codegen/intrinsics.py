"""The instructions of tensor cores as tensor intrinsics, built where they are first used.

Each is a description in loops, which a schedule's blocks must match, and an implementation by instructions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from tvm import tirx
from tvm.s_tir import TensorIntrin
from tvm.tirx.script import builder as T

from topi_ext.cuda.codegen.tensor_functions import (
    FRAGMENT,
    OWNED_SUMS,
    SHARED,
    Pair,
    elements,
    operand,
    pointer_to,
    tensor_function,
)
from topi_ext.cuda.multiplication import (
    SIDE,
    Multiplication,
    extents,
    lane_of,
    multiplication,
    right_lane_of,
)
from topi_ext.cuda.multiprocessor import LANES


@dataclass(frozen=True)
class Intrinsics:
    """Names of the intrinsics of one instruction, and the scopes of its fragments.

    ``in_lanes``: whether a fragment is an array of lanes by elements, as mma.sync has it.
    """

    left_scope: str
    right_scope: str
    sum_scope: str
    load_left: str
    load_right: str
    multiply: str
    fill: str
    store: str
    in_lanes: bool


@cache
def intrinsics(instruction: str, dtype: str = "float16", capability: int = 80) -> Intrinsics:
    """The intrinsics of "mma" on what :data:`.multiplication.MULTIPLICATIONS` names, or of "wmma" on float16
    with float32 sums; right operands are stored by columns. ``capability`` is that of the architecture: on
    sm_75 "mma" takes more and smaller instructions for the same fragments.
    """
    kind = multiplication(dtype)
    if instruction == "wmma":
        scopes = ["wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"]
        pairs = _wmma(kind, scopes)
    else:
        scopes = [FRAGMENT] * 3
        pairs = _mma(kind, dtype, kind.shape_on(capability))
    names = {}
    for role, (description, implementation) in pairs.items():
        names[role] = f"topi_ext.{instruction}.{dtype}.{capability}.{role}"
        TensorIntrin.register(names[role], description, implementation, override=True)
    return Intrinsics(
        left_scope=scopes[0],
        right_scope=scopes[1],
        sum_scope=scopes[2],
        load_left=names["load_left"],
        load_right=names["load_right"],
        multiply=names["multiply"],
        fill=names["fill"],
        store=names["store"],
        in_lanes=instruction != "wmma",
    )


def _in_lanes(owned: int, dtype: str) -> Any:
    return operand((LANES, owned), dtype, FRAGMENT)


def _mma(kind: Multiplication, dtype: str, shape: str) -> dict[str, Pair]:
    return {
        "load_left": _ldmatrix(kind, kind.left, lane_of, _left_row, dtype == "tf32"),
        "load_right": _ldmatrix(kind, kind.right, right_lane_of, _right_row, False),
        "multiply": _multiply(kind, shape),
        "fill": _fill(kind),
        "store": _store(kind),
    }


def _left_row(lane: Any) -> tuple[Any, Any]:
    """Row, and half of it, whose address ldmatrix takes from a lane: matrices by halves, then by rows."""
    return lane % 16, lane // 16


def _right_row(lane: Any) -> tuple[Any, Any]:
    """As :func:`_left_row`: matrices by rows, then by halves."""
    return lane // 16 * 8 + lane % 8, lane % 16 // 8


def _ldmatrix(kind: Multiplication, dtype: str, place: Any, row_of: Any, rounded: bool) -> Pair:
    """A fragment from shared memory: four matrices of 8 rows of 16 bytes."""

    def buffers(by_rows: bool) -> list[Any]:
        shared = operand((SIDE, kind.depth), dtype, SHARED, by_rows=by_rows)
        return [_in_lanes(kind.owned, dtype), shared]

    def describe(fragment: Any, shared: Any) -> None:
        def element(row: Any, k: Any) -> None:
            T.buffer_store(fragment, shared[row, k], list(place(row, k, kind.run)))

        elements((SIDE, kind.depth), "SS", element)

    def implement(fragment: Any, shared: Any) -> None:
        stride = shared.strides[0]
        with T.thread_binding(0, LANES, "threadIdx.x") as lane:
            row, half = row_of(lane)
            matrix = T.tvm_access_ptr(
                T.type_annotation(dtype), shared.data, shared.elem_offset, stride * SIDE, 1
            )
            T.evaluate(
                T.ptx_legacy.ldmatrix(
                    tirx.const(False, "bool"),
                    4,
                    ".b16",
                    fragment.data,
                    fragment.elem_offset + lane * kind.owned,
                    matrix,
                    row * stride + half * (kind.depth // 2),
                )
            )
            if rounded:
                with T.unroll(0, kind.owned) as element:
                    T.buffer_store(fragment, to_tf32(fragment[lane, element]), [lane, element])

    return tensor_function(buffers(False), [1], 0, describe), tensor_function(
        buffers(True), [1], 0, implement
    )


TF32 = "topi_ext_to_tf32"
"""The device function that rounds a float32 as tensor cores take it."""

_TF32_SOURCE = f"""
__device__ __forceinline__ float {TF32}(float value) {{
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return __uint_as_float(rounded);
}}
"""


def to_tf32(value: Any) -> Any:
    """A float32 rounded to 10 bits of mantissa, ties away from zero."""
    return T.cuda.func_call(TF32, value, source_code=_TF32_SOURCE, return_type="float32")


def _multiply(kind: Multiplication, shape: str) -> Pair:
    """The instructions of ``shape`` that a fragment of sums takes, those that add to the same sums apart.

    Of each operand an instruction takes neighbouring registers of a lane: of the left one, rows by rows for
    each part of the depth, of the right one parts of the depth for each eight columns.
    """
    rows, columns, depth = extents(shape)
    owned = (rows * depth // LANES, columns * depth // LANES, rows * columns // LANES)
    down, across, deep = SIDE // rows, SIDE // columns, kind.depth // depth

    def buffers() -> list[Any]:
        operands = [_in_lanes(kind.owned, dtype) for dtype in (kind.left, kind.right)]
        return [*operands, _in_lanes(OWNED_SUMS, kind.sums)]

    def describe(left: Any, right: Any, sums: Any) -> None:
        def element(i: Any, j: Any, k: Any) -> None:
            total = list(lane_of(i, j))
            one = left[lane_of(i, k, kind.run)]
            two = right[right_lane_of(j, k, kind.run)]
            T.buffer_store(sums, sums[tuple(total)] + one.astype(kind.sums) * two.astype(kind.sums), total)

        elements((SIDE, SIDE, kind.depth), "SSR", element)

    def implement(left: Any, right: Any, sums: Any) -> None:
        with T.thread_binding(0, LANES, "threadIdx.x") as lane:
            for step, right_part, left_part in product(range(deep), range(across), range(down)):
                T.evaluate(
                    T.ptx_legacy.mma(
                        shape,
                        "row",
                        "col",
                        *kind.operands,
                        left.data,
                        left.elem_offset + lane * kind.owned + (step * down + left_part) * owned[0],
                        right.data,
                        right.elem_offset + lane * kind.owned + (right_part * deep + step) * owned[1],
                        sums.data,
                        sums.elem_offset + lane * OWNED_SUMS + (right_part * down + left_part) * owned[2],
                        tirx.const(False, "bool"),
                    )
                )

    return tensor_function(buffers(), [2, 0, 1], 2, describe), tensor_function(
        buffers(), [2, 0, 1], 2, implement
    )


def _fill(kind: Multiplication) -> Pair:
    zero = tirx.const(0, kind.sums)

    def describe(sums: Any) -> None:
        elements((SIDE, SIDE), "SS", lambda i, j: T.buffer_store(sums, zero, list(lane_of(i, j))))

    def implement(sums: Any) -> None:
        with T.thread_binding(0, LANES, "threadIdx.x") as lane, T.unroll(0, OWNED_SUMS) as element:
            T.buffer_store(sums, zero, [lane, element])

    buffers = [[_in_lanes(OWNED_SUMS, kind.sums)] for _ in range(2)]
    return tensor_function(buffers[0], [], 0, describe), tensor_function(buffers[1], [], 0, implement)


def _store(kind: Multiplication) -> Pair:
    """Sums to shared memory, each lane its own."""

    def buffers(by_rows: bool) -> list[Any]:
        shared = operand((SIDE, SIDE), kind.sums, SHARED, by_rows=by_rows)
        return [_in_lanes(OWNED_SUMS, kind.sums), shared]

    def describe(sums: Any, shared: Any) -> None:
        def element(i: Any, j: Any) -> None:
            T.buffer_store(shared, sums[lane_of(i, j)], [i, j])

        elements((SIDE, SIDE), "SS", element)

    def implement(sums: Any, shared: Any) -> None:
        lanes = T.thread_binding(0, LANES, "threadIdx.x")
        with lanes as lane, T.unroll(0, OWNED_SUMS // 2) as pair, T.vectorized(0, 2) as side:
            row, column = pair % 2 * 8 + lane // 4, pair // 2 * 8 + lane % 4 * 2 + side
            T.buffer_store(shared, sums[lane, pair * 2 + side], [row, column])

    return tensor_function(buffers(False), [0], 1, describe), tensor_function(
        buffers(True), [0], 1, implement
    )


def _wmma(kind: Multiplication, scopes: Sequence[str]) -> dict[str, Pair]:
    """The 16 x 16 x 16 fragments of wmma, whose lanes are nobody's business."""
    left, right, sums = scopes
    return {
        "load_left": _wmma_load(kind.left, left, "row_major"),
        "load_right": _wmma_load(kind.right, right, "col_major"),
        "multiply": _wmma_multiply(kind, scopes),
        "fill": _wmma_fill(kind.sums, sums),
        "store": _wmma_store(kind.sums, sums),
    }


def _square(dtype: str, scope: str, by_rows: bool) -> Any:
    return operand((SIDE, SIDE), dtype, scope, by_rows=by_rows)


def _fragment_number(fragment: Any) -> Any:
    """Which of a buffer's fragments, by rows of fragments, a square of it is."""
    stride, offset = fragment.strides[0], fragment.elem_offset
    return offset // (stride * SIDE) * (stride // SIDE) + offset % stride // SIDE


def _pointer(shared: Any, dtype: str, mask: int) -> Any:
    return pointer_to(shared, dtype, shared.strides[0] * SIDE, mask)


def _copy(source: Any, target: Any) -> None:
    elements((SIDE, SIDE), "SS", lambda i, j: T.buffer_store(target, source[i, j], [i, j]))


def _wmma_load(dtype: str, scope: str, order: str) -> Pair:
    def implement(shared: Any, fragment: Any) -> None:
        number, pointer = _fragment_number(fragment), _pointer(shared, dtype, 1)
        row = shared.strides[0]
        T.evaluate(T.tvm_load_matrix_sync(fragment.data, SIDE, SIDE, SIDE, number, pointer, row, order))

    return _wmma_copy(dtype, (SHARED, scope), implement)


def _wmma_store(dtype: str, scope: str) -> Pair:
    def implement(fragment: Any, shared: Any) -> None:
        number, pointer = _fragment_number(fragment), _pointer(shared, dtype, 2)
        row = shared.strides[0]
        T.evaluate(
            T.tvm_store_matrix_sync(fragment.data, SIDE, SIDE, SIDE, number, pointer, row, "row_major")
        )

    return _wmma_copy(dtype, (scope, SHARED), implement)


def _wmma_copy(dtype: str, scopes: tuple[str, str], implement: Callable[[Any, Any], None]) -> Pair:
    """A copy of a square from the first scope to the second."""
    plain, by_rows = ([_square(dtype, scope, by_rows) for scope in scopes] for by_rows in (False, True))
    return tensor_function(plain, [0], 1, _copy), tensor_function(by_rows, [0], 1, implement)


def _wmma_fill(dtype: str, scope: str) -> Pair:
    zero = tirx.const(0, dtype)

    def describe(sums: Any) -> None:
        elements((SIDE, SIDE), "SS", lambda i, j: T.buffer_store(sums, zero, [i, j]))

    def implement(sums: Any) -> None:
        T.evaluate(T.tvm_fill_fragment(sums.data, SIDE, SIDE, SIDE, _fragment_number(sums), zero))

    plain, by_rows = ([_square(dtype, scope, by_rows)] for by_rows in (False, True))
    return tensor_function(plain, [], 0, describe), tensor_function(by_rows, [], 0, implement)


def _wmma_multiply(kind: Multiplication, scopes: Sequence[str]) -> Pair:
    def buffers(by_rows: bool) -> list[Any]:
        dtypes = (kind.left, kind.right, kind.sums)
        return [_square(dtype, scope, by_rows) for dtype, scope in zip(dtypes, scopes, strict=True)]

    def describe(left: Any, right: Any, sums: Any) -> None:
        def element(i: Any, j: Any, k: Any) -> None:
            product = left[i, k].astype(kind.sums) * right[j, k].astype(kind.sums)
            T.buffer_store(sums, sums[i, j] + product, [i, j])

        elements((SIDE, SIDE, SIDE), "SSR", element)

    def implement(left: Any, right: Any, sums: Any) -> None:
        places = [(found.data, _fragment_number(found)) for found in (sums, left, right, sums)]
        T.evaluate(T.tvm_mma_sync(*(part for pair in places for part in pair)))

    return tensor_function(buffers(False), [2, 0, 1], 2, describe), tensor_function(
        buffers(True), [2, 0, 1], 2, implement
    )


__all__ = ["FRAGMENT", "SHARED", "TF32", "Intrinsics", "intrinsics", "to_tf32"]
