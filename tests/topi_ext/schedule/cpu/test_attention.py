"""Two products and the softmax between them, by blocks of rows: right whatever divides what."""

from collections.abc import Callable
from math import prod

import ml_dtypes
import numpy as np
import pytest
import tvm
from kernel_harness import (
    apply_rules,
    check_kernel,
    compile_function,
    host_cpus,
    pair_cpus,
    prim_func,
    scheduled_by,
    target_for,
)
from tvm import te, tirx, topi
from tvm.s_tir import SBlock

from topi_ext.compute import transcendental
from topi_ext.compute.pair_product import pair_product
from topi_ext.ir import nodes_of
from topi_ext.machine.processor import processor_of
from topi_ext.schedule.cpu.attention import MANY_ROWS, MOST_ROWS, Attention, best_form

Array = np.ndarray
Steps = Callable[[te.Tensor], te.Tensor]

PAIR_CPUS = pair_cpus()


def softmax(scores: te.Tensor) -> te.Tensor:
    powers = transcendental.exp(topi.subtract(scores, topi.max(scores, -1, True)))
    return topi.divide(powers, topi.sum(powers, -1, True))


def operands(images: tuple[int, ...], rows: int, scores: int, depth: int, columns: int) -> list[Array]:
    rng = np.random.default_rng(rows + scores)
    shapes = [(rows, depth), (depth, scores), (scores, columns)]
    return [rng.uniform(-1, 1, (*images, *shape)).astype("float32") for shape in shapes]


def expected(arrays: list[Array]) -> Array:
    query, key, value = (array.astype("float64") for array in arrays)
    powers = np.exp(query @ key)
    return (powers / powers.sum(-1, keepdims=True) @ value).astype("float32")


def function(
    arrays: list[Array],
    steps: Steps = softmax,
    batch: tirx.Var | None = None,
    product: Callable[[te.Tensor, te.Tensor], te.Tensor] = topi.nn.matmul,
) -> tirx.PrimFunc:
    shapes = [array.shape if batch is None else (batch, *array.shape[1:]) for array in arrays]
    tensors = [te.placeholder(shape, "float32", name) for shape, name in zip(shapes, "qkv", strict=True)]
    result = product(steps(product(*tensors[:2])), tensors[2])
    return prim_func([*tensors, result], "int64")


def check(arrays: list[Array], cpu: str | None, steps: Steps = softmax, want: Array | None = None) -> None:
    check_kernel(
        function(arrays, steps),
        target_for(cpu),
        arrays,
        expected(arrays) if want is None else want,
        tolerance=2e-6,
        case=[array.shape for array in arrays],
        schedule=lambda func, target: scheduled_by(Attention(), func, target),
    )


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(
    ("images", "sizes"),
    [
        ((2, 3), (49, 49, 32, 32)),
        ((6,), (197, 197, 16, 16)),
        ((2,), (257, 33, 7, 65)),
        ((2, 2), (1, 50, 8, 8)),
        ((3,), (7, 4, 5, 4)),
        ((1,), (64, 2000, 3, 20)),
        ((2,), (31, 63, 9, 17)),
        ((1,), (1001, 64, 8, 128)),
    ],
    ids=lambda value: "x".join(map(str, value)),
)
def test_rows_and_columns_that_nothing_divides(
    images: tuple[int, ...], sizes: tuple[int, int, int, int], cpu: str | None
) -> None:
    check(operands(images, *sizes), cpu)


@pytest.mark.parametrize("cpu", PAIR_CPUS)
@pytest.mark.parametrize(
    ("images", "sizes"),
    [
        ((2, 3), (49, 49, 32, 32)),
        ((2,), (257, 33, 7, 65)),
        ((3,), (9, 4, 5, 4)),
        ((2,), (31, 63, 9, 17)),
        ((1,), (1001, 64, 8, 128)),
    ],
    ids=lambda value: "x".join(map(str, value)),
)
def test_products_of_pairs(
    images: tuple[int, ...], sizes: tuple[int, int, int, int], cpu: str | None
) -> None:
    """Operands and shares are rounded to bfloat16, of which each is 2**-9 off at most."""
    arrays = [array.astype(ml_dtypes.bfloat16).astype("float32") for array in operands(images, *sizes)]
    check_kernel(
        function(arrays, product=pair_product),
        target_for(cpu),
        arrays,
        expected(arrays),
        tolerance=2**-8,
        case=[array.shape for array in arrays],
        schedule=lambda func, target: scheduled_by(Attention(), func, target),
    )


