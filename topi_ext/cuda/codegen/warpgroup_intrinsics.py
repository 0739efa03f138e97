"""``wgmma.mma_async`` as tensor intrinsics: what one warp of the four sums, all that a schedule sees."""

from functools import cache
from typing import Any

from tvm.s_tir import TensorIntrin
from tvm.tirx.script import builder as T

from topi_ext.cuda.codegen.tensor_functions import (
    FRAGMENT,
    OWNED_SUMS,
    SHARED,
    elements,
    operand,
    pointer_to,
    tensor_function,
)
from topi_ext.cuda.codegen.wgmma import LOADED, address_word, layout_word, multiply
from topi_ext.cuda.multiplication import SIDE, lane_of, multiplication
from topi_ext.cuda.multiprocessor import LANES


@cache
def warpgroup_intrinsic(dtype: str, columns: int, row_bytes: int) -> str:
    """The name of the intrinsic that sums 16 rows by ``columns`` while the group multiplies 64.

    Operands are rows of tiles whose rows have ``row_bytes``, or for what :data:`LOADED` names, the left one a
    fragment as that of "mma"; sums are fragments of "mma".
    """
    kind, loaded = multiplication(dtype), dtype in LOADED
    name = f"topi_ext.wgmma.{dtype}.{columns}.{row_bytes}"

    def buffers() -> list[Any]:
        if loaded:
            left = operand((LANES, kind.owned), kind.left, FRAGMENT)
        else:
            left = operand((SIDE, kind.depth), kind.left, SHARED, by_rows=True)
        right = operand((columns, kind.depth), kind.right, SHARED, by_rows=True)
        return [left, right, operand((columns // SIDE, LANES, OWNED_SUMS), kind.sums, FRAGMENT)]

    def describe(left: Any, right: Any, sums: Any) -> None:
        def element(i: Any, j: Any, k: Any) -> None:
            place = [j // SIDE, *lane_of(i, j % SIDE)]
            one, two = left[lane_of(i, k, kind.run) if loaded else (i, k)], right[j, k]
            T.buffer_store(sums, sums[tuple(place)] + one.astype(kind.sums) * two.astype(kind.sums), place)

        elements((SIDE, columns, kind.depth), "SSR", element)

    def implement(left: Any, right: Any, sums: Any) -> None:
        with T.thread_binding(0, LANES, "threadIdx.x") as lane:
            first: tuple[Any, ...]
            if loaded:
                first = (left.data, left.elem_offset + lane * kind.owned)
            else:
                first = (address_word(pointer_to(left, kind.left, SIDE * kind.depth)),)
            second = address_word(pointer_to(right, kind.right, columns * kind.depth))
            begin = sums.elem_offset + lane * OWNED_SUMS
            T.evaluate(multiply(dtype, columns, (sums.data, begin), second, layout_word(row_bytes), first))

    description = tensor_function(buffers(), [2, 0, 1], 2, describe)
    implementation = tensor_function(buffers(), [2, 0, 1], 2, implement)
    TensorIntrin.register(name, description, implementation, override=True)
    return name
