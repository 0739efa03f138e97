"""The instructions of tensor cores as TVM's tensor intrinsics.

TVM's own module of them parses some two hundred functions when it is imported, which takes half a minute:
it is imported where a tensor core is used, never by a compiler of another target.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

STORE = "topi_ext.mma_store_f32_shared_dyn"


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


def lane_of(row: Any, column: Any) -> tuple[Any, Any]:
    """The lane that holds an element of a 16 x 16 matrix for mma.sync, and its place among the lane's eight.

    Four 8 x 8 matrices, each spread over the warp by pairs of columns (PTX, fragments of mma.m16n8k16).
    """
    return row % 8 * 4 + column % 8 // 2, column // 8 * 4 + row // 8 * 2 + column % 2


def fragment_map(*index: Any) -> tuple[Any, ...]:
    """Where mma.sync keeps an element of a matrix: fragment, lane, and place within the lane."""
    *batch, i, j = index
    return (*batch, i // 16, j // 16, *lane_of(i % 16, j % 16))


@cache
def intrinsics(instruction: str) -> Intrinsics:
    """The intrinsics of "mma" or "wmma" on float16 with float32 sums, right operands stored by columns."""
    from tvm.s_tir.tensor_intrin.cuda import get_mma_intrin_group, get_wmma_intrin_group

    if instruction == "wmma":
        names = get_wmma_intrin_group("shared.dyn", "shared.dyn", "float16", "float32", True)
        scopes = ["wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"]
    else:
        names = get_mma_intrin_group("shared.dyn", "shared.dyn", "float16", "float32", False, True)
        names["store"] = STORE
        scopes = ["warp"] * 3
        _register_store()
    return Intrinsics(
        left_scope=scopes[0],
        right_scope=scopes[1],
        sum_scope=scopes[2],
        load_left=names["load_a"],
        load_right=names["load_b"],
        multiply=names["compute"],
        fill=names["init"],
        store=names["store"],
        in_lanes=instruction != "wmma",
    )


@cache
def _register_store() -> None:
    """Sums to shared memory, each lane its own."""

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def description(a: T.handle, c: T.handle) -> None:
        fragment = T.match_buffer(a, [32, 8], dtype="float32", scope="warp")
        shared = T.match_buffer(c, [16, 16], dtype="float32", scope="shared.dyn")
        with T.sblock("root"):
            T.reads(fragment[0:32, 0:8])
            T.writes(shared[0:16, 0:16])
            for i0, i1 in T.grid(16, 16):
                with T.sblock("store"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    lane, element = T.meta_var(lane_of(v0, v1))
                    T.reads(fragment[lane, element])
                    T.writes(shared[v0, v1])
                    shared[v0, v1] = fragment[lane, element]

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def implementation(a: T.handle, c: T.handle) -> None:
        s0 = T.int32()
        s1 = T.int32()
        fragment = T.match_buffer(a, [32, 8], dtype="float32", scope="warp", offset_factor=1)
        shared = T.match_buffer(
            c, [16, 16], dtype="float32", scope="shared.dyn", offset_factor=2, strides=[s0, s1]
        )
        with T.sblock("root"):
            T.reads(fragment[0:32, 0:8])
            T.writes(shared[0:16, 0:16])
            for lane in T.thread_binding(0, 32, "threadIdx.x"):
                for element in T.unroll(8):
                    shared[
                        element // 2 % 2 * 8 + lane // 4, element // 4 * 8 + lane % 4 * 2 + element % 2
                    ] = fragment[lane, element]

    TensorIntrin.register(STORE, description, implementation, override=True)


__all__ = ["Intrinsics", "fragment_map", "intrinsics"]
