"""What reductions begin with in machine code."""

import pytest
from tvm import te, topi

from topi_ext.codegen.identities import EXTREME, MAXIMA, from_infinity


@pytest.mark.parametrize("name", [EXTREME, MAXIMA])
def test_sums_of_a_tensor_that_is_called_like_maxima_begin_with_zero(name: str) -> None:
    data = te.placeholder((2, 5), "float32", name=name)
    function = from_infinity(te.create_prim_func([data, topi.sum(data, 1)]))
    assert "inf" not in str(function)
