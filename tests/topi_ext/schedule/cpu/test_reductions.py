"""Sums and maxima: right whatever is reduced, in vectors and by all threads."""

import re
from typing import Any

import numpy as np
import pytest
import tvm
from kernel_harness import (
    apply_rules,
    check_loops,
    compile_function,
    data_of,
    host_cpus,
    prim_func,
    scheduled_by,
    target_for,
)
from tvm import te, tirx, topi
from tvm.target import Target
from tvm_ffi import structural_walk

from topi_ext.schedule.cpu.loops import LoopNest

COLUMNS = tirx.Var("n", "int64")

either = pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic batch"])


@either
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2, 64, 7, 7), (2, 3)),
        ((2, 7, 7, 64), (1, 2)),
        ((2, 7, 7, 3), (1, 2)),
        ((2, 4, 7, 7, 16), (2, 3)),
        ((2, 8, 7, 7, 8), (2, 3)),
        ((1, 2, 1, 1, 16), (2, 3)),
        ((3, 40, 28, 28), (2, 3)),
        ((3, 9, 9, 106), (1, 2)),
    ],
)
def test_global_average_pooling(shape: tuple[int, ...], axes: tuple[int, ...], symbolic: bool) -> None:
    data = data_of(*shape)
    pixels = data.size // data.max(axis=axes).size

    def mean(x: te.Tensor) -> te.Tensor:
        total = topi.sum(x, axis=axes, keepdims=True)
        return te.compute(total.shape, lambda *index: total(*index) / float(pixels))

    expected = (data.sum(axis=axes, keepdims=True) / pixels).astype("float32")
    check_loops([data], mean, expected, symbolic, tolerance=1e-6)


@either
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((5,), (0,)),
        ((6, 7), (0, 1)),
        ((33, 20), (0,)),
        ((20, 33), (1,)),
        ((4, 5, 6), (0, 2)),
        ((4, 14, 14), (1, 2)),
        ((3, 4, 5, 13), (1, 2, 3)),
        ((5, 13, 3, 9), (1, 3)),
        ((1, 1), (1,)),
        ((70, 300), (1,)),
        ((12, 30, 20, 1), (0, 1)),
        ((5, 6, 40, 1), (2, 3)),
        ((5, 40, 1, 1), (1,)),
    ],
)
@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_reductions(shape: tuple[int, ...], axes: tuple[int, ...], reduce: str, symbolic: bool) -> None:
    data = data_of(*shape)
    expected = np.asarray(getattr(data, reduce)(axis=axes))
    check_loops([data], lambda x: getattr(topi, reduce)(x, axis=axes), expected, symbolic)


@either
@pytest.mark.parametrize("reduce", ["sum", "max", "min"])
@pytest.mark.parametrize(
    "shape",
    [(7,), (33,), (3, 5, 7), (1, 64, 28, 28), (1, 4, 28, 28, 16), (2, 197, 192), (3, 224, 223), (5, 8, 2, 2)],
    ids=lambda shape: "x".join(map(str, shape)),
)
def test_to_one_element(shape: tuple[int, ...], reduce: str, symbolic: bool) -> None:
    data = data_of(*shape)
    expected = np.asarray(getattr(data.astype("float64"), reduce)(), "float32")
    check_loops([data], getattr(topi, reduce), expected, symbolic, tolerance=1e-5)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((0,), (0,)),
        ((0, 64), (0, 1)),
        ((64, 0), (0, 1)),
        ((64, 0), (1,)),
        ((0, 40), (0,)),
        ((2, 0, 3), (1, 2)),
    ],
)
@pytest.mark.parametrize(("reduce", "least"), [("sum", 0.0), ("max", np.finfo("float32").min)])
def test_nothing_is_reduced_to_what_results_begin_with(
    shape: tuple[int, ...], axes: tuple[int, ...], reduce: str, least: float
) -> None:
    symbol = tirx.Var("n", "int64")
    data = te.placeholder([extent or symbol for extent in shape])
    func = prim_func([data, getattr(topi, reduce)(data, axis=axes)], "int64")
    _, scheduled = apply_rules(func, target_for(host_cpus()[-1]))
    kept = [extent for axis, extent in enumerate(shape) if axis not in axes]
    result = tvm.runtime.tensor(np.full(kept, 7, "float32"))
    library = compile_function(scheduled.mod["main"], target_for(host_cpus()[-1]))
    library["main"](tvm.runtime.tensor(np.zeros(shape, "float32")), result)
    np.testing.assert_array_equal(result.numpy(), np.full(kept, least, "float32"))


