"""Extents that are computed of others as variables: the same numbers, and nothing left of what they were."""

import numpy as np
import tvm
from tvm import te, tirx

from topi_ext.schedule.named_extents import with_named_extents


def half(height: tirx.Expr) -> tirx.PrimFunc:
    """The sums of neighbouring rows of an image with a border of one row at its end."""
    data = te.placeholder((height, 4), "float32", name="data")
    border = te.compute(
        (height + 1, 4),
        lambda row, column: tirx.if_then_else(row < height, data[row, column], tirx.const(0, "float32")),
        name="border",
    )
    rows = tirx.floordiv(height + 1, 2)
    sums = te.compute(
        (rows, 4),
        lambda row, column: border[row * 2, column] + border[te.min(row * 2 + 1, height), column],
        name="sums",
    )
    return te.create_prim_func([data, sums], index_dtype_override="int64")


def test_extents_become_variables() -> None:
    pixels = tirx.Var("h", "int64")
    func = half(tirx.floordiv(pixels - 1, 4) + 1)
    named = with_named_extents(func)
    assert "extent_0" in named.script() and "// T.int64(4)" not in named.script()
    module = tvm.compile(named.with_attr("global_symbol", "main"), target="llvm")
    for rows in (1, 2, 5, 8):
        image = np.random.default_rng(rows).standard_normal((rows, 4)).astype("float32")
        whole = np.concatenate([image, np.zeros((rows % 2, 4), "float32")])
        found = tvm.runtime.tensor(np.zeros(((rows + 1) // 2, 4), "float32"))
        module["main"](tvm.runtime.tensor(image), found)
        np.testing.assert_allclose(found.numpy(), whole[::2] + whole[1::2], rtol=1e-6)


def test_functions_of_variables_alone_stay() -> None:
    data = te.placeholder((tirx.Var("h", "int64"), 4), "float32")
    func = te.create_prim_func([data, te.compute(data.shape, lambda *index: data(*index) + 1)])
    assert with_named_extents(func).same_as(func)


def test_an_extent_that_is_made_of_others_is_its_own_name() -> None:
    """Rows without their last one and that one, side by side: of each extent a variable tells."""
    rows = tirx.Var("h", "int64")
    few, last = te.max(rows - 1, tirx.const(0, "int64")), te.min(tirx.const(1, "int64"), rows)
    left, right = te.placeholder((few, 4), name="left"), te.placeholder((last, 4), name="right")
    both = te.compute(
        (few + last, 4),
        lambda row, column: tirx.if_then_else(row < few, left[row, column], right[row - few, column]),
    )
    func = te.create_prim_func([left, right, rows, both], "int64").with_attr("global_symbol", "main")
    named = with_named_extents(func)
    assert all(isinstance(named.params[place].shape[0], tirx.Var) for place in (0, 1, 3))
    module = tvm.compile(named, target="llvm")
    image = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
    found = tvm.runtime.tensor(np.zeros((6, 4), "float32"))
    module["main"](*map(tvm.runtime.tensor, (image[:-1], image[-1:])), 6, found)
    np.testing.assert_array_equal(found.numpy(), image)
