"""Rows of which neighbours come from different rows: the same numbers, by vectors of each of these."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
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
from tvm_ffi import structural_walk

from topi_ext.schedule.cpu.interleaved import Interleaved

TARGET = target_for(host_cpus()[-1])

Build = Callable[..., te.Tensor]


def function(shapes: Sequence[Sequence[Any]], build: Build, dtype: str = "float32") -> tirx.PrimFunc:
    operands = [te.placeholder(shape, dtype, f"x{place}") for place, shape in enumerate(shapes)]
    return prim_func([*operands, build(*operands)])


def check(
    shapes: Sequence[Sequence[int]], build: Build, expected: Callable[..., Array], dtype: str = "float32"
) -> str:
    """Scheduled by the rule, compiled, and run between guard zones; the LLVM code of it."""
    func = function(shapes, build, dtype)
    rng = np.random.default_rng(0)
    arrays = [(rng.random(shape) * 100).astype(dtype) for shape in shapes]
    wanted = expected(*arrays)
    compiled = compile_function(scheduled_by(Interleaved(), func, TARGET).mod["main"], TARGET)
    found = run_guarded(compiled, arrays, wanted.shape, dtype)
    np.testing.assert_array_equal(found, wanted)
    return str(compiled.mod.inspect_source("ll"))


def shuffled(groups: int) -> tuple[Build, Callable[..., Array]]:
    """What joins tensors of NHWC and then takes a channel of each in turn."""

    def build(*operands: te.Tensor) -> te.Tensor:
        joined = topi.concatenate(operands, 3)
        *image, channels = (int(extent) for extent in joined.shape)
        apart = topi.reshape(joined, (*image, groups, channels // groups))
        return topi.reshape(topi.transpose(apart, (0, 1, 2, 4, 3)), (*image, channels))

    def expected(*operands: Array) -> Array:
        joined = np.concatenate(operands, 3)
        *image, channels = joined.shape
        return joined.reshape(*image, groups, -1).swapaxes(3, 4).reshape(*image, channels)

    return build, expected


def upsampled(data: te.Tensor) -> te.Tensor:
    batch, channels, height, width = (int(extent) for extent in data.shape)
    shape = (batch, channels, 2 * height, 2 * width)
    return te.compute(shape, lambda n, c, y, x: data(n, c, y // 2, x // 2), name="upsampled")


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64", "float16"])
@pytest.mark.parametrize("channels", [4, 8, 16, 29, 58, 116])
def test_a_shuffle_of_two_joined_tensors(channels: int, dtype: str) -> None:
    build, expected = shuffled(2)
    assert "shufflevector" in check([[1, 5, 3, channels]] * 2, build, expected, dtype)


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("channels", [16, 21])
def test_a_shuffle_of_more_tensors(count: int, channels: int) -> None:
    build, expected = shuffled(count)
    assert "shufflevector" in check([[2, 3, 3, channels]] * count, build, expected)


def test_a_shuffle_that_threads_share() -> None:
    build, expected = shuffled(2)
    assert "shufflevector" in check([[1, 64, 64, 58]] * 2, build, expected)


def test_halves_of_a_shuffle() -> None:
    build, expected = shuffled(2)
    code = check(
        [[1, 7, 7, 58]] * 2,
        lambda a, b: topi.split(build(a, b), 2, 3)[1],
        lambda a, b: expected(a, b)[..., 58:],
    )
    assert "shufflevector" in code


@pytest.mark.parametrize("width", [4, 7, 20, 33])
def test_an_image_of_twice_the_size(width: int) -> None:
    code = check([[1, 3, 5, width]], upsampled, lambda a: a.repeat(2, 2).repeat(2, 3))
    assert "shufflevector" in code


@pytest.mark.parametrize("block", [2, 3, 4])
@pytest.mark.parametrize("width", [7, 16])
def test_pixels_out_of_channels(block: int, width: int) -> None:
    apart, order = (1, 5, block, block, 6, width), (0, 1, 4, 2, 5, 3)
    image = (1, 5, 6 * block, width * block)
    code = check(
        [[1, 5 * block * block, 6, width]],
        lambda a: topi.reshape(topi.transpose(topi.reshape(a, apart), order), image),
        lambda a: a.reshape(apart).transpose(order).reshape(image),
    )
    assert "shufflevector" in code


def test_what_is_computed_of_the_rows_stays_in_vectors() -> None:
    build, expected = shuffled(2)
    code = check(
        [[1, 4, 4, 24]] * 2,
        lambda a, b: topi.nn.relu(topi.subtract(build(a, b), tirx.const(50.0, "float32"))),
        lambda a, b: np.maximum(expected(a, b) - np.float32(50), 0),
    )
    assert "shufflevector" in code


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64"])
@pytest.mark.parametrize("channels", [2, 3])
@pytest.mark.parametrize("width", [4, 7, 20, 33])
def test_pixels_out_of_planes(width: int, channels: int, dtype: str) -> None:
    code = check(
        [[2, channels, 3, width]],
        lambda a: topi.transpose(a, (0, 2, 3, 1)),
        lambda a: a.transpose(0, 2, 3, 1),
        dtype,
    )
    assert "shufflevector" in code


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (1, 0, 3, 2)])
def test_pixels_around_an_axis_of_one_element(order: tuple[int, ...]) -> None:
    code = check(
        [[4, 1, 3, 20]], lambda a: topi.transpose(a, order), lambda a: a.transpose(order), dtype="uint8"
    )
    assert "shufflevector" in code


def test_pixels_of_planes_with_a_number_for_each() -> None:
    code = check(
        [[1, 3, 5, 40], [3]],
        lambda a, b: topi.multiply(topi.transpose(a, (0, 2, 3, 1)), b),
        lambda a, b: a.transpose(0, 2, 3, 1) * b,
    )
    assert "shufflevector" in code


def test_planes_that_are_stacked_to_pixels() -> None:
    code = check([[3, 21]] * 2, lambda a, b: topi.stack([a, b], 2), lambda a, b: np.stack([a, b], 2))
    assert "shufflevector" in code


def test_images_of_any_height() -> None:
    height = tirx.Var("h", "int64")
    func = function([[1, height, 4, 24]] * 2, lambda a, b: interleaved_channels(a, b))
    compiled = compile_function(scheduled_by(Interleaved(), func, TARGET).mod["main"], TARGET)
    arrays = [np.random.default_rng(seed).random((1, 3, 4, 24), "float32") for seed in (0, 1)]
    found = run_guarded(compiled, arrays, (1, 3, 4, 48))
    np.testing.assert_array_equal(found, np.stack(arrays, 4).reshape(1, 3, 4, 48))


def interleaved_channels(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    *image, channels = a.shape

    def element(n: Any, y: Any, x: Any, c: Any) -> Any:
        return tirx.if_then_else(c % 2 < 1, a(n, y, x, c // 2), b(n, y, x, c // 2))

    return te.compute((*image, 2 * channels), element, name="interleaved")


@pytest.mark.parametrize(
    ("shapes", "build"),
    [
        ([[8, 40]], topi.nn.relu),
        ([[1, 4, 4, 3]] * 2, interleaved_channels),
        ([[1, 3, 9, 3]], lambda a: topi.transpose(a, (0, 2, 3, 1))),
        ([[1, 9, 9, 3]], topi.nn.relu),
        ([[1, 4, 4, 80]], lambda a: shuffled(5)[0](a)),
        ([[1, 4, 4, 32]], lambda a: topi.sum(interleaved_channels(a, a), 3)),
        ([[1, 2, 4, 4, 8]], lambda a: topi.reshape(topi.transpose(a, (0, 2, 3, 1, 4)), (1, 4, 4, 16))),
    ],
    ids=[
        "no remainder",
        "rows too short",
        "few pixels",
        "pixels as they are",
        "too many rows",
        "a sum",
        "blocks side by side",
    ],
)
def test_what_is_left_to_others(shapes: Sequence[Sequence[Any]], build: Build) -> None:
    assert Interleaved().apply(function(shapes, build), TARGET, False) is None


def test_it_is_asked_for_a_shuffle() -> None:
    rule, scheduled = apply_rules(function([[1, 5, 3, 58]] * 2, shuffled(2)[0]), TARGET)
    assert rule == "Interleaved"
    kinds: list[Any] = []
    structural_walk(scheduled.mod["main"].body, (tirx.For, lambda loop: kinds.append(loop.kind)))
    assert tirx.ForKind.VECTORIZED in kinds