@pytest.mark.parametrize("cpu", host_cpus())
def test_steps_before_and_after_the_softmax(cpu: str | None) -> None:
    arrays = operands((4,), 50, 50, 8, 24)
    hidden = np.triu(np.full((50, 50), -np.inf, "float32"), 1)

    def steps(scores: te.Tensor) -> te.Tensor:
        later = te.compute(
            scores.shape,
            lambda image, row, column: tirx.Select(
                column > row, tirx.const(float("-inf"), "float32"), scores[image, row, column] * 0.5
            ),
        )
        shares = softmax(later)
        return te.compute(
            shares.shape, lambda *index: tirx.Select(tirx.isnan(shares(*index)), 0.0, shares(*index))
        )

    query, key, value = (array.astype("float64") for array in arrays)
    powers = np.exp(query @ key / 2 + hidden)
    check(arrays, cpu, steps, (powers / powers.sum(-1, keepdims=True) @ value).astype("float32"))


def test_a_symbolic_batch() -> None:
    arrays = operands((3, 2), 37, 41, 8, 16)
    check_kernel(
        function(arrays, batch=tirx.Var("n", "int64")),
        target_for(host_cpus()[-1]),
        arrays,
        expected(arrays),
        tolerance=2e-6,
        schedule=lambda func, target: scheduled_by(Attention(), func, target),
    )


def of_any_length(
    images: tuple[tirx.Var | int, ...], length: tirx.Var, scores: int | None = None, columns: int = 21
) -> tirx.PrimFunc:
    """Of as many scores as rows, unless their number is given."""
    number = length if scores is None else scores
    shapes = [(*images, length, 12), (*images, 12, number), (*images, number, columns)]
    tensors = [te.placeholder(shape, "float32", name) for shape, name in zip(shapes, "qkv", strict=True)]
    result = topi.nn.matmul(softmax(topi.nn.matmul(*tensors[:2])), tensors[2])
    return prim_func([*tensors, result], "int64")


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize("batch", [False, True], ids=["", "batch"])
@pytest.mark.parametrize("number", [1, 3, 4, 5, 7, 8, 15, 16, 17, 31, 49, 64, 100, 257])
def test_any_number_of_rows(number: int, batch: bool, cpu: str | None) -> None:
    check_any_number((2, 3), number, 21, cpu, tirx.Var("n", "int64") if batch else 2)


@pytest.mark.parametrize("number", [MANY_ROWS - 1, MANY_ROWS + 3])
def test_any_number_of_many_rows(number: int) -> None:
    """Whose values, of columns in whole tiles, are packed from so many rows on."""
    check_any_number((1, 1), number, 64, host_cpus()[-1], 1)


def check_any_number(
    sizes: tuple[int, int], number: int, columns: int, cpu: str | None, batch: tirx.Var | int
) -> None:
    arrays = operands(sizes, number, number, 12, columns)
    length = tirx.Var("t", "int64")
    images = (batch, sizes[1])
    check_kernel(
        of_any_length(images, length, columns=columns),
        target_for(cpu),
        arrays,
        expected(arrays),
        tolerance=2e-6,
        case=[array.shape for array in arrays],
        schedule=lambda func, target: scheduled_by(Attention(), func, target),
    )


