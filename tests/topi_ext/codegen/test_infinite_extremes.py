"""What reductions begin with in machine code."""

from tvm import te, topi

from topi_ext.codegen.infinite_extremes import from_infinity
from topi_ext.compute.extremes import extreme


def test_an_extreme_begins_with_infinity() -> None:
    data = te.placeholder((2, 5), "float32")
    text = str(from_infinity(te.create_prim_func([data, extreme(data, [1], False, largest=True)])))
    assert 'T.float32("-inf")' in text


def test_a_sum_of_a_tensor_that_is_called_like_one_begins_with_zero() -> None:
    data = te.placeholder((2, 5), "float32", name="extreme")
    function = te.create_prim_func([data, topi.sum(data, 1)])
    assert from_infinity(function).same_as(function)
