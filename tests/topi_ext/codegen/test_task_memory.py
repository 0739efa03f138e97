"""Buffers of parallel loops: one for each thread."""

from typing import Any

import pytest
import tvm
from kernel_harness import check_kernel, data_of, prim_func, target_for
from tvm import te, tirx
from tvm_ffi import structural_walk

from topi_ext.codegen.task_memory import KEEP, allocate_once
from topi_ext.schedule.blocks import open_schedule


def copied_by_turns(annotations: dict[str, Any], *, by_turn: bool = False) -> tirx.PrimFunc:
    """Rows that are copied by way of a buffer of each turn."""
    data, result = (tirx.decl_buffer((4, 1 << 14), "float32", name) for name in ("data", "result"))
    turn, place = tirx.Var("turn", "int64"), tirx.Var("place", "int64")
    size = tirx.Var("size", "int64")
    row = tirx.decl_buffer((size if by_turn else 1 << 14,), "float32", "row")
    steps = [
        *([tirx.Bind(size, (turn + 1) * (1 << 12))] if by_turn else []),
        tirx.AllocBuffer(row, annotations),
        tirx.BufferStore(row, data[turn, place], [place]),
        tirx.BufferStore(result, row[place], [turn, place]),
    ]
    loop = tirx.For(turn, 0, 4, tirx.ForKind.PARALLEL, tirx.SeqStmt(steps))
    return tirx.PrimFunc([data, result, place], loop)


def is_inside(func: tirx.PrimFunc) -> bool:
    """Does the loop allocate?"""
    inside: list[bool] = []

    def on_loop(loop: tirx.For) -> None:
        structural_walk(loop.body, (tirx.AllocBuffer, lambda _: inside.append(True)))

    structural_walk(func.body, (tirx.For, on_loop))
    return bool(inside)


@pytest.mark.parametrize(
    ("func", "stays"),
    [
        pytest.param(copied_by_turns({}), False, id="of one size"),
        pytest.param(copied_by_turns({KEEP: tirx.const(1)}), True, id="on the stack"),
        pytest.param(copied_by_turns({}, by_turn=True), True, id="of a size that a turn tells"),
    ],
)
def test_where_buffers_are_allocated(func: tirx.PrimFunc, stays: bool) -> None:
    found = allocate_once()(tvm.IRModule({"main": func}))["main"]
    assert is_inside(found) == stays


def test_turns_of_several_threads_keep_their_own() -> None:
    data = te.placeholder((37, 4096), "float32", name="data")
    twice = te.compute((37, 4096), lambda i, j: data[i, j] * 2.0, name="twice")
    reverse = te.compute((37, 4096), lambda i, j: twice[i, 4095 - j], name="reverse")
    func = prim_func([data, reverse])
    sch = open_schedule(func)
    turn, _ = sch.get_loops(sch.get_sblock("reverse"))
    sch.parallel(turn)
    sch.compute_at(sch.get_sblock("twice"), turn)
    array = data_of(37, 4096)
    check_kernel(func, target_for(None), [array], 2 * array[:, ::-1], schedule=lambda func, unused: sch)