@either
@pytest.mark.parametrize(
    ("shape", "axis", "logarithm"),
    [
        ((4, 10), -1, False),
        ((1, 1000), -1, False),
        ((2, 21, 5, 6), 1, False),
        ((3, 1), 1, False),
        ((4, 10), -1, True),
        ((2, 1000), -1, True),
        ((40, 16), -1, False),
        ((9, 32), -1, True),
    ],
)
def test_softmax(shape: tuple[int, ...], axis: int, logarithm: bool, symbolic: bool) -> None:
    data = data_of(*shape) / np.float32(3)
    exponentials = np.exp(data.astype("float64") - data.max(axis=axis, keepdims=True))
    expected = exponentials / exponentials.sum(axis=axis, keepdims=True)
    build = topi.nn.log_softmax if logarithm else lambda x: topi.nn.softmax(x, axis=axis)
    check_loops(
        [data],
        build,
        (np.log(expected) if logarithm else expected).astype("float32"),
        symbolic,
        tolerance=2e-6,
    )


@pytest.mark.parametrize(
    ("shape", "parts"), [((64, COLUMNS), 0), ((COLUMNS, 64), 3)], ids=["across", "along"]
)
def test_products_have_partial_results_where_both_factors_are_read_along(shape: Any, parts: int) -> None:
    """Of others each element would have those of a vector, in memory as long as all of them."""
    left, right = te.placeholder((3, 64), "float32", "left"), te.placeholder(shape, "float32", "right")
    product = topi.nn.matmul if shape[0] == 64 else topi.nn.dense
    func = prim_func([left, right, product(left, right)], "int64")
    found = scheduled_by(LoopNest(), func, target_for("x86-64-v4")).mod["main"]
    assert len(found.body.block.alloc_buffers) == parts


def test_long_rows_of_an_unknown_number_have_vectors() -> None:
    data = data_of(3, 5, 4096)
    script = check_loops([data], lambda x: topi.sum(x, [2]), data.sum(2), True)
    assert "_rf_update" in script


@pytest.mark.parametrize("shape", [(3, 9, 104), (2, 5, 26), (4, 3, 150)])
def test_channels_that_fill_no_vector_have_no_conditions(shape: tuple[int, ...]) -> None:
    data = data_of(*shape)
    script = check_loops([data], lambda x: topi.sum(x, [1]), data.sum(1), False)
    assert "T.where" not in script


@pytest.mark.parametrize(("columns", "lanes"), [(4, 4), (5, 4), (7, 4), (9, 8), (13, 8)])
def test_fewer_columns_than_lanes_are_shorter_vectors(columns: int, lanes: int) -> None:
    wide = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 1})
    data = te.placeholder((20, 80, columns))
    script = scheduled_by(LoopNest(), prim_func([data, topi.sum(data, [1])]), wide).mod["main"].script()
    assert f"T.vectorized({lanes})" in script
    assert "T.where" not in script
    values = data_of(6, 80, columns)
    check_loops([values], lambda x: topi.sum(x, [1]), values.sum(1), False, tolerance=1e-6)


@pytest.mark.parametrize(("columns", "shared"), [(61, True), (97, False), (500, True)])
def test_columns_that_fill_no_vector_are_shared_without_conditions(columns: int, shared: bool) -> None:
    """By as many vectors as divide them, of which the last thread has those that overlap: 4, 7 and 32."""
    wide = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    data = te.placeholder((3000, columns))
    script = scheduled_by(LoopNest(), prim_func([data, topi.sum(data, [0])]), wide).mod["main"].script()
    assert "T.where" not in script
    assert ("T.parallel(1)" not in script) == shared


