"""Passes over functions, and functions with other nodes in their bodies."""

import tvm
from kernel_harness import prim_func
from tvm import te, tirx

from topi_ext.codegen.passes import function_pass, replaced


def test_a_function_in_which_nothing_is_replaced_is_the_same() -> None:
    data = te.placeholder((8,), "float32")
    func = prim_func([data, te.compute((8,), lambda i: data[i] * 2.0)])
    assert replaced(func, (tirx.Mul, lambda product: product)).same_as(func)
    assert not replaced(func, (tirx.Mul, lambda product: tirx.Add(product.a, product.b))).same_as(func)


def test_a_pass_has_the_name_of_what_it_does_and_takes_its_other_arguments() -> None:
    @function_pass
    def mark(func: tirx.PrimFunc, value: int) -> tirx.PrimFunc:
        """Says so."""
        return func.with_attr("mark", value)

    data = te.placeholder((8,), "float32")
    module = tvm.IRModule({"main": prim_func([data, te.compute((8,), lambda i: data[i] * 2.0)])})
    marking = mark(3)
    assert (marking.info.name, mark.__doc__) == ("topi_ext.mark", "Says so.")
    assert marking(module)["main"].attrs["mark"] == 3
