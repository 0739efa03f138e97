"""One order for the scalars of functions of loops."""

from typing import Any

import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from tvm_ffi import structural_equal, structural_map

from relay_layout.lower.fusion.function_calls import function_calls
from relay_layout.lower.fusion.scalar_order import merge_alike, order_scalars


@I.ir_module(s_tir=True)
class Halves:
    """Two functions that are one, but for the order of what they are given."""

    @T.prim_func(private=True, s_tir=True)
    def half(a: T.handle, w: T.int64, h: T.int64, b: T.handle):
        A = T.match_buffer(a, (h // T.int64(2), w // T.int64(2)))
        B = T.match_buffer(b, (h // T.int64(2), w // T.int64(2)))
        for i, j in T.grid(h // T.int64(2), w // T.int64(2)):
            B[i, j] = A[i, j] + T.float32(1)

    @T.prim_func(private=True, s_tir=True)
    def half1(a: T.handle, h: T.int64, w: T.int64, b: T.handle):
        A = T.match_buffer(a, (h // T.int64(2), w // T.int64(2)))
        B = T.match_buffer(b, (h // T.int64(2), w // T.int64(2)))
        for i, j in T.grid(h // T.int64(2), w // T.int64(2)):
            B[i, j] = A[i, j] + T.float32(1)

    @R.function
    def main(x: R.Tensor(("h", "w"), "float32"), y: R.Tensor(("h // 2", "w // 2"), "float32")) -> R.Tensor(
        ("h // 2", "w // 2"), "float32"
    ):
        h, w = T.int64(), T.int64()
        cls = Halves
        with R.dataflow():
            one = R.call_tir(cls.half, (y, w, h), out_ty=R.Tensor((h // 2, w // 2), "float32"))
            two = R.call_tir(cls.half1, (one, h, w), out_ty=R.Tensor((h // 2, w // 2), "float32"))
            R.output(two)
        return two


def calls(module: tvm.IRModule) -> list[tuple[str, list[str]]]:
    """The functions that "main" calls, and what each is given behind its tensor."""
    return [
        (str(call.args[0].name_hint), [str(each) for each in list(call.args[1])[1:]])
        for call in function_calls(module["main"]).values()
    ]


def test_scalars_come_in_the_order_of_their_uses() -> None:
    ordered = order_scalars(Halves)
    assert calls(ordered) == [("half", ["h", "w"]), ("half1", ["h", "w"])]
    assert [str(each) for each in ordered["half"].params[1:3]] == ["h", "w"]
    assert structural_equal(ordered["half"], ordered["half1"])


def test_functions_that_are_alike_are_one() -> None:
    merged = merge_alike(order_scalars(Halves))
    assert calls(merged) == [("half", ["h", "w"]), ("half", ["h", "w"])]
    assert sorted(str(each.name_hint) for each in merged.get_global_vars()) == ["half", "main"]


def test_numbers_follow_the_calls() -> None:
    first, second = (Halves.get_global_var(name) for name in ("half1", "half"))
    swapped = {first: tvm.ir.GlobalVar("half"), second: tvm.ir.GlobalVar("half1")}
    for old, new in swapped.items():
        relax.expr._update_type(new, old.ty)
    functions = {
        swapped.get(variable, variable): structural_map(
            each.with_attr("name", variable.name_hint), (tvm.ir.GlobalVar, lambda one: swapped.get(one, one))
        )
        for variable, each in Halves.functions_items()
    }
    module = order_scalars(tvm.IRModule(functions))
    assert [name for name, _ in calls(module)] == ["half1", "half"]
    assert [name for name, _ in calls(merge_alike(module))] == ["half", "half1"]


@pytest.mark.parametrize("rewrite", [order_scalars, merge_alike])
def test_functions_with_a_symbol_stay(rewrite: Any) -> None:
    functions = dict(Halves.functions_items())
    named = {
        variable: each
        if isinstance(each, relax.Function)
        else each.with_attr("global_symbol", variable.name_hint)
        for variable, each in functions.items()
    }
    module = tvm.IRModule(named)
    assert structural_equal(rewrite(module), module)
