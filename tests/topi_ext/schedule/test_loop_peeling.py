"""The last turn of a loop is behind the loop, and does the same."""

import numpy as np
import tvm
from kernel_harness import prim_func
from tvm import te, tirx

from topi_ext.schedule.blocks import child_blocks, open_schedule
from topi_ext.schedule.loop_peeling import apply_peeling, mark_peeled

ROWS = 5


def padded() -> tirx.PrimFunc:
    data = te.placeholder((ROWS - 1, 3), "float32", "data")

    def element(row: tirx.Var, column: tirx.Var) -> tirx.Expr:
        return tirx.if_then_else(row < ROWS - 1, data[row, column], tirx.const(7, "float32"))

    return prim_func([data, te.compute((ROWS, 3), element, name="padded")])


def run(func: tirx.PrimFunc) -> np.ndarray:
    result = tvm.runtime.tensor(np.zeros((ROWS, 3), "float32"))
    data = np.arange(3 * (ROWS - 1), dtype="float32").reshape(ROWS - 1, 3)
    tvm.compile(func, "llvm")(tvm.runtime.tensor(data), result)
    return np.asarray(result.numpy())


def test_a_marked_loop_has_no_condition() -> None:
    plain = padded()
    sch = open_schedule(plain)
    mark_peeled(sch, sch.get_loops(child_blocks(sch)[0])[0])
    apart = apply_peeling(sch.mod["main"])
    np.testing.assert_array_equal(run(apart), run(plain))
    lowered = tvm.tirx.transform.StmtSimplify()(
        tvm.s_tir.transform.LowerOpaqueBlock()(
            tvm.s_tir.transform.ConvertBlocksToOpaque()(tvm.IRModule({"main": apart}))
        )
    )["main"]
    assert "if_then_else" not in lowered.script()
    assert f"padded[{ROWS - 1}, column] = T.float32(7.0)" in lowered.script()


def test_others_are_left_as_they_are() -> None:
    func = padded()
    assert apply_peeling(func).same_as(func)
