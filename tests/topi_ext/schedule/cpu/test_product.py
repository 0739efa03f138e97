"""Products of two activations: exact on integers, whatever divides what, and in register tiles."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_harness import check_kernel, host_cpus, integers, prim_func, scheduled_by, target_for
from tvm import te, tirx, topi
from tvm.target import Target

from topi_ext.machine.processor import processor_of
from topi_ext.schedule.cpu.product import Product, best_tile

Shape = tuple[int, ...]
Build = Callable[..., te.Tensor]


def check(
    left: Shape, right: Shape, cpu: str | None = None, after: Build | None = None, dtype: str = "float32"
) -> str:
    rng = np.random.default_rng(sum(left + right))
    arrays = [integers(rng, shape).astype(dtype) for shape in (left, right)]
    tensors = [te.placeholder(shape, dtype, name) for name, shape in (("a", left), ("b", right))]
    result, expected = topi.nn.matmul(*tensors), np.matmul(*arrays)
    if after is not None:
        result, expected = after(result), np.maximum(expected, 0) * 2
    target = target_for(host_cpus()[-1] if cpu is None else cpu)
    func = prim_func([*tensors, result])
    check_kernel(
        func, target, arrays, expected, schedule=lambda func, target: scheduled_by(Product(), func, target)
    )
    return str(scheduled_by(Product(), func, target).mod["main"].script())


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 49, 32), (3, 32, 49)),
        ((2, 2, 197, 7), (2, 2, 7, 197)),
        ((2, 17, 5), (2, 5, 64)),
        ((1, 1, 9), (1, 9, 16)),
        ((6, 3, 1), (6, 1, 33)),
        ((4, 13, 8), (1, 8, 40)),
        ((13, 8), (8, 40)),
        ((2, 17, 5), (2, 5, 4)),
        ((2, 17, 5), (2, 5, 7)),
        ((2, 17, 5), (2, 5, 12)),
    ],
)
def test_rows_and_columns_that_no_tile_divides(left: Shape, right: Shape, cpu: str) -> None:
    check(left, right, cpu)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
@pytest.mark.parametrize("columns", [4, 7, 49, 64])
def test_other_numbers(dtype: str, columns: int) -> None:
    check((2, 17, 5), (2, 5, columns), dtype=dtype)


def test_tiles_of_doubles_fit_the_registers() -> None:
    processor = processor_of(target_for("znver5"))
    single, double = (best_tile(256, 256, processor, size) for size in (4, 8))
    assert (single.lanes, double.lanes) == (16, 8)
    assert (single.rows, single.vectors) == (double.rows, double.vectors)


def test_what_follows_is_computed_in_the_tile() -> None:
    script = check((4, 37, 8), (4, 8, 49), after=lambda x: topi.multiply(topi.nn.relu(x), 2.0))
    assert script.count("T.vectorized") == 3


@pytest.mark.parametrize(("batch", "parallel"), [(2, False), (256, True)])
def test_large_work_is_split_among_threads_and_small_work_is_not(batch: int, parallel: bool) -> None:
    assert ("T.parallel" in check((batch, 16, 8), (batch, 8, 32))) == parallel


def test_a_symbolic_batch() -> None:
    batch = tirx.Var("n", "int64")
    tensors = [te.placeholder((batch, 9, 5)), te.placeholder((batch, 5, 33))]
    arrays = [
        integers(np.random.default_rng(place), (3, *shape)) for place, shape in enumerate([(9, 5), (5, 33)])
    ]
    check_kernel(
        prim_func([*tensors, topi.nn.matmul(*tensors)], "int64"),
        target_for(host_cpus()[-1]),
        arrays,
        np.matmul(*arrays),
        schedule=lambda func, target: scheduled_by(Product(), func, target),
    )


SIZES = [(1, 1, 1), (3, 5, 40), (16, 2, 7), (13, 300, 64), (47, 33, 129)]


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("known", ["", "m", "k", "n", "mk", "kn"], ids=lambda known: f"known {known}")
def test_any_rows_columns_and_depth(known: str, sizes: tuple[int, int, int], cpu: str) -> None:
    values = dict(zip("mkn", sizes, strict=True))
    if "n" in known and values["n"] < 4:
        pytest.skip("few columns are left to the next rule")
    rows, depth, columns = (
        values[name] if name in known else tirx.Var(name, "int64") for name in ("m", "k", "n")
    )
    tensors = [te.placeholder((2, rows, depth)), te.placeholder((2, depth, columns))]
    rng = np.random.default_rng(sum(sizes))
    m, k, n = sizes
    arrays = [integers(rng, (2, m, k)), integers(rng, (2, k, n))]
    func = prim_func([*tensors, topi.nn.relu(topi.nn.matmul(*tensors))], "int64")
    check_kernel(
        func,
        target_for(cpu),
        arrays,
        np.maximum(np.matmul(*arrays), 0),
        schedule=lambda func, target: scheduled_by(Product(), func, target),
    )


@pytest.mark.parametrize(
    ("left", "right", "transposed", "dtype"),
    [
        ((2, 9, 5), (2, 5, 3), False, "float32"),
        ((2, 9, 5), (2, 33, 5), True, "float32"),
        ((2, 9, 5), (2, 5, 33), False, "int64"),
    ],
    ids=["few columns", "transposed", "integers"],
)
def test_others_are_left_to_the_next_rule(left: Shape, right: Shape, transposed: bool, dtype: str) -> None:
    tensors = [te.placeholder(shape, dtype) for shape in (left, right)]
    func = prim_func([*tensors, topi.nn.batch_matmul(*tensors, transpose_b=transposed)])
    assert Product().apply(func, target_for(host_cpus()[-1]), False) is None


@pytest.mark.parametrize(
    ("target", "rows", "columns"),
    [
        ({"mcpu": "x86-64-v4"}, 197, 197),
        ({"mcpu": "x86-64-v3"}, 197, 64),
        ({"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"}, 49, 49),
        ({"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a55"}, 1, 64),
        ({"mcpu": "x86-64-v4"}, 1024, 12),
    ],
    ids=lambda value: value["mcpu"] if isinstance(value, dict) else "",
)
def test_a_tile_fits_into_the_registers(target: dict[str, str], rows: int, columns: int) -> None:
    processor = processor_of(Target({"kind": "llvm", **target}))
    tile = best_tile(rows, columns, processor)
    assert tile.rows <= rows and tile.vectors * tile.lanes <= columns
    assert tile.rows * tile.vectors + tile.vectors < processor.vector_registers
