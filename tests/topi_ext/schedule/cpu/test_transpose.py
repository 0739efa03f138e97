"""Copies that bring another axis innermost: exact for every extent, in whole vectors."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from kernel_harness import (
    Array,
    apply_rules,
    compile_function,
    host_cpus,
    prim_func,
    run_guarded,
    scheduled_by,
    target_for,
)
from tvm import te, tirx, topi

from topi_ext.ir import nodes_of, substitute
from topi_ext.machine.processor import processor_of
from topi_ext.schedule.cpu.index_splitting import IndexSplitting
from topi_ext.schedule.cpu.transpose import Transpose

TARGET = target_for(host_cpus()[-1])


def numbered(shape: Sequence[int], dtype: str = "float32") -> Array:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def check(
    shape: Sequence[int],
    build: Callable[[te.Tensor], te.Tensor],
    expected: Callable[[Array], Array],
    *,
    cpu: str | None = host_cpus()[-1],
    dtype: str = "float32",
) -> None:
    """Between guard zones, because indices of vectors are not looked at otherwise."""
    data = te.placeholder(shape, dtype)
    func, target = prim_func([data, build(data)]), target_for(cpu)
    library = compile_function(scheduled_by(Transpose(), func, target).mod["main"], target)
    array = numbered(shape, dtype)
    wanted = expected(array)
    np.testing.assert_array_equal(run_guarded(library, [array], wanted.shape, str(wanted.dtype)), wanted)


def target_lanes(cpu: str | None, dtype: str) -> int:
    return processor_of(target_for(cpu)).lanes(np.dtype(dtype).itemsize)


def permuted(*order: int) -> tuple[Callable[[te.Tensor], te.Tensor], Callable[[Array], Array]]:
    return lambda data: topi.transpose(data, order), lambda array: array.transpose(order)


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((16, 16), (1, 0)),
        ((4, 5), (1, 0)),
        ((37, 23), (1, 0)),
        ((2, 7, 7, 24), (0, 3, 1, 2)),
        ((2, 24, 7, 7), (0, 2, 3, 1)),
        ((1, 5, 4, 3), (0, 3, 2, 1)),
        ((3, 17, 2, 33), (3, 2, 0, 1)),
        ((2, 19, 3, 5, 6), (0, 2, 3, 4, 1)),
    ],
)
def test_permutations(shape: tuple[int, ...], order: tuple[int, ...], cpu: str | None) -> None:
    if min(shape[-1], shape[order[-1]]) < 4:
        data = te.placeholder(shape, "float32")
        assert Transpose().apply(prim_func([data, topi.transpose(data, order)]), TARGET, False) is None
        return
    check(shape, *permuted(*order), cpu=cpu)


@pytest.mark.parametrize(("batch", "blocks", "block", "height", "width"), [(2, 3, 16, 5, 7), (1, 2, 8, 4, 4)])
def test_blocks(batch: int, blocks: int, block: int, height: int, width: int) -> None:
    channels = blocks * block

    def unblocked(data: te.Tensor) -> te.Tensor:
        return te.compute(
            (batch, channels, height, width), lambda n, c, y, x: data[n, c // block, y, x, c % block]
        )

    def blocked(data: te.Tensor) -> te.Tensor:
        return te.compute(
            (batch, blocks, height, width, block), lambda n, c, y, x, lane: data[n, c * block + lane, y, x]
        )

    check(
        (batch, blocks, height, width, block),
        unblocked,
        lambda array: array.transpose(0, 1, 4, 2, 3).reshape(batch, channels, height, width),
    )
    check(
        (batch, channels, height, width),
        blocked,
        lambda array: array.reshape(batch, blocks, block, height, width).transpose(0, 1, 3, 4, 2),
    )


@pytest.mark.parametrize("shape", [(2, 24, 30), (2, 720), (1440,), (2, 6, 4, 30)])
def test_pixels_and_channels_that_are_flattened_afterwards(shape: tuple[int, ...]) -> None:
    """Indices divide an axis several times; by its own extent, too, which changes nothing."""
    check(
        (2, 5, 6, 24),
        lambda data: topi.reshape(topi.transpose(data, (0, 3, 1, 2)), shape),
        lambda array: array.transpose(0, 3, 1, 2).reshape(shape),
    )


def test_a_result_that_is_a_part_of_a_tensor() -> None:
    """As the second operand of a concatenation is, whose loops begin at zero."""
    left, right = te.placeholder((3, 20), "float32", "left"), te.placeholder((20, 18), "float32", "right")
    func = prim_func([left, right, topi.concatenate([left, topi.transpose(right, (1, 0))], 0)])
    scheduled = scheduled_by(IndexSplitting(), func, TARGET).mod["main"]
    shuffles = nodes_of(scheduled.body, tirx.Shuffle)
    assert shuffles
    arrays = [numbered((3, 20)), numbered((20, 18))]
    found = run_guarded(compile_function(scheduled, TARGET), arrays, (21, 20), "float32")
    np.testing.assert_array_equal(found, np.concatenate([arrays[0], arrays[1].T], 0))


def test_parts_of_a_tensor() -> None:
    def part(data: te.Tensor) -> te.Tensor:
        return topi.transpose(topi.strided_slice(data, [0, 0, 0], [2, 20, 22], [1, 2, 1]), (0, 2, 1))

    check((2, 21, 30), part, lambda array: array[:, :20:2, :22].transpose(0, 2, 1))


@pytest.mark.parametrize("cpu", host_cpus())
def test_a_part_in_the_middle(cpu: str | None) -> None:
    """Keys of all heads out of queries, keys and values, as attention multiplies them."""

    def keys(data: te.Tensor) -> te.Tensor:
        part = topi.strided_slice(data, [0, 0, 1], [2, 37, 2], [1, 1, 1])
        return topi.transpose(topi.reshape(part, (2, 37, 3, 8)), (0, 2, 3, 1)) * 0.5

    check(
        (2, 37, 3, 24),
        keys,
        lambda array: array[:, :, 1].reshape(2, 37, 3, 8).transpose(0, 2, 3, 1) / 2,
        cpu=cpu,
    )


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "int32", "int64", "float64"])
@pytest.mark.parametrize("shape", [(3, 40, 18), (2, 37, 5)])
def test_elements_of_every_size(shape: tuple[int, ...], dtype: str, cpu: str | None) -> None:
    check(shape, *permuted(0, 2, 1), dtype=dtype, cpu=cpu)


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("uint8", "float32"),
        ("float32", "int8"),
        ("float16", "float32"),
        ("float32", "float16"),
        ("int64", "int32"),
    ],
)
def test_what_is_converted_on_the_way(before: str, after: str, cpu: str | None) -> None:
    check(
        (3, 4, 9),
        lambda data: topi.transpose(data, (0, 2, 1)).astype(after),
        lambda array: array.transpose(0, 2, 1).astype(after),
        dtype=before,
        cpu=cpu,
    )


@pytest.mark.parametrize("cpu", host_cpus())
def test_what_is_rounded_on_the_way(cpu: str | None) -> None:
    def quantized(data: te.Tensor) -> te.Tensor:
        moved = topi.transpose(data, (0, 2, 1)) / 3.0
        return te.compute(moved.shape, lambda *at: (te.nearbyint(moved(*at)) + 5.0).astype("uint8"))

    check(
        (2, 5, 20),
        quantized,
        lambda array: (np.rint(array.transpose(0, 2, 1) / np.float32(3)) + 5).astype("uint8"),
        cpu=cpu,
    )


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda data: data * 0.5, lambda array: array * np.float32(0.5)),
        (lambda data: topi.nn.relu(1.0 - data), lambda array: np.maximum(1 - array, 0)),
    ],
    ids=["scaled", "several"],
)
def test_arithmetic_with_numbers_is_done_to_vectors(
    build: Callable[[te.Tensor], te.Tensor], expected: Callable[[Array], Array], cpu: str | None
) -> None:
    check(
        (2, 37, 21),
        lambda data: build(topi.transpose(data, (0, 2, 1))),
        lambda array: expected(array.transpose(0, 2, 1)),
        cpu=cpu,
    )


def test_a_number_may_be_an_operand() -> None:
    data, scale = te.placeholder((33, 20), "float32"), te.placeholder((), "float32")
    func = prim_func([data, scale, topi.multiply(topi.transpose(data, (1, 0)), scale)])
    library = compile_function(scheduled_by(Transpose(), func, TARGET).mod["main"], TARGET)
    arrays = [numbered((33, 20)), np.array(0.25, "float32")]
    np.testing.assert_array_equal(run_guarded(library, arrays, (20, 33)), arrays[0].T * arrays[1])


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize("shape", [(2, 20, 24), (1, 37, 5), (3, 4, 19)])
def test_an_element_may_be_read_twice(shape: tuple[int, ...], cpu: str | None) -> None:
    check(
        shape,
        lambda data: topi.transpose(data * topi.maximum(data, 7.0), (0, 2, 1)),
        lambda array: (array * np.maximum(array, 7)).transpose(0, 2, 1),
        cpu=cpu,
    )


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(
    ("batch", "blocks", "block", "height", "width"), [(2, 3, 16, 5, 7), (1, 2, 8, 4, 4), (1, 1, 16, 1, 33)]
)
def test_operands_that_neighbours_in_the_result_share(
    batch: int, blocks: int, block: int, height: int, width: int, cpu: str | None
) -> None:
    channels, target = blocks * block, target_for(cpu)
    data = te.placeholder((batch, blocks, height, width, block), "float32")
    scale, shift = (te.placeholder(shape, "float32") for shape in ((1, channels, 1, 1), (batch, channels)))
    result = te.compute(
        (batch, channels, height, width),
        lambda n, c, y, x: data[n, c // block, y, x, c % block] * scale[0, c, 0, 0] + shift[n, c],
    )
    func = prim_func([data, scale, shift, result])
    library = compile_function(scheduled_by(Transpose(), func, target).mod["main"], target)
    arrays = [numbered(tuple(map(int, tensor.shape))) for tensor in (data, scale, shift)]
    plain = arrays[0].transpose(0, 1, 4, 2, 3).reshape(batch, channels, height, width)
    expected = plain * arrays[1] + arrays[2][:, :, None, None]
    np.testing.assert_array_equal(run_guarded(library, arrays, expected.shape), expected)


@pytest.mark.parametrize("operand", ["row", "row and pixel"])
def test_operands_that_neighbours_in_the_result_do_not_share_are_left_to_others(operand: str) -> None:
    data, added = te.placeholder((20, 24), "float32"), te.placeholder((40,), "float32")
    if operand == "row":
        result = te.compute((24, 20), lambda x, c: data[c, x] + added[c])
    else:
        result = te.compute((12, 40), lambda x, c: data[c // 2, c % 2 * 12 + x] + added[c])
    assert Transpose().apply(prim_func([data, added, result]), TARGET, False) is None


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize("apart", [2, 3, 4])
@pytest.mark.parametrize(("channels", "height", "width"), [(16, 3, 16), (20, 1, 7), (4, 2, 37)])
def test_pixels_that_alternate_between_images(
    channels: int, height: int, width: int, apart: int, cpu: str | None
) -> None:
    target = target_for(cpu)
    data = te.placeholder((apart, height, width, channels), "float32")
    added = te.placeholder((channels,), "float32")
    result = te.compute(
        (channels, height, width * apart), lambda c, y, x: data[x % apart, y, x // apart, c] + added[c]
    )
    func = prim_func([data, added, result])
    scheduled = scheduled_by(Transpose(), func, target).mod["main"]
    assert bool(nodes_of(scheduled.body, tirx.Shuffle))
    library = compile_function(scheduled, target)
    arrays = [numbered((apart, height, width, channels)), numbered((channels,))]
    expected = arrays[0].transpose(3, 1, 2, 0).reshape(channels, height, -1) + arrays[1][:, None, None]
    np.testing.assert_array_equal(run_guarded(library, arrays, expected.shape), expected)


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
@pytest.mark.parametrize(
    ("shape", "together"), [((2, 8, 9), 2), ((37, 5), 2), ((3, 4, 19), 4), ((1, 16, 16), 1)]
)
def test_neighbours_that_stay_together(
    shape: tuple[int, ...], together: int, dtype: str, cpu: str | None
) -> None:
    if target_lanes(cpu, dtype) < 4 * together:
        pytest.skip("no vector holds four of them")
    order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2, len(shape))
    check((*shape, together), *permuted(*order), cpu=cpu, dtype=dtype)


def test_neighbours_that_stay_together_are_left_to_others_where_vectors_hold_few_of_them() -> None:
    data = te.placeholder((20, 24, 3), "float32")
    func = prim_func([data, topi.transpose(data, (1, 0, 2))])
    assert Transpose().apply(func, TARGET, False) is None


@pytest.mark.parametrize("batch", [1, 3])
def test_any_batch(batch: int) -> None:
    data = te.placeholder((tirx.Var("n", "int64"), 6, 7, 20), "float32")
    func = prim_func([data, topi.transpose(data, (0, 3, 1, 2))], "int64")
    array = numbered((batch, 6, 7, 20))
    library = compile_function(scheduled_by(Transpose(), func, TARGET).mod["main"], TARGET)
    expected = array.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(run_guarded(library, [array], expected.shape), expected)


@pytest.mark.parametrize(
    "build",
    [
        lambda data: topi.nn.relu(data),
        lambda data: topi.exp(topi.transpose(data, (0, 2, 1))),
        lambda data: te.compute((2, 24, 20), lambda n, x, c: data[n, c, x] * data[n, 19 - c, x]),
        lambda data: te.compute((2, 24, 20), lambda n, x, c: data[n, c, x] + data[0, c, 0]),
        lambda data: topi.sum(data, axis=1),
        lambda data: topi.flip(topi.transpose(data, (0, 2, 1)), 1),
        lambda data: topi.transpose(topi.strided_slice(data, [0, 0, 19], [2, 20, 0], [1, 1, -1]), (0, 2, 1)),
        lambda data: topi.transpose(topi.nn.pad(data, (0, 1, 0)), (0, 2, 1)),
        lambda data: topi.transpose(data, (1, 0, 2)),
        lambda data: topi.transpose(data, (0, 2, 1)).astype("bool"),
        lambda data: te.compute((), lambda: data[0, 1, 2]),
    ],
)
def test_what_is_no_such_copy_is_left_to_others(build: Callable[[te.Tensor], te.Tensor]) -> None:
    data = te.placeholder((2, 20, 24), "float32")
    func = prim_func([data, build(data)])
    assert Transpose().apply(func, TARGET, False) is None
    assert apply_rules(func, TARGET)[0] == "LoopNest"


@pytest.mark.parametrize(("shape", "parallel"), [((1, 16, 32), False), ((1, 256, 784), True)])
def test_threads_are_for_many_tiles(shape: tuple[int, ...], parallel: bool) -> None:
    data = te.placeholder(shape, "float32")
    func = prim_func([data, topi.transpose(data, (0, 2, 1))])
    loops = nodes_of(scheduled_by(Transpose(), func, TARGET).mod["main"].body, tirx.For)
    assert [loop.kind == tirx.ForKind.PARALLEL for loop in loops] == [parallel]


@pytest.mark.parametrize(
    ("shape", "order", "walked"),
    [
        ((1, 384, 64, 64), (0, 2, 3, 1), "source"),
        ((1, 64, 64, 384), (0, 3, 1, 2), "result"),
        ((1, 256, 56, 56), (0, 2, 3, 1), "result"),
        ((1, 56, 56, 256), (0, 3, 1, 2), "source"),
        ((1, 512, 14, 14), (0, 2, 3, 1), "result"),
    ],
)
def test_tiles_go_where_neighbours_spread_over_the_cache(
    shape: tuple[int, ...], order: tuple[int, ...], walked: str
) -> None:
    """From tile to tile in one of the tensors, so that the other is crossed in steps of few powers of two."""
    data = te.placeholder(shape, "float32")
    func = scheduled_by(Transpose(), prim_func([data, topi.transpose(data, order)]), TARGET).mod["main"]
    starts = [bind for bind in nodes_of(func.body, tirx.Bind) if bind.var.name.endswith("_start")]
    counter, analyzer = nodes_of(func.body, tirx.For)[0].loop_var, tvm.sym.Analyzer()
    steps = {}
    for start in starts:
        first, second = (
            int(analyzer.simplify(substitute(start.value, {counter: tirx.const(tile, str(counter.ty))})))
            for tile in (0, 1)
        )
        steps[start.var.name.removesuffix("_start")] = second - first
    across = "result" if walked == "source" else "source"
    assert steps[walked] <= 16 < steps[across]
