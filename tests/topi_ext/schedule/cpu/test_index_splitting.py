"""IndexSplitting tensors in parts: the same numbers, and no question left which operand an element comes
from.
"""

import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
import tvm
from kernel_harness import (
    Array,
    apply_rules,
    compile_function,
    host_cpus,
    prim_func,
    run_function,
    run_guarded,
    scheduled_by,
    target_for,
)
from tvm import te, tirx, topi

from topi_ext.ir import nodes_of
from topi_ext.schedule.cpu.index_splitting import IndexSplitting

TARGET = target_for(host_cpus()[-1])

Build = Callable[..., te.Tensor]


def function(shapes: Sequence[Sequence[Any]], build: Build) -> tirx.PrimFunc:
    operands = [te.placeholder(shape, "float32", f"x{place}") for place, shape in enumerate(shapes)]
    return prim_func([*operands, build(*operands)])


def chooses(func: tirx.PrimFunc) -> bool:
    return any(call.op.name == "prim.if_then_else" for call in nodes_of(func.body, tvm.ir.Call))


def refused(func: tirx.PrimFunc) -> bool:
    return IndexSplitting().apply(func, TARGET, False) is None


def check(shapes: Sequence[Sequence[int]], build: Build, expected: Callable[..., Array]) -> tirx.PrimFunc:
    """Scheduled by the rule, compiled, and run between guard zones."""
    func = function(shapes, build)
    module = scheduled_by(IndexSplitting(), func, TARGET).mod
    arrays = [np.random.default_rng(place).random(shape, "float32") for place, shape in enumerate(shapes)]
    wanted = expected(*arrays)
    found = run_guarded(compile_function(module["main"], TARGET), arrays, wanted.shape, "float32")
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    return module["main"]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_each_operand_has_its_own_loops(axis: int) -> None:
    shapes = [[3, 5, 40], [3, 5, 40]]
    scheduled = check(
        shapes,
        lambda a, b: topi.concatenate([a, b], axis),
        lambda a, b: np.concatenate([a, b], axis),
    )
    assert not chooses(scheduled)


@pytest.mark.parametrize("columns", [(1, 90), (90, 2), (3, 100, 1), (8, 1), (3, 20)])
def test_long_rows_have_parts_of_few_columns(columns: tuple[int, ...]) -> None:
    scheduled = check(
        [[5, count] for count in columns],
        lambda *operands: topi.concatenate(operands, 1),
        lambda *operands: np.concatenate(operands, 1),
    )
    assert not chooses(scheduled)


def test_the_middle_of_a_row_is_copied_and_its_ends_are_not() -> None:
    def padded(data: te.Tensor) -> te.Tensor:
        def element(row: Any, place: Any) -> Any:
            behind = tirx.if_then_else(place < 102, place - 2, 99)
            return data(row, tirx.if_then_else(place < 2, 0, behind))

        return te.compute((3, 105), element)

    assert not chooses(check([[3, 100]], padded, lambda data: np.pad(data, ((0, 0), (2, 3)), "edge")))


@pytest.mark.parametrize("channels", [1, 3, 16, 21])
def test_images_of_channels_last_have_a_border(channels: int) -> None:
    border = [(0, 0), (1, 2), (3, 1), (0, 0)]
    scheduled = check(
        [[2, 7, 9, channels]],
        lambda data: topi.nn.pad(data, *map(list, zip(*border, strict=True)), 1.5),
        lambda data: np.pad(data, border, constant_values=1.5),
    )
    assert not chooses(scheduled)


def test_what_is_computed_of_a_joined_tensor_is_computed_of_each_operand() -> None:
    scheduled = check(
        [[4, 33], [7, 33]],
        lambda a, b: topi.multiply(topi.nn.relu(topi.concatenate([a, b], 0)), tirx.const(2.0, "float32")),
        lambda a, b: np.maximum(np.concatenate([a, b], 0), 0) * np.float32(2),
    )
    assert not chooses(scheduled)


def test_joined_tensors_of_joined_tensors() -> None:
    """As the heads of a detector are: levels side by side, then kinds of results."""

    def build(a: te.Tensor, b: te.Tensor, c: te.Tensor) -> te.Tensor:
        rows = topi.concatenate([topi.transpose(a, (1, 0)), topi.transpose(b, (1, 0))], 1)
        return topi.concatenate([topi.sigmoid(rows), c], 0)

    def expected(a: Array, b: Array, c: Array) -> Array:
        return np.concatenate([1 / (1 + np.exp(-np.concatenate([a.T, b.T], 1))), c], 0)

    assert not chooses(check([[64, 51], [23, 51], [5, 87]], build, expected))