@pytest.mark.parametrize("scores", [None, 77])
def test_no_temporary_of_any_number_of_rows_has_all_scores(scores: int | None) -> None:
    """TVM allocates what any branch needs, so that of 20000 rows a plain one would take gigabytes."""
    length = tirx.Var("t", "int64")
    func = of_any_length((2, 3), length, scores)
    module = scheduled_by(Attention(), func, target_for(host_cpus()[-1])).mod
    passes = tvm.s_tir.transform
    for each in (passes.PlanAndUpdateBufferAllocationLocation, passes.ConvertBlocksToOpaque):
        module = each()(module)
    analyzer = tvm.sym.Analyzer()
    analyzer.bind(length, tirx.const(20000, "int64"))
    compact = passes.CompactBufferAllocation()(module)["main"]
    sizes = [
        prod(int(analyzer.simplify(extent)) for extent in buffer.shape)
        for block in nodes_of(compact.body, SBlock)
        for buffer in block.alloc_buffers
    ]
    assert max(sizes) <= 2 * 32 * (scores or 20000)


@pytest.mark.parametrize(("scores", "apart"), [(601, 39 * 16), (1024, 65 * 16)])
def test_scores_are_those_of_a_block(scores: int, apart: int) -> None:
    """No temporary is as long as all rows; and rows begin an odd number of cache lines of 16 scores apart."""
    target = target_for(host_cpus()[-1])
    arrays = operands((2,), 601, scores, 16, 16)
    name, schedule = apply_rules(function(arrays), target)
    assert name == "Attention"
    module = compile_function(schedule.mod["main"], target)
    form = best_form(601, scores, 16, 16, processor_of(target), 2)
    source = module.mod.inspect_source("ll")
    assert f"i64 {4 * form.rows * apart}" in source
    assert f"i64 {4 * 601 * scores}" not in source


@pytest.mark.parametrize(("rows", "packed"), [(999, False), (1000, True)])
def test_many_rows_read_copies_of_keys_and_values(rows: int, packed: bool) -> None:
    schedule = scheduled_by(
        Attention(), function(operands((1,), rows, 64, 8, 128)), target_for(host_cpus()[-1])
    )
    script = schedule.mod["main"].script()
    assert ("k_global" in script) is ("v_global" in script) is packed


def test_deep_rows_are_computed_in_high_blocks() -> None:
    """Whose scores leave the second-level cache: keys and values, too large for it, are read less often."""
    processor = processor_of(target_for("x86-64-v4"))
    assert best_form(4096, 4096, 64, 64, processor, 8).rows * 4096 * 4 <= 2 * processor.l2_bytes
    assert best_form(4096, 4096, 512, 512, processor).rows > 64


@pytest.mark.parametrize("rows", [4, 100])
def test_little_work_starts_no_threads(rows: int) -> None:
    schedule = scheduled_by(Attention(), function(operands((rows,), 8, 8, 8, 8)), target_for(host_cpus()[-1]))
    assert ("T.parallel" in str(schedule.mod["main"].script())) == (rows == 100)


def test_others_are_left_to_other_rules() -> None:
    target = target_for(host_cpus()[-1])
    one = operands((2,), 9, 9, 8, 8)
    transposed = function(one, lambda scores: topi.transpose(softmax(scores), [0, 2, 1]))
    assert Attention().apply(transposed, target, False) is None
    along_rows = function(one, lambda scores: topi.divide(scores, topi.sum(scores, 1, True)))
    assert Attention().apply(along_rows, target, False) is None
    narrow = function(operands((2,), 9, 9, 8, 3))
    assert Attention().apply(narrow, target, False) is None


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(
    "sizes", [(1500, 1500, 64, 64), (197, 197, 64, 64), (49, 49, 32, 32), (5, 6000, 8, 8)]
)
def test_blocks_are_whole_tiles_and_stay_in_the_cache(
    sizes: tuple[int, int, int, int], cpu: str | None
) -> None:
    processor = processor_of(target_for(cpu))
    form = best_form(*sizes, processor, 6)
    rows, scores, *_ = sizes
    assert form.rows % form.first.rows == form.rows % form.second.rows == 0
    assert 1 <= form.rows <= min(rows, MOST_ROWS)
    assert form.rows <= 8 or form.rows * scores * 4 <= processor.l2_bytes // 4


def test_threads_share_the_blocks_evenly() -> None:
    processor = processor_of(target_for(host_cpus()[-1], cores=4))
    form = best_form(128, 128, 64, 64, processor, 1)
    assert -(-128 // form.rows) % 4 == 0
