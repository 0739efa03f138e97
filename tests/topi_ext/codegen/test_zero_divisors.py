"""Integers are divided by no extent that is 0 in a call."""

from typing import Any

import pytest
import tvm
from tvm import tirx

from topi_ext.codegen.zero_divisors import divide_by_no_zero


def passed(build: Any) -> str:
    """What is stored of the extents n and h, as text."""
    result = tirx.decl_buffer((8,), "int64", "result")
    extents = [tirx.Var(name, "int64") for name in ("n", "h")]
    store = tirx.BufferStore(result, build(*extents), [tirx.const(0, "int64")])
    module = tvm.IRModule({"main": tirx.PrimFunc([result, *extents], store)})
    return str(divide_by_no_zero()(module)["main"].body.value)


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda n, h: n // h, "n // T.Select(h == T.int64(0), T.int64(1), h)"),
        (lambda n, h: n % h, "n % T.Select(h == T.int64(0), T.int64(1), h)"),
        (
            lambda n, h: tirx.truncdiv(n, h * 4),
            "T.Div(n, T.Select(h * T.int64(4) == T.int64(0), T.int64(1), h * T.int64(4)))",
        ),
        (lambda n, h: n // 16, "n // T.int64(16)"),
    ],
    ids=["quotient", "remainder", "product", "number"],
)
def test_a_divisor_that_may_be_zero_is_one_there(build: Any, wanted: str) -> None:
    assert passed(build) == wanted
