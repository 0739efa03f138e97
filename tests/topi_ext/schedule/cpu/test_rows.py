"""Rows that are reduced and then used: right for any length, and one loop over rows around all steps."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from kernel_harness import Array, check_kernel, data_of, host_cpus, prim_func, scheduled_by, target_for
from tvm import te, tirx, topi
from tvm.script import tirx as T
from tvm.target import Target
from tvm.tirx import PrimFunc

from topi_ext.compute import transcendental
from topi_ext.machine.processor import processor_of
from topi_ext.schedule.blocks import child_blocks, open_schedule
from topi_ext.schedule.cpu.rows import Rows, common_rows

Build = Callable[[te.Tensor], te.Tensor]


def check(
    data: Array,
    build: Build,
    expected: Array,
    *,
    cpu: str | None = None,
    batch: Any = None,
    tolerance: float = 0,
) -> str:
    """Compare; ``batch`` stands for the first extent. Returns the script."""
    shape = data.shape if batch is None else (batch, *data.shape[1:])
    tensor = te.placeholder(shape, str(data.dtype), "x")
    func = prim_func([tensor, build(tensor)], None if batch is None else "int64")
    target = target_for(host_cpus()[-1] if cpu is None else cpu)
    check_kernel(
        func,
        target,
        [data],
        expected.astype(data.dtype),
        tolerance=tolerance,
        schedule=lambda func, target: scheduled_by(Rows(), func, target),
    )
    return str(scheduled_by(Rows(), func, target).mod["main"].script())


def centred(x: te.Tensor) -> te.Tensor:
    """Each element less the sum of its row."""
    return topi.subtract(x, topi.sum(x, -1, keepdims=True))


def softmax_of(data: Array) -> Array:
    powers = np.exp(data.astype("float64") - data.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _counted(first: int, index: tirx.Var) -> Any:
    return ((index + first) % 8).astype("float32")


def refused(func: PrimFunc) -> bool:
    return Rows().apply(func, target_for(host_cpus()[-1]), False) is None


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(
    "shape", [(9, 16), (9, 17), (8, 31), (2, 3, 7, 49), (1, 12, 197), (13, 192), (11, 1000), (8, 2049)]
)
def test_rows_of_any_length(shape: tuple[int, ...], cpu: str) -> None:
    data = data_of(*shape)
    check(data, centred, data - data.sum(-1, keepdims=True), cpu=cpu)


@pytest.mark.parametrize("batch", [None, tirx.Var("n", "int64")], ids=["static", "symbolic batch"])
@pytest.mark.parametrize("shape", [(3, 5, 64), (1, 4, 49, 49), (16, 197), (8, 1000)])
def test_softmax(shape: tuple[int, ...], batch: Any) -> None:
    data = data_of(*shape) / np.float32(3)
    expected = softmax_of(data)
    check(data, lambda x: transcendental.softmax(x, -1), expected, batch=batch, tolerance=1e-6)


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize("length", [1, 3, 15, 16, 17, 32, 45, 333])
@pytest.mark.parametrize("open_rows", [False, True], ids=["rows are known", "rows are not known"])
def test_softmax_of_an_unknown_length(open_rows: bool, length: int, cpu: str) -> None:
    rows = 11
    extent = tirx.Var("n", "int64")
    x = te.placeholder((2, tirx.Var("m", "int64") if open_rows else rows, extent), "float32", "x")
    data = data_of(2, rows, length) / np.float32(3)
    func = prim_func([x, transcendental.softmax(x, -1)], "int64")
    schedule = partial(scheduled_by, Rows())
    check_kernel(
        func,
        target_for(cpu),
        [data],
        softmax_of(data).astype("float32"),
        tolerance=1e-6,
        schedule=schedule,
    )
    assert "T.vectorized(" in schedule(func, target_for(cpu)).mod["main"].script()


@pytest.mark.parametrize("length", [1, 7, 40])
def test_layer_norm_of_an_unknown_number_of_rows(length: int) -> None:
    data = data_of(1, length, 50)
    x = te.placeholder((1, tirx.Var("n", "int64"), 50), "float32", "x")
    func = prim_func([x, centred(x)], "int64")
    schedule = partial(scheduled_by, Rows())
    expected = data - data.sum(-1, keepdims=True)
    check_kernel(func, target_for(host_cpus()[-1]), [data], expected, schedule=schedule)


def test_softmax_of_rows_that_are_infinite_or_no_numbers() -> None:
    data = data_of(8, 40)
    data[0, 3], data[1], data[2, 7] = np.nan, -np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = softmax_of(data)
    check(data, lambda x: transcendental.softmax(x, -1), expected, tolerance=1e-6)


@pytest.mark.parametrize("batch", [None, tirx.Var("n", "int64")], ids=["static", "symbolic batch"])
@pytest.mark.parametrize("shape", [(2, 7, 96), (1, 9, 50), (12, 768)])
def test_layer_norm(shape: tuple[int, ...], batch: Any) -> None:
    data = data_of(*shape)
    scale, shift = ((np.arange(shape[-1]) + first) % 8 for first in (1, 5))

    def build(x: te.Tensor) -> te.Tensor:
        factors = [te.compute(scale.shape, partial(_counted, first)) for first in (1, 5)]
        return topi.nn.layer_norm(x, *factors, [len(shape) - 1], 1e-5)

    wide = data.astype("float64")
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    check(data, build, expected * scale + shift, batch=batch, tolerance=1e-4)


def test_norms_of_blocks_of_channels_have_vectors_along_the_block() -> None:
    data = data_of(2, 4, 5, 7, 16)
    script = check(
        data,
        lambda x: topi.subtract(x, topi.max(x, [2, 3], True)),
        data - data.max((2, 3), keepdims=True),
    )
    assert "_rf" not in script


def test_there_is_one_loop_over_rows_and_threads_share_it() -> None:
    small, large = (
        check(data := data_of(rows, 197), centred, data - data.sum(-1, keepdims=True)) for rows in (8, 4096)
    )
    assert "for row in range(8)" in small and "T.parallel" not in small
    assert large.count("T.parallel") == 1 and "for row in T.parallel(4096)" in large


def test_what_is_dear_and_read_twice_is_kept() -> None:
    data = data_of(16, 64)
    script = check(
        data,
        lambda x: transcendental.softmax(x, -1),
        softmax_of(data),
        tolerance=1e-6,
    )
    assert "exp = T.sblock_alloc_buffer((16, 64))" in script and "T_subtract" not in script


def test_what_is_kept_has_whole_vectors_in_odd_rows() -> None:
    data = data_of(9, 197)

    def share(x: te.Tensor) -> te.Tensor:
        powers = transcendental.exp(x)
        return topi.divide(powers, topi.sum(powers, -1, keepdims=True))

    powers = np.exp(data.astype("float64"))
    script = check(data, share, powers / powers.sum(-1, keepdims=True), tolerance=1e-6)
    assert "T.where" not in script


@pytest.mark.parametrize(("vectors", "kept"), [(4, [2]), (16, [4, 1]), (33, [4, 1])])
def test_partial_results_are_as_many_as_wait_for_none_and_become_fewer_in_vectors(
    vectors: int, kept: list[int]
) -> None:
    lanes = processor_of(target_for(host_cpus()[-1])).lanes(4)
    data = data_of(16, vectors * lanes)
    script = check(data, centred, data - data.sum(-1, keepdims=True))
    for width in (*[lanes * count for count in kept], 4):
        assert f"T.sblock_alloc_buffer((16, 1, {width}))" in script


def test_as_few_partial_results_as_can_be_are_not_made_twice() -> None:
    """Vectors of four, which is also how many are reduced one after the other."""
    data = data_of(16, 64)
    script = check(data, centred, data - data.sum(-1, keepdims=True), cpu="x86-64")
    assert script.count("T.sblock_alloc_buffer((16, 1, 4))") == 1


def _neighbours(x: te.Tensor) -> te.Tensor:
    total = topi.sum(x, -1)
    return te.compute(x.shape, lambda i, j: x[i, j] - total[tirx.max(i - 1, 0)])


@pytest.mark.parametrize(
    ("shape", "build"),
    [
        ((7, 64), centred),
        ((64, 3), centred),
        ((9, 1 << 20), centred),
        ((9, 64), lambda x: topi.sum(x, -1)),
        ((9, 64), lambda x: topi.multiply(topi.sum(x, -1), 2.0)),
        ((9, 64), lambda x: topi.subtract(x, topi.sum(x, 0, True))),
        ((9, 64), _neighbours),
        ((9, 64), topi.nn.relu),
    ],
    ids=[
        "few rows",
        "rows shorter than a vector",
        "rows longer than the cache",
        "a sum alone",
        "one result for each row",
        "columns",
        "the row before",
        "no sum",
    ],
)
def test_others_are_left_to_the_next_rule(shape: tuple[Any, ...], build: Build) -> None:
    x = te.placeholder(shape, "float32", "x")
    assert refused(prim_func([x, build(x)]))


def test_a_second_output_that_needs_another_row_is_left_to_the_next_rule() -> None:
    x = te.placeholder((9, 64), "float32", "x")
    total = topi.sum(x, -1)
    other = te.compute(x.shape, lambda i, j: x[i, j] - total[tirx.max(i - 1, 0)])
    assert refused(prim_func([x, total, other]))
    own = te.compute(x.shape, lambda i, j: x[i, j] - total[i])
    assert not refused(prim_func([x, total, own]))


def test_rows_are_the_outer_axes_that_all_blocks_share() -> None:
    x = te.placeholder((2, 3, 5, 7), "float32", "x")
    sch = open_schedule(prim_func([x, topi.subtract(x, topi.sum(x, [2, 3], True))]))
    assert common_rows(sch, child_blocks(sch)) == 2


@T.prim_func(private=True, s_tir=True)
def _columns_first(x: T.Buffer((16, 16), "float32"), y: T.Buffer((16, 16), "float32")) -> None:  # type: ignore[valid-type]
    total = T.sblock_alloc_buffer((16,))
    for i, j in T.grid(16, 16):
        with T.sblock("total"):
            row, column = T.axis.remap("SR", [i, j])
            with T.init():
                total[row] = T.float32(0)
            total[row] = total[row] + x[row, column]
    for j, i in T.grid(16, 16):
        with T.sblock("rest"):
            row, column = T.axis.remap("SS", [i, j])
            y[row, column] = x[row, column] - total[row]


def test_loops_in_another_order_are_left_to_the_next_rule() -> None:
    assert refused(_columns_first)


def test_other_targets_are_not_taken() -> None:
    x = te.placeholder((9, 64), "float32", "x")
    target = Target({"kind": "cuda", "arch": "sm_80"})
    assert Rows().apply(prim_func([x, centred(x)]), target, False) is None
