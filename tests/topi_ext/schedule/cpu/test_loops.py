"""The rule that takes every function: right numbers whatever the function is, and never an exception."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_harness import (
    Array,
    check_kernel,
    check_loops,
    data_of,
    host_cpus,
    prim_func,
    scheduled_by,
    target_for,
)
from tvm import te, tirx, topi
from tvm.script import tirx as T
from tvm.target import Target
from tvm_ffi import structural_equal

from topi_ext.compute.interpolation import interpolate
from topi_ext.ir import nodes_of
from topi_ext.schedule.cpu.loops import LoopNest

TARGET = target_for(host_cpus()[-1])

either = pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic batch"])


@either
@pytest.mark.parametrize(
    "shape", [(1,), (3,), (7, 5), (2, 16), (3, 100, 9), (2, 64, 31, 33), (1, 2, 7, 7, 16)]
)
def test_elementwise(shape: tuple[int, ...], symbolic: bool) -> None:
    data = data_of(*shape)
    check_loops([data], lambda x: topi.nn.relu(topi.add(x, 1.0)), np.maximum(data + 1, 0), symbolic)


@pytest.mark.parametrize(
    ("dtype", "shape", "compute", "lanes"),
    [
        ("uint8", (4, 64, 15), topi.add, 64),
        ("bool", (4, 64, 15), topi.logical_xor, 64),
        ("int16", (4, 64, 15), topi.add, 32),
        ("uint8", (4, 64, 80), topi.add, 16),
        ("uint8", (4, 64, 15), lambda x, y: topi.add(x.astype("int32"), y.astype("int32")), 16),
        ("int64", (4, 64, 15), topi.add, 16),
    ],
    ids=["bytes", "truths", "halves", "rows", "widened", "long"],
)
def test_vectors_of_narrow_elements_are_longer(
    dtype: str, shape: tuple[int, ...], compute: Callable[..., te.Tensor], lanes: int
) -> None:
    """Unless they would cross the ends of rows."""
    tensors = [te.placeholder(shape, dtype, name) for name in "ab"]
    func = prim_func([*tensors, compute(*tensors)])
    scheduled = scheduled_by(LoopNest(), func, target_for("x86-64-v4")).mod["main"]
    found = nodes_of(scheduled.body, tirx.For)
    assert [int(loop.extent) for loop in found if loop.kind == tirx.ForKind.VECTORIZED] == [lanes]


@either
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 24, 5, 7), (1, 24, 1, 1)),
        ((3, 5, 7, 24), (24,)),
        ((2, 5, 7, 120), (120,)),
        ((2, 5, 7, 120), (2, 1, 1, 120)),
        ((2, 3, 5, 5, 16), (1, 3, 1, 1, 16)),
        ((4, 1), (1, 33)),
        ((3, 5, 49), (3, 5, 1)),
        ((2, 9, 197), (2, 1, 197)),
        ((2, 5, 7), (2, 5, 1)),
        ((2, 5, 3), (2, 5, 1)),
    ],
)
def test_broadcast(left: tuple[int, ...], right: tuple[int, ...], symbolic: bool) -> None:
    data, other = data_of(*left), data_of(*right, seed=1)
    check_loops([data, other], topi.multiply, data * other, symbolic)


@either
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", [(2, 5, 7), (2, 9, 16), (3, 20, 20), (2, 17, 49), (2, 197, 196)])
def test_triangles(shape: tuple[int, ...], upper: bool, symbolic: bool) -> None:
    data = data_of(*shape)
    wanted = (np.triu if upper else np.tril)(data)
    script = check_loops([data], lambda x: topi.trilu(x, tirx.const(0, "int32"), upper), wanted, symbolic)
    # A vector is of one row, whose number is divided by nothing.
    assert f"% {shape[-1]}" not in script and f"% T.int64({shape[-1]})" not in script


@pytest.mark.parametrize("channels", [26, 104, 128])
def test_rows_of_an_unknown_number_have_vectors_without_conditions(channels: int) -> None:
    data = data_of(3, 5, channels)
    script = check_loops([data], lambda x: topi.add(x, 1.0), data + 1, True)
    assert "T.vectorized(" in script and "T.where" not in script


def test_threads_share_rows_rather_than_their_few_elements() -> None:
    """A division by each of four unknown extents would take longer than two elements."""
    extents = [tirx.Var(name, "int64") for name in "nab"]
    data = te.placeholder((*extents, 2, 2, 26))
    func = prim_func([data, topi.transpose(data, (0, 5, 1, 3, 2, 4))], "int64")
    script = scheduled_by(LoopNest(), func, TARGET).mod["main"].script()
    assert "T.parallel(n * a * T.int64(26))" in script


def test_a_row_of_odd_length_ends_with_a_vector_that_overlaps_another() -> None:
    data, scale = te.placeholder((4, 197)), te.placeholder((4, 1))
    func = prim_func([data, scale, topi.multiply(data, scale)])
    wide = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    script = str(scheduled_by(LoopNest(), func, wide).mod["main"].script())
    assert "T.vectorized(16)" in script and "T.min(" in script and "T.where" not in script


def test_long_rows_that_lie_apart_have_a_loop_of_their_own() -> None:
    """Windows of an image, whose places would else be divided for each vector."""
    data = te.placeholder((2, 7, 8, 7, 96))
    func = prim_func([data, topi.transpose(data, (0, 2, 1, 3, 4))], "int64")
    wide = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    script = scheduled_by(LoopNest(), func, wide).mod["main"].script()
    assert "in range(T.int64(42)):" in script and "T.vectorized(T.int64(16))" in script


@pytest.mark.parametrize(
    ("channels", "vector"), [(120, 40), (72, 24), (184, 16), (24, 24), (128, 16), (49, 16), (1000, 40)]
)
def test_vectors_end_with_rows_where_channels_are_scaled(channels: int, vector: int) -> None:
    """Beyond the end of a row the factors are no run in memory: each would be loaded by itself."""
    data, factors = te.placeholder((1, 6, 5, channels)), te.placeholder((1, 1, 1, channels))
    func = prim_func([data, factors, topi.multiply(data, factors)])
    wide = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    script = str(scheduled_by(LoopNest(), func, wide).mod["main"].script())
    assert f"T.vectorized({vector})" in script


def half_blocks(x: te.Tensor) -> te.Tensor:
    """Blocks of 8 of blocks of 16."""
    batch, blocks, *image, _ = (int(extent) for extent in x.shape)
    return te.compute(
        (batch, 2 * blocks, *image, 8), lambda n, c, h, w, lane: x(n, c // 2, h, w, c % 2 * 8 + lane)
    )


def test_blocks_are_cut_in_two() -> None:
    data = data_of(2, 4, 40, 23, 16)
    expected = data.reshape(2, 4, 40, 23, 2, 8).transpose(0, 1, 4, 2, 3, 5).reshape(2, 8, 40, 23, 8)
    check_loops([data], half_blocks, expected, False)


def test_threads_share_rows_of_short_vectors() -> None:
    """Of vectors that they share one by one, the place of each would be divided."""
    wide = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    data = te.placeholder((1, 12, 71, 71, 16))
    script = str(scheduled_by(LoopNest(), prim_func([data, half_blocks(data)]), wide).mod["main"].script())
    assert f"T.parallel({24 * 71})" in script


@pytest.mark.parametrize(("channels", "vector"), [(3, 48), (5, 4), (12, 12)])
def test_vectors_of_whole_pixels_have_the_same_factors(channels: int, vector: int) -> None:
    """Those of more channels end with a pixel anyway."""
    wide = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    data, factors = te.placeholder((32, 32, channels)), te.placeholder((channels,))
    func = prim_func([data, factors, topi.multiply(data, factors)])
    script = scheduled_by(LoopNest(), func, wide).mod["main"].script()
    assert f"T.vectorized({vector})" in script


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize("width", [22, 40, 75])
def test_a_part_of_an_image_is_copied_in_rows(width: int, channels: int) -> None:
    data = data_of(2, 9, 80, channels)
    script = check_loops(
        [data],
        lambda x: topi.strided_slice(x, [0, 1, 2, 0], [2, 8, 2 + width, channels]),
        data[:, 1:8, 2 : 2 + width],
        False,
    )
    assert "T.vectorized" in script


@pytest.mark.parametrize("shape", [(33, 37, 3), (2, 16, 3), (5, 3)])
def test_pixels_are_scaled_and_their_channels_reversed(shape: tuple[int, ...]) -> None:
    data, factors = data_of(*shape), data_of(3)

    def scaled(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        return topi.multiply(topi.flip(x, -1), y)

    check_loops([data, factors], scaled, data[..., ::-1] * factors, False)


@pytest.mark.parametrize(
    ("first", "second", "axis"),
    [
        ((2, 16, 5, 5), (2, 24, 5, 5), 1),
        ((2, 5, 5, 16), (2, 5, 5, 3), 3),
        ((2, 2, 5, 5, 8), (2, 1, 5, 5, 8), 1),
    ],
)
def test_concatenation(first: tuple[int, ...], second: tuple[int, ...], axis: int) -> None:
    left, right = data_of(*first), data_of(*second, seed=1)
    check_loops(
        [left, right], lambda x, y: topi.concatenate([x, y], axis), np.concatenate([left, right], axis), False
    )


@either
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((2, 24, 9, 9), (0, 2, 3, 1)),
        ((2, 9, 9, 24), (0, 3, 1, 2)),
        ((33, 77), (1, 0)),
        ((4, 5, 6), (2, 1, 0)),
        ((3, 64, 64), (0, 2, 1)),
        ((2, 7, 4, 7, 32), (0, 2, 1, 3, 4)),
        ((2, 3, 4, 4, 4, 8), (0, 2, 1, 3, 4, 5)),
    ],
)
def test_transposition(shape: tuple[int, ...], order: tuple[int, ...], symbolic: bool) -> None:
    data = data_of(*shape)
    check_loops([data], lambda x: topi.transpose(x, order), np.transpose(data, order), symbolic)


@either
@pytest.mark.parametrize("block", [4, 8, 16])
def test_layout_transforms(block: int, symbolic: bool) -> None:
    data = data_of(2, 48, 9, 7)
    blocks = 48 // block
    packed = np.ascontiguousarray(data.reshape(2, blocks, block, 9, 7).transpose(0, 1, 3, 4, 2))

    def pack(x: te.Tensor) -> te.Tensor:
        shape = (x.shape[0], blocks, 9, 7, block)
        return te.compute(shape, lambda n, c, h, w, i: x[n, c * block + i, h, w])

    def unpack(x: te.Tensor) -> te.Tensor:
        return te.compute((x.shape[0], 48, 9, 7), lambda n, c, h, w: x[n, c // block, h, w, c % block])

    check_loops([data], pack, packed, symbolic)
    check_loops([packed], unpack, data, symbolic)


def test_padding_channels_up_to_a_block() -> None:
    data = data_of(1, 24, 5, 5)

    def pack(x: te.Tensor) -> te.Tensor:
        def element(n: tirx.Var, c: tirx.Var, h: tirx.Var, w: tirx.Var, i: tirx.Var) -> tirx.Expr:
            return tirx.if_then_else(c * 16 + i < 24, x[n, c * 16 + i, h, w], tirx.const(0, "float32"))

        return te.compute((1, 2, 5, 5, 16), element)

    padded = np.pad(data, ((0, 0), (0, 8), (0, 0), (0, 0)))
    check_loops(
        [data], pack, np.ascontiguousarray(padded.reshape(1, 2, 16, 5, 5).transpose(0, 1, 3, 4, 2)), False
    )


@either
@pytest.mark.parametrize("extents", [(1, 1, 1), (1, 512, 1000), (33, 65, 47), (7, 16, 64), (64, 1, 5)])
def test_matrix_products(extents: tuple[int, int, int], symbolic: bool) -> None:
    rows, inner, columns = extents
    left, right = data_of(rows, inner), data_of(inner, columns, seed=1)
    check_loops([left, right], topi.matmul, left @ right, symbolic)
    transposed = np.ascontiguousarray(right.T)
    check_loops([left, transposed], topi.nn.dense, left @ right, symbolic)


def test_a_product_with_its_epilogue() -> None:
    left, right, bias = data_of(9, 20), data_of(20, 33, seed=1), data_of(33, seed=2)
    check_loops(
        [left, right, bias],
        lambda x, y, z: topi.nn.relu(topi.add(topi.matmul(x, y), z)),
        np.maximum(left @ right + bias, 0),
        False,
    )


def test_large_work_is_split_among_threads_and_small_work_is_not() -> None:
    for size, parallel in ((16, False), (512, True)):
        data = data_of(size, 64)
        script = check_loops([data], topi.nn.relu, np.maximum(data, 0), False)
        assert ("T.parallel" in script) == parallel
        assert "T.vectorized" in script


@pytest.mark.parametrize(
    ("shape", "broadcast"),
    [((1, 64, 64, 29), True), ((1, 1, 3, 30001), True), ((1, 67, 67, 61), False)],
    ids=["many rows", "few rows", "one row"],
)
def test_rows_that_whole_vectors_do_not_fill_are_shared(shape: tuple[int, ...], broadcast: bool) -> None:
    data, scale = data_of(*shape), data_of(*(shape[-1:] if broadcast else shape), seed=1)
    script = check_loops([data, scale], topi.multiply, data * scale, False)
    assert "T.parallel" in script and "T.vectorized" in script


@T.prim_func(s_tir=True)
def shared_loop(data: T.Buffer((64, 32), "float32"), out: T.Buffer((64, 32), "float32")):
    between = T.sblock_alloc_buffer((64, 32), "float32")
    for i in range(64):
        for j in range(32):
            with T.sblock("first"):
                vi, vj = T.axis.remap("SS", [i, j])
                between[vi, vj] = data[vi, vj] + T.float32(1)
        for j in range(32):
            with T.sblock("second"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi, vj] = between[vi, vj] * T.float32(2)


@T.prim_func(s_tir=True)
def running_sum(data: T.Buffer((64, 32), "float32"), out: T.Buffer((64, 32), "float32")):
    for i in range(64):
        for j in range(32):
            with T.sblock("sum"):
                vi = T.axis.spatial(64, i)
                vj = T.axis.opaque(32, j)
                out[vi, vj] = data[vi, vj] + T.if_then_else(vj > 0, out[vi, vj - 1], T.float32(0))


@T.prim_func(s_tir=True)
def swapped_loops(data: T.Buffer((64, 32), "float32"), out: T.Buffer((64,), "float32")):
    for k in range(32):
        for i in range(64):
            with T.sblock("sum"):
                vi = T.axis.spatial(64, i)
                vk = T.axis.reduce(32, k)
                with T.init():
                    out[vi] = T.float32(0)
                out[vi] = out[vi] + data[vi, vk]


@T.prim_func(s_tir=True)
def whole_block(data: T.Buffer((64, 32), "float32"), out: T.Buffer((64, 32), "float32")):
    with T.sblock("whole"):
        T.reads()
        T.writes()
        for i in range(64):
            for j in range(32):
                out[i, j] = data[i, j]


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (shared_loop, lambda data: (data + 1) * 2),
        (running_sum, lambda data: data.cumsum(axis=1)),
        (swapped_loops, lambda data: data.sum(axis=1)),
        (whole_block, lambda data: data),
    ],
    ids=["shared_loop", "running_sum", "swapped_loops", "whole_block"],
)
def test_functions_written_by_hand(func: tirx.PrimFunc, expected: Callable[[Array], Array]) -> None:
    data = data_of(64, 32)
    check_kernel(
        func,
        TARGET,
        [data],
        expected(data).astype("float32"),
        schedule=lambda func, target: scheduled_by(LoopNest(), func, target),
    )


@T.prim_func
def lowered(data: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    for i in range(64):
        out[i] = data[i]


def test_what_has_no_blocks_is_left_as_it_is() -> None:
    scheduled = scheduled_by(LoopNest(), lowered, TARGET).mod["main"]
    assert structural_equal(scheduled.body, lowered.body)


def test_other_targets_are_not_taken() -> None:
    data = te.placeholder((4, 4))
    assert LoopNest().apply(prim_func([data, topi.nn.relu(data)]), Target("c"), False) is None


def test_a_root_that_many_elements_need_is_taken_once() -> None:
    data, few = data_of(4, 8, 8, 16), np.full((4, 1, 1, 16), 4, "float32")
    script = check_loops(
        [data, few],
        lambda x, y: topi.multiply(x, topi.rsqrt(y)),
        data * np.float32(0.5),
        False,
        tolerance=1e-6,
    )
    assert "T.sblock_alloc_buffer((4, 1, 1, 16))" in script


def test_places_that_many_elements_need_are_computed_once() -> None:
    data = data_of(64, 32)
    script = check_loops(
        [data],
        lambda x: interpolate(x, 1, 64, method="linear", coordinates="asymmetric"),
        doubled(data),
        False,
    )
    assert "T.sblock_alloc_buffer((2, 64)" in script


def test_what_joins_tensors_and_is_read_at_many_places_is_computed_once() -> None:
    """Corners of boxes of several levels, as detectors decode them."""
    levels = [data_of(rows, 4, seed=rows) for rows in (9, 7, 5, 3, 2, 1)]

    def corners(*levels: te.Tensor) -> te.Tensor:
        boxes = topi.concatenate(levels, 0)
        left, top, width, height = (topi.strided_slice(boxes, [0, at], [27, at + 1]) for at in range(4))
        sides = [topi.add(left, width), topi.add(top, height)]
        both = topi.concatenate([topi.subtract(left, width), topi.subtract(top, height), *sides], 1)
        return topi.multiply(
            topi.strided_slice(both, [0, 2], [27, 4]), topi.strided_slice(both, [0, 0], [27, 2])
        )

    boxes = np.concatenate(levels)
    least, most = boxes[:, :2] - boxes[:, 2:], boxes[:, :2] + boxes[:, 2:]
    script = check_loops(levels, corners, most * least, False)
    assert "T.sblock_alloc_buffer((27, 4)" in script and len(script) < 10_000


def doubled(data: Array) -> Array:
    """Twice as many columns: those there are, and between them their means."""
    following = np.concatenate([data[:, 1:], data[:, -1:]], axis=1)
    return np.stack([data, (data + following) / 2], axis=2).reshape(len(data), -1)


@pytest.mark.parametrize(("rows", "vectors"), [(64, 0), (4, 1)])
def test_rows_that_are_gathered_have_no_vectors(rows: int, vectors: int) -> None:
    """Few rows are shared among threads by element, so they keep them."""
    data, places = data_of(rows, 100), np.random.default_rng(0).integers(0, 100, 96)
    script = check_loops(
        [data, places], lambda x, y: topi.take(x, y, 1, mode="fast"), data.take(places, 1), False
    )
    assert script.count("T.vectorized") == vectors
