"""Functions with other nodes in their bodies."""

from kernel_harness import prim_func
from tvm import te, tirx

from topi_ext.codegen.replacing import replaced


def test_a_function_in_which_nothing_is_replaced_is_the_same() -> None:
    data = te.placeholder((8,), "float32")
    func = prim_func([data, te.compute((8,), lambda i: data[i] * 2.0)])
    assert replaced(func, (tirx.Mul, lambda product: product)).same_as(func)
    assert not replaced(func, (tirx.Mul, lambda product: tirx.Add(product.a, product.b))).same_as(func)
