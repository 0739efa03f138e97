"""Which blocks join the anchor's tiles, and which stay on their own."""

from collections.abc import Callable
from typing import Any

import pytest
from kernel_harness import prim_func
from tvm import te, tirx, topi
from tvm.s_tir import Schedule
from tvm.script import tirx as T

from topi_ext.compute import conv2d
from topi_ext.schedule.blocks import (
    annotated_block,
    carried_workload,
    child_blocks,
    fuse_epilogue,
    open_schedule,
)
from topi_ext.workloads.text import operator_of

SHAPE = (1, 2, 6, 6, 8)


def arguments() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    data, residual = (te.placeholder(SHAPE, name=name) for name in ("data", "residual"))
    return data, te.placeholder((2, 2, 3, 3, 8, 8), name="weight"), residual


def convolve(data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    layouts: dict[str, Any] = {"data_layout": "NCHW8c", "kernel_layout": "OIHW8i8o", "out_layout": "NCHW8c"}
    return conv2d(data, weight, padding=(1, 1, 1, 1), **layouts)


def named(tensor: te.Tensor, name: str) -> te.Tensor:
    return te.compute(tensor.shape, lambda *index: tensor(*index) + 1.0, name=name)


def names(sch: Schedule, blocks: list[object]) -> list[str]:
    return [str(sch.get(block).name_hint) for block in blocks]


Tail = Callable[[te.Tensor, te.Tensor], list[te.Tensor]]


def flattened(result: te.Tensor, residual: te.Tensor) -> list[te.Tensor]:
    return [te.compute((576,), lambda i: result[0, i // 288, i // 48 % 6, i // 8 % 6, i % 8], name="flat")]


def unblocked(result: te.Tensor, residual: te.Tensor) -> list[te.Tensor]:
    return [te.compute((1, 16, 6, 6), lambda n, c, h, w: result[n, c // 8, h, w, c % 8], name="unblocked")]


def mirrored(result: te.Tensor, residual: te.Tensor) -> list[te.Tensor]:
    def element(n: tirx.Var, c: tirx.Var, h: tirx.Var, w: tirx.Var, lane: tirx.Var) -> tirx.Expr:
        return result[n, c, h, w, lane] + result[n, c, h, 5 - w, lane]

    return [te.compute(SHAPE, element, name="mirrored")]


def branched(result: te.Tensor, residual: te.Tensor) -> list[te.Tensor]:
    first = named(result, "first")
    return [named(first, "second"), topi.sum(first, axis=2)]


@pytest.mark.parametrize(
    ("tail", "epilogue", "after"),
    [
        (lambda result, residual: [result], None, []),
        (lambda result, residual: [named(result, "first")], "first", []),
        (lambda result, residual: [named(named(result, "first"), "second")], "second", []),
        (lambda result, residual: [topi.multiply(result, topi.sigmoid(result))], "T_multiply", []),
        (lambda result, residual: [topi.add(result, named(residual, "other"))], "T_add", []),
        # Whether that is computed behind the anchor or ahead of it.
        (lambda result, residual: [topi.add(named(residual, "other"), result)], "T_add", []),
        # What is needed as a whole is computed as a whole, and read afterwards.
        (lambda result, residual: [result, named(result, "first")], None, ["first"]),
        (
            lambda result, residual: [named(result, "first"), named(result, "second")],
            None,
            ["first", "second"],
        ),
        (lambda result, residual: [topi.sum(result, axis=2)], None, ["conv2d_red"]),
        (flattened, None, ["flat"]),
        (unblocked, None, ["unblocked"]),
        (mirrored, None, ["mirrored"]),
        # The part that can be fused is, up to the first result that others need.
        (lambda result, residual: [topi.sum(named(result, "first"), axis=2)], "first", ["first_red"]),
        (lambda result, residual: [topi.nn.softmax(named(result, "first"))], "first", None),
        (branched, "first", ["second", "first_red"]),
        (lambda result, residual: flattened(named(result, "first"), residual), "first", ["flat"]),
    ],
)
def test_epilogue(tail: Tail, epilogue: str | None, after: list[str] | None) -> None:
    data, weight, residual = arguments()
    sch = open_schedule(prim_func([data, weight, residual, *tail(convolve(data, weight), residual)]))
    found = annotated_block(sch)
    assert found is not None
    around = fuse_epilogue(sch, found[0])
    assert names(sch, around.before) == ["data_pad"]
    assert (names(sch, [around.epilogue])[0] if around.epilogue else None) == epilogue
    if after is not None:
        assert names(sch, around.after) == after


def test_two_convolutions_leave_the_second_alone() -> None:
    data, weight, residual = arguments()
    second = convolve(named(convolve(data, weight), "first"), weight)
    sch = open_schedule(prim_func([data, weight, residual, second]))
    found = annotated_block(sch)
    assert found is not None
    around = fuse_epilogue(sch, found[0])
    assert around.epilogue is not None
    assert names(sch, [around.epilogue]) == ["first"]
    assert names(sch, around.after) == ["data_pad_1", "conv2d_1"]


def test_an_annotation_is_found_among_others() -> None:
    data, weight, residual = arguments()
    sch = open_schedule(prim_func([data, weight, residual, named(convolve(data, weight), "first")]))
    found = annotated_block(sch)
    assert found is not None
    assert sch.get(found[0]).name_hint == "conv2d"
    assert operator_of(found[1]) == "conv2d"
    assert annotated_block(open_schedule(prim_func([data, named(data, "first")]))) is None


def test_a_workload_is_found_without_a_schedule() -> None:
    data, weight, residual = arguments()
    func = prim_func([data, weight, residual, named(convolve(data, weight), "first")])
    found, sch = carried_workload(func), open_schedule(func)
    scheduled = annotated_block(sch)
    assert found is not None and scheduled is not None
    assert found[0] == scheduled[1]
    assert dict(found[1]) == dict(sch.get(scheduled[0]).annotations)
    assert carried_workload(prim_func([data, named(data, "first")])) is None
    assert carried_workload(opaque) is None


@T.prim_func(s_tir=True)
def opaque(data: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
    with T.sblock("whole"):
        T.reads()
        T.writes()
        for i in range(4):
            out[i] = data[i]


def test_a_function_whose_body_is_opaque_has_no_blocks() -> None:
    assert child_blocks(open_schedule(opaque)) == []
    assert annotated_block(open_schedule(opaque)) is None
