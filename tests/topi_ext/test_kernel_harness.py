"""The guards of the kernel tests see what they are there for, and the references are right by eye."""

import numpy as np
import pytest
from kernel_bounds import out_of_bounds
from kernel_harness import compile_function, host_cpus, run_guarded, target_for
from kernel_reference import convolve, pool
from tvm import tirx
from tvm.script import tirx as T

TARGET = target_for(host_cpus()[-1])


@T.prim_func(s_tir=True)
def reads_after(data: T.Buffer((20,), "float32"), out: T.Buffer((20,), "float32")):
    for i in range(20):
        out[i] = data[i + 1]


@T.prim_func(s_tir=True)
def reads_before_for_a_maximum(data: T.Buffer((20,), "float32"), out: T.Buffer((20,), "float32")):
    for i in range(20):
        out[i] = T.max(data[i - 1], T.float32(0))


@T.prim_func(s_tir=True)
def writes_after(data: T.Buffer((20,), "float32"), out: T.Buffer((20,), "float32")):
    for i in range(21):
        out[i] = data[i % 20]


@T.prim_func(s_tir=True)
def leaves_one_out(data: T.Buffer((20,), "float32"), out: T.Buffer((20,), "float32")):
    for i in range(19):
        out[i] = data[i]


@T.prim_func(s_tir=True)
def leaves_a_temporary(data: T.Buffer((20,), "float32"), out: T.Buffer((20,), "float32")):
    between = T.alloc_buffer((16,), "float32")
    for i in range(20):
        between[i] = data[i]
    for i in range(20):
        out[i] = between[i]


@T.prim_func(s_tir=True)
def is_guarded(data: T.Buffer((20,), "float32"), out: T.Buffer((20,), "float32")):
    for i in range(24):
        if i < 20:
            out[i] = T.if_then_else(i > 0 and i < 20, data[i - 1], T.float32(0))


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (reads_after, "reads beyond an argument"),
        (reads_before_for_a_maximum, "reads beyond an argument"),
        (writes_after, "argument 1 written at byte \\[80\\] of 80"),
        (leaves_one_out, "leaves output unwritten, at byte \\[76\\]"),
    ],
)
def test_guard_zones(func: tirx.PrimFunc, message: str) -> None:
    library = compile_function(func, TARGET)
    with pytest.raises(AssertionError, match=message):
        run_guarded(library, [np.zeros(20, "float32")], (20,))


@pytest.mark.parametrize(
    ("func", "found"),
    [
        (reads_after, ["data[0] = i + 1 takes 1..20 of 20"]),
        (reads_before_for_a_maximum, ["data[0] = i - 1 takes -1..18 of 20"]),
        (writes_after, ["out[0] = i takes 0..20 of 20"]),
        (leaves_one_out, []),
        (leaves_a_temporary, ["between[0] = i takes 0..19 of 16"] * 2),
        (is_guarded, []),
    ],
)
def test_every_index_is_evaluated(func: tirx.PrimFunc, found: list[str]) -> None:
    assert out_of_bounds(func) == found


def test_a_good_function_passes() -> None:
    data = np.arange(20, dtype="float32")
    got = run_guarded(compile_function(is_guarded, TARGET), [data], (20,))
    np.testing.assert_array_equal(got, [0, *range(19)])


def test_reference_convolution() -> None:
    data = np.arange(9.0).reshape(1, 1, 3, 3)
    weight = np.ones((1, 1, 2, 2))
    assert convolve(data, weight).tolist() == [[[[8, 12], [20, 24]]]]
    assert convolve(data, weight, strides=(2, 2), padding=(1, 1, 0, 0)).tolist() == [[[[0, 3], [9, 24]]]]
    assert convolve(data, weight, dilation=(2, 2)).tolist() == [[[[16]]]]
    two = np.concatenate([data, -data], axis=1)
    assert convolve(two, np.ones((2, 1, 3, 3)), groups=2).ravel().tolist() == [36, -36]


def test_reference_pooling() -> None:
    data = np.arange(9.0).reshape(1, 1, 3, 3) - 10
    geometry = ((2, 2), (2, 2), (0, 0, 0, 0), (1, 1), (2, 2))
    assert pool(data, "max_pool2d", *geometry).tolist() == [[[[-6, -5], [-3, -2]]]]
    assert pool(data, "avg_pool2d", *geometry).tolist() == [[[[-8, -6.5], [-3.5, -2]]]]
    padded = ((2, 2), (2, 2), (1, 1, 0, 0), (1, 1), (2, 2))
    assert pool(data, "avg_pool2d", *padded, True).tolist() == [[[[-2.5, -4.25], [-2.75, -4]]]]
