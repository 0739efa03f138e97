"""The convolution's mathematics, without a schedule."""

from typing import Any

import numpy as np
import pytest
import tvm
from kernel_cases import ConvolutionCase, convolution_function, workload_of
from kernel_harness import compile_function, host_cpus, integers, prim_func, run_guarded, target_for
from kernel_reference import convolve, pack
from tvm import te

from topi_ext.compute import conv2d
from topi_ext.compute.convolution import reduction_axes
from topi_ext.errors import RelayLayoutError

TARGET = target_for(host_cpus()[-1])


@pytest.mark.parametrize(
    "case",
    [
        ConvolutionCase(2, 3, 5, 6, 5, (3, 2), (2, 1), (1, 0, 2, 1), (1, 2)),
        ConvolutionCase(
            1, 8, 24, 5, 5, (3, 3), data_layout="NCHW8c", kernel_layout="OIHW2i8o4i", out_layout="NCHW8c"
        ),
        ConvolutionCase(
            1, 6, 9, 4, 4, (3, 3), groups=3, data_layout="NHWC", kernel_layout="HWIO", out_layout="NHWC"
        ),
        ConvolutionCase(1, 24, 16, 4, 4, (1, 1), groups=4, data_layout="NCHW8c", out_layout="NCHW16c"),
        ConvolutionCase(
            1,
            8,
            16,
            4,
            4,
            (3, 3),
            groups=8,
            data_layout="NCHW8c",
            kernel_layout="OIHW8o",
            out_layout="NCHW8c",
        ),
        ConvolutionCase(1, 20, 16, 1, 7, (1, 1), data_layout="WC", kernel_layout="OI8o", out_layout="WC"),
    ],
    ids=str,
)
def test_unscheduled(case: ConvolutionCase) -> None:
    func, inputs, expected = convolution_function(case)
    got = run_guarded(compile_function(func, TARGET), inputs, expected.shape)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("dtype", "out_dtype"),
    [("int8", "int32"), ("uint8", "int32"), ("float64", "float64"), ("float16", "float32")],
)
def test_dtypes(dtype: str, out_dtype: str) -> None:
    """The accumulator has the type of the result: 100 * 100 * 27 fits no int8."""
    rng = np.random.default_rng(3)
    data = np.abs(integers(rng, (1, 16, 5, 5))) * 25
    weight = np.abs(integers(rng, (16, 16, 3, 3))) * 25
    func = conv2d_func(data, weight, dtype, out_dtype)
    expected = pack(convolve(data, weight, padding=(1, 1, 1, 1)), "NCHW", "NCHW16c").astype(out_dtype)
    inputs = [
        pack(data.astype(dtype), "NCHW", "NCHW16c"),
        pack(weight.astype(dtype), "OIHW", "OIHW16i16o"),
    ]
    got = run_guarded(compile_function(func, TARGET), inputs, expected.shape, out_dtype)
    np.testing.assert_array_equal(got, expected)


def conv2d_func(data: Any, weight: Any, dtype: str, out_dtype: str) -> tvm.tirx.PrimFunc:
    shapes = pack(data, "NCHW", "NCHW16c").shape, pack(weight, "OIHW", "OIHW16i16o").shape
    tensors = [te.placeholder(shape, dtype) for shape in shapes]
    layouts: dict[str, Any] = {
        "data_layout": "NCHW16c",
        "kernel_layout": "OIHW16i16o",
        "out_layout": "NCHW16c",
    }
    return prim_func([*tensors, conv2d(*tensors, padding=(1, 1, 1, 1), out_dtype=out_dtype, **layouts)])


@pytest.mark.parametrize(
    ("case", "axes"),
    [
        (
            ConvolutionCase(1, 16, 16, 4, 4, (3, 3), data_layout="NCHW16c", out_layout="NCHW16c"),
            "rc rh rw rb",
        ),
        (ConvolutionCase(1, 16, 16, 4, 4, (3, 3), data_layout="NHWC", out_layout="NHWC"), "rh rw rc"),
        (ConvolutionCase(1, 16, 16, 4, 4, (3, 3)), "rc rh rw"),
        (
            ConvolutionCase(1, 48, 48, 4, 4, (3, 3), groups=2, data_layout="NCHW16c", out_layout="NCHW16c"),
            "rc rh rw rb",
        ),
        (
            ConvolutionCase(1, 16, 16, 4, 4, (3, 3), groups=8, data_layout="NCHW16c", out_layout="NCHW16c"),
            "rc rh rw",
        ),
        (ConvolutionCase(1, 16, 16, 4, 4, (3, 3), groups=16), "rh rw"),
        (ConvolutionCase(1, 1, 16, 4, 4, (3, 3)), "rh rw"),
    ],
)
def test_order_of_the_reduction(case: ConvolutionCase, axes: str) -> None:
    assert reduction_axes(workload_of(convolution_function(case)[0])) == tuple(axes.split())


def test_the_workload_says_what_is_computed() -> None:
    geometry = ((3, 2), (2, 1), (1, 0, 2, 1), (1, 2))
    case = ConvolutionCase(2, 3, 16, 9, 7, *geometry, out_layout="NCHW16c", symbolic_batch=True)
    workload = workload_of(convolution_function(case)[0])
    assert workload.batch == "n"
    assert (workload.in_channels, workload.out_channels, workload.groups) == (3, 16, 1)
    assert (workload.in_height, workload.in_width, workload.kernel) == (9, 7, (3, 2))
    assert (workload.strides, workload.padding, workload.dilation) == ((2, 1), (1, 0, 2, 1), (1, 2))
    assert (workload.data_layout, workload.kernel_layout, workload.out_layout) == ("NCHW", "OIHW", "NCHW16c")
    assert (workload.dtype, workload.out_dtype) == ("float32", "float32")
    assert (workload.out_height, workload.out_width) == case.out_extents


@pytest.mark.parametrize(
    ("data", "weight", "groups", "out_layout", "problem"),
    [
        ((1, 4, 5, 5), (8, 3, 1, 1), 1, "NCHW", "4 input channels for 1 groups of 3"),
        ((1, 4, 5, 5), (8, 4, 1, 1), 2, "NCHW", "4 input channels for 2 groups of 4"),
        ((1, 4, 5, 5), (9, 2, 1, 1), 2, "NCHW", "9 output channels in 2 groups"),
        ((1, 4, 5, 5), (24, 4, 1, 1), 1, "NCHW16c", "24 output channels in blocks of 16"),
    ],
)
def test_channels_that_do_not_fit_together_are_refused(
    data: tuple[int, ...], weight: tuple[int, ...], groups: int, out_layout: str, problem: str
) -> None:
    with pytest.raises(RelayLayoutError) as refused:
        conv2d(te.placeholder(data), te.placeholder(weight), groups=groups, out_layout=out_layout)
    assert str(refused.value) == f"conv2d of NCHW, OIHW to {out_layout}: {problem}"