def test_operands_that_are_copied_across_are_transposed_in_registers() -> None:
    scheduled = check(
        [[48, 32], [3, 48]],
        lambda a, b: topi.concatenate([topi.transpose(a, (1, 0)), b], 0),
        lambda a, b: np.concatenate([a.T, b], 0),
    )
    shuffles = nodes_of(scheduled.body, tirx.Shuffle)
    assert shuffles


def test_a_sum_that_one_part_reads_is_computed_with_it() -> None:
    check(
        [[6, 32], [6, 32]],
        lambda a, b: topi.concatenate([topi.divide(a, topi.sum(a, 1, keepdims=True)), b], 1),
        lambda a, b: np.concatenate([a / a.sum(1, keepdims=True), b], 1),
    )


def test_a_function_of_several_results_keeps_all_of_them() -> None:
    a, b = te.placeholder((4, 40), "float32", "a"), te.placeholder((4, 40), "float32", "b")
    joined = topi.concatenate([a, b], 0)
    doubled, half = topi.multiply(joined, tirx.const(2.0, "float32")), topi.nn.relu(a)
    func = prim_func([a, b, doubled, half])
    scheduled = scheduled_by(IndexSplitting(), func, TARGET).mod["main"]
    arrays = [np.random.default_rng(seed).random((4, 40), "float32") for seed in (0, 1)]
    results = run_function(
        compile_function(scheduled, TARGET), arrays, [((8, 40), "float32"), ((4, 40), "float32")]
    )
    np.testing.assert_array_equal(results[0], 2 * np.concatenate(arrays, 0))
    np.testing.assert_array_equal(results[1], arrays[0])


@pytest.mark.parametrize(
    ("shapes", "build"),
    [
        ([[8, 40]], topi.nn.relu),
        ([[4, 3], [4, 3]], lambda a, b: topi.concatenate([a, b], 1)),
        ([[1, 3, 9, 9]], lambda a: topi.nn.pad(a, (0, 0, 1, 1))),
        ([[1, 40]] * 17, lambda *operands: topi.concatenate(operands, 0)),
        ([[tirx.Var("n", "int64"), 40]] * 2, lambda a, b: topi.concatenate([a, b], 0)),
        (
            [[4, 40], [4, 40]],
            lambda a, b: topi.divide(topi.concatenate([a, b], 0), topi.sum(a, keepdims=True)),
        ),
    ],
    ids=[
        "no choice",
        "rows too short",
        "rows with a border",
        "too many",
        "an extent that is not known",
        "a sum that all read",
    ],
)
def test_what_is_left_to_others(shapes: Sequence[Sequence[Any]], build: Build) -> None:
    assert refused(function(shapes, build))


def random_case(seed: int) -> tuple[list[list[int]], int, list[bool], int]:
    """Shapes before they are transposed, which are, along which axis they are joined, and what follows."""
    rng = random.Random(seed)
    rank, count = rng.choice([2, 3, 4]), rng.randint(2, 4)
    axis = rng.randrange(rank)
    common = [rng.choice([1, 2, 3, 5, 16, 17, 33]) for _ in range(rank)]
    shapes = []
    for _ in range(count):
        shape = list(common)
        shape[axis] = rng.choice([1, 2, 16, 19, 35])
        shapes.append(shape)
    return shapes, axis, [rng.random() < 0.5 for _ in shapes], rng.randrange(3)


@pytest.mark.parametrize("seed", range(40))
def test_random_joined_tensors(seed: int) -> None:
    shapes, axis, turned, after = random_case(seed)
    given = [shape[::-1] if turn else shape for shape, turn in zip(shapes, turned, strict=True)]

    def build(*operands: te.Tensor) -> te.Tensor:
        straight = [
            topi.transpose(operand) if turn else operand
            for operand, turn in zip(operands, turned, strict=True)
        ]
        joined = topi.concatenate(straight, axis)
        *outer, innermost = map(int, joined.shape)
        return [joined, topi.sigmoid(joined), topi.reshape(joined, (prod(outer), innermost))][after]

    func = function(given, build)
    arrays = [np.random.default_rng(place).random(shape, "float32") for place, shape in enumerate(given)]
    joined = np.concatenate(
        [array.T if turn else array for array, turn in zip(arrays, turned, strict=True)], axis
    )
    wanted = [joined, 1 / (1 + np.exp(-joined)), joined.reshape(-1, joined.shape[-1])][after]
    library = compile_function(apply_rules(func, TARGET)[1].mod["main"], TARGET)
    found = run_guarded(library, arrays, wanted.shape, "float32")
    np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=f"seed {seed}: {shapes} {axis} {turned}")