@pytest.mark.parametrize(
    ("columns", "cores", "together"),
    [
        (768, 1, 64),
        (768, 2, 64),
        (196, 1, 16),
        (800, 1, 64),
        (800, 2, 32),
        (147, 1, 32),
        (147, 2, 16),
        (784, 2, 16),
        (320, 2, 32),
    ],
)
def test_columns_are_reduced_in_several_vectors(columns: int, cores: int, together: int) -> None:
    """Threads share them where they divide the columns, and only as long as there are parts for them."""
    target = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": cores})
    data = te.placeholder((3000 if cores > 1 else 20, columns))
    func = scheduled_by(LoopNest(), prim_func([data, topi.sum(data, [0])]), target).mod["main"]
    vectors: list[tirx.For] = []
    structural_walk(func.body, (tirx.For, vectors.append))
    assert {int(loop.extent) for loop in vectors if loop.kind == tirx.ForKind.VECTORIZED} == {together}


@pytest.mark.parametrize("columns", [17, 37, 61, 97, 790])
def test_many_rows_are_summed_to_columns_that_fill_no_vector(columns: int) -> None:
    data = data_of(3000, columns)
    check_loops([data], lambda x: topi.max(x, [0]), data.max(0), False)
    check_loops([data], lambda x: topi.sum(x, [0]), data.sum(0), False, tolerance=1e-4)


@pytest.mark.parametrize(
    ("shape", "axes", "place"),
    [
        ((2, 3, 6, 32), (2, 3), "last"),
        ((1, 64, 64, 16), (1, 2), "first"),
        ((2, 3, 3, 5), (2, 3), "none"),
        ((3, 5, 197), (2,), "last"),
        ((2, 3, 2, 49), (2, 3), "last"),
        ((2, 30, 14, 14), (2, 3), "last"),
        ((2, 3, 5, 9, 7), (2, 3, 4), "last"),
        ((2, 3, 160, 1), (2, 3), "last"),
        ((2, 160, 1), (1,), "last"),
        ((300, 16, 1), (0,), "none"),
    ],
    ids=[
        "rows",
        "few channels",
        "short planes",
        "odd rows",
        "odd planes",
        "rows that run on",
        "volumes",
        "one column",
        "one after rows",
        "rows of one each",
    ],
)
def test_sums_have_vectors_and_threads(shape: tuple[int, ...], axes: tuple[int, ...], place: str) -> None:
    data = data_of(*shape)
    script = check_loops(
        [data], lambda x: topi.sum(x, list(axes), True), data.sum(axes, keepdims=True), False
    )
    assert ("_rf_update" in script) == (place != "none")


def test_columns_before_an_axis_of_one_element_are_vectors() -> None:
    data = data_of(12, 64, 48, 1)
    script = check_loops([data], lambda x: topi.sum(x, [0, 1]), data.sum((0, 1)), False)
    assert re.search(r"in T.vectorized\((T.int64\()?48\b", script)


@pytest.mark.parametrize("step", [1, 2], ids=["all columns", "every second"])
def test_rows_of_an_unknown_length_stay_loops_of_their_own(step: int) -> None:
    """Places in such a row would be divided out of those of all elements."""
    batch = tirx.Var("batch", "int64")
    data = te.placeholder((batch, 4096, 3, step * COLUMNS), "float32", "data")
    line = te.reduce_axis((0, 3), "line")
    total = te.compute(
        (batch, 4096, COLUMNS),
        lambda image, channel, column: te.sum(data[image, channel, line, column * step], axis=line),
    )
    func = prim_func([data, total], "int64")
    found = scheduled_by(LoopNest(), func, target_for("x86-64-v4")).mod["main"]
    loops: list[tirx.For] = []
    structural_walk(found.body, (tirx.For, loops.append))
    shared = [loop for loop in loops if loop.kind == tirx.ForKind.PARALLEL]
    assert [str(loop.extent) for loop in shared] == ["batch * T.int64(4096)"]
    assert sum(loop.extent.same_as(COLUMNS) for loop in loops) == 2
