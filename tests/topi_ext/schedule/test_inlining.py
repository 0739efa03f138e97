"""Steps that are inlined at once, against TVM's own inlining of one after the other."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_harness import compile_function, host_cpus, prim_func, run_guarded, scheduled_by, target_for
from tvm import te, tirx, topi
from tvm.script import tirx as T
from tvm_ffi import structural_equal

from topi_ext.ir import loads_of
from topi_ext.schedule.blocks import child_blocks, inline_small, is_reduction, open_schedule
from topi_ext.schedule.cpu.loops import LoopNest
from topi_ext.schedule.inlining import inlined, only_block
from topi_ext.schedule.sharing import is_shared


def named(shape: tuple[Any, ...], compute: Callable[..., Any], name: str) -> te.Tensor:
    return te.compute(shape, compute, name=name)


def joined(data: te.Tensor) -> te.Tensor:
    """Two channels that change places, one of them doubled."""
    first = named((1, 1, 5, 6), lambda n, c, h, w: data[n, 2, h, w], "first")
    second = named((1, 1, 5, 6), lambda n, c, h, w: data[n, 1, h, w] * 2.0, "second")
    return topi.concatenate([first, second], 1)


def chained(data: te.Tensor) -> te.Tensor:
    """Steps of one element each, of which one is read twice."""
    low = topi.maximum(data, tirx.const(0, "float32"))
    return topi.add(topi.multiply(low, low), topi.transpose(low, (0, 1, 2, 3)))


def scaled(data: te.Tensor) -> te.Tensor:
    """By quotients that as many elements share as keep them in memory."""
    factor = named((4,), lambda c: 1.0 / data[0, c, 0, 0], "factor")
    return named((1, 4, 5, 6), lambda n, c, h, w: data[n, c, h, w] * factor[c], "scaled")


def gathered(data: te.Tensor) -> te.Tensor:
    """From places that are computed."""
    place = named((6,), lambda w: tirx.Cast("int32", data[0, 0, 0, w]), "place")
    return named((1, 4, 5, 6), lambda n, c, h, w: data[n, c, h, place[w]], "gathered")


def summed(data: te.Tensor) -> te.Tensor:
    """A sum of what is computed before, and something after it."""
    return topi.sqrt(topi.sum(topi.multiply(data, data), axis=3))


def one_by_one(func: tirx.PrimFunc) -> tirx.PrimFunc:
    sch = open_schedule(func)
    for block in child_blocks(sch):
        if not (is_reduction(sch, block) or is_shared(sch, block)):
            inline_small(sch, block)
    return sch.mod["main"]


@pytest.mark.parametrize(
    ("compute", "left"),
    [
        (joined, ["T_concat"]),
        (chained, ["T_add"]),
        (scaled, ["factor", "scaled"]),
        (gathered, ["gathered"]),
        (summed, ["T_multiply_red", "compute"]),
    ],
)
def test_a_function_is_what_tvm_makes_of_it(
    compute: Callable[[te.Tensor], te.Tensor], left: list[str]
) -> None:
    data = te.placeholder((1, 4, 5, 6), name="data")
    func = te.create_prim_func([data, compute(data)])
    found = inlined(func)
    assert structural_equal(found, one_by_one(func))
    sch = open_schedule(found)
    assert [sch.get(block).name_hint for block in child_blocks(sch)] == left


def test_extents_may_be_symbolic() -> None:
    rows = tirx.Var("rows", "int64")
    data = te.placeholder((rows, 8), name="data")
    func = te.create_prim_func([data, topi.add(topi.multiply(data, data), data)])
    assert structural_equal(inlined(func), one_by_one(func))


@T.prim_func(s_tir=True)
def copied(data: T.Buffer((4,), "float32"), out: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.sblock("first"):
            at = T.axis.spatial(4, i)
            out[at] = data[at]
    for i in range(4):
        out[4 + i] = data[i]


def test_statements_without_a_block_stay() -> None:
    assert structural_equal(inlined(copied), copied)


def folded(of: te.Tensor, place: int) -> te.Tensor:
    """Each element with the one across its row."""
    return te.compute((4, 64), lambda i, j: of[i, j] * of[i, 63 - j] + place, name=f"step{place}")


def test_what_is_read_twice_again_and_again_keeps_loops_of_its_own() -> None:
    data = te.placeholder((4, 64), name="data")
    long = data
    for place in range(20):
        long = folded(long, place)
    func = te.create_prim_func([data, long])
    found = inlined(func)
    assert structural_equal(found, one_by_one(func))
    assert len(child_blocks(open_schedule(found))) > 1


def test_a_function_of_one_step_is_its_own() -> None:
    data = te.placeholder((4, 64), name="data")
    alone = te.create_prim_func([data, folded(data, 0)])
    assert inlined(alone).same_as(alone)
    block = only_block(alone)
    assert block is not None and block.name_hint == "step0"
    assert only_block(te.create_prim_func([data, folded(folded(data, 0), 1)])) is None
    assert only_block(copied) is None


def rolled(data: te.Tensor, by: int, axis: int) -> te.Tensor:
    """As ``numpy.roll`` by ``-by``: two parts that change places."""
    shape = [int(extent) for extent in data.shape]
    begin, end = [0] * len(shape), list(shape)
    begin[axis], end[axis] = by, by
    parts = (
        topi.strided_slice(data, begin, shape, [1] * len(shape)),
        topi.strided_slice(data, [0] * len(shape), end, [1] * len(shape)),
    )
    return topi.concatenate(parts, axis)


def test_indices_are_what_conditions_leave_of_them() -> None:
    """Windows of a shifted image, as Swin takes them: rows of channels lie side by side."""
    data = te.placeholder((2, 12, 16, 32), "float32")
    moved = rolled(rolled(data, 3, 1), 3, 2)
    windows = topi.transpose(topi.reshape(moved, (2, 3, 4, 4, 4, 32)), (0, 1, 3, 2, 4, 5))
    block = only_block(inlined(prim_func([data, topi.reshape(windows, (24, 16, 32))])))
    assert block is not None
    image, _, lane = (axis.var for axis in block.iter_vars)
    loads = loads_of(block.body.value)
    assert len(loads) == 4
    for load in loads:
        assert structural_equal(load.indices[0], image // 12, map_free_vars=False)
        assert load.indices[3].same_as(lane)


def test_divisors_of_many_rows_do_not_exceed_an_int32() -> None:
    """What is added to all rows but the first: rows and their neighbours are counted modulo each other."""
    rows, lanes = 25088, 96
    data = te.placeholder((2, rows + 1, lanes), "float32")
    added = te.placeholder((2, rows, 1, lanes), "float32")
    first, rest = (
        topi.strided_slice(data, [0, begin, 0], [2, end, lanes], [1, 1, 1])
        for begin, end in ((0, 1), (1, rows + 1))
    )
    found = topi.concatenate((first, topi.add(rest, topi.reshape(added, (2, rows, lanes)))), 1)
    func = prim_func([data, added, topi.reshape(found, (2 * (rows + 1), lanes))])
    target = target_for(host_cpus()[-1])
    library = compile_function(scheduled_by(LoopNest(), func, target).mod["main"], target)
    numbers = np.random.default_rng(0)
    arrays = [numbers.random(shape, "float32") for shape in ((2, rows + 1, lanes), (2, rows, 1, lanes))]
    wanted = arrays[0].copy()
    wanted[:, 1:] += arrays[1][:, :, 0]
    result = run_guarded(library, arrays, (2 * (rows + 1), lanes))
    np.testing.assert_array_equal(result, wanted.reshape(result.shape))


def test_what_reads_a_reshaped_tensor_has_simple_indices() -> None:
    """TVM's quotients of a place that lies in a row stay otherwise, and elements are gathered."""
    data = te.placeholder((4, 10, 6, 2), name="data")
    func = inlined(prim_func([data, topi.nn.relu(topi.reshape(data, (2, 20, 6, 2)))]))
    script = func.script()
    assert "data[v_ax0 * 2 + v_ax1 // 10, v_ax1 % 10, v_ax2, v_ax3]" in script.replace("v_i", "v_ax")


def test_an_axis_of_one_element_is_no_part_of_what_is_divided() -> None:
    data = te.placeholder((31, 8, 1, 17), name="data")
    func = inlined(prim_func([data, topi.reshape(data, (31, 8, 17, 1))]))
    script = func.script().replace("v_i", "v_ax")
    assert "= data[v_ax0, v_ax1, 0, v_ax2]" in script
