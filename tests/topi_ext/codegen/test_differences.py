"""Differences of floats are not cancelled by what simplifies."""

from typing import Any

import pytest
import tvm
from tvm import tirx

from topi_ext.codegen.differences import keep_differences

BY = tirx.const(3.0, "float32")


def simplest(build: Any, dtype: str = "float32") -> Any:
    """What is stored of the element x, after all simplification."""
    data, result = (tirx.decl_buffer((8,), dtype, name) for name in ("data", "result"))
    place = tirx.Var("place", "int64")
    element = tirx.BufferLoad(data, [place])
    store = tirx.BufferStore(result, build(element), [place])
    loop = tirx.For(place, tirx.const(0, "int64"), tirx.const(8, "int64"), tirx.ForKind.SERIAL, store)
    module = tvm.IRModule({"main": tirx.PrimFunc([data, result], loop)})
    passes = [keep_differences(), tirx.transform.StmtSimplify()]
    return tvm.transform.Sequential(passes)(module)["main"].body.body.value


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda x: tirx.Sub(x, x), "data[place] + data[place] * T.float32(-1.0)"),
        (lambda x: tirx.Sub(x + BY, BY), "data[place] + T.float32(3.0) + T.float32(-3.0)"),
        (
            lambda x: tirx.Sub(BY, x + BY),
            "T.float32(3.0) + (data[place] + T.float32(3.0)) * T.float32(-1.0)",
        ),
        (lambda x: tirx.Sub(x, BY), "data[place] - T.float32(3.0)"),
    ],
    ids=["itself", "what was added", "of what was added", "another"],
)
def test_terms_that_cancel_are_added(build: Any, wanted: str) -> None:
    assert str(simplest(build)) == wanted


def test_integers_are_cancelled() -> None:
    assert str(simplest(lambda x: tirx.Sub(x, x), "int32")) == "0"
