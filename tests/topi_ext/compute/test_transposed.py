"""Transposed convolutions of every rank beside torch's, without a schedule and with the loops they get."""

from typing import Any

import numpy as np
import pytest
from kernel_harness import check_kernel, prim_func
from kernel_ranked import TARGET, RankedCase, check_ranked
from tvm import te

from topi_ext.compute import conv_transpose
from topi_ext.errors import RelayLayoutError

torch = pytest.importorskip("torch")


def transposed(
    channels: tuple[int, int],
    image: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...] = (),
    padding: tuple[int, ...] = (),
    output_padding: tuple[int, ...] = (),
    dilation: tuple[int, ...] = (),
    groups: int = 1,
    batch: int = 2,
) -> RankedCase:
    return RankedCase(
        channels, image, kernel, strides, padding, output_padding, dilation, groups=groups, batch=batch
    )


def check(case: RankedCase, layouts: str, *, any_batch: bool = False) -> None:
    check_ranked(case, conv_transpose, torch, layouts, any_batch=any_batch)


CASES = [
    transposed((3, 5), (7,), (3,), (2,), (1, 0), (1,)),
    transposed((6, 4), (5,), (4,), (3,), (2, 1), (2,), groups=2),
    transposed((3, 5), (5, 4), (3, 2)),
    transposed((4, 6), (5, 4), (3, 2), (2, 3), (1, 0, 2, 1), (1, 2)),
    transposed((4, 6), (5, 4), (4, 4), (2, 2), (1, 1, 1, 1), groups=2),
    transposed((6, 6), (4, 5), (3, 3), (2, 1), (1, 1, 1, 1), (1, 0), groups=6),
    transposed((4, 8), (4, 5), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), groups=4),
    transposed((3, 4), (4, 5), (2, 3), (2, 3), (0, 1, 0, 1), (1, 0), (3, 2)),
    transposed((3, 4), (4, 5), (3, 3), (4, 6), (2, 2, 2, 2), (3, 1), (2, 4)),
    transposed((3, 4), (4, 5), (1, 1), (3, 2), (0, 0, 0, 0), (2, 1)),
    transposed((4, 6), (3, 4, 2), (3, 2, 3), (2, 1, 2), (1, 0, 1, 0, 1, 1), (1, 0, 1), groups=2),
    transposed((2, 3), (3, 2, 2), (2, 2, 2), (1, 3, 2), (), (0, 2, 0), (2, 2, 1)),
]
"""Strides, paddings, output paddings, dilations and groups that differ by axis; strides share divisors with
dilations in some, are longer than the kernel in others."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_channels_first(case: RankedCase) -> None:
    check(case, f"NC{case.spatial} IO{case.spatial} NC{case.spatial}")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_channels_last(case: RankedCase) -> None:
    check(case, f"N{case.spatial}C {case.spatial}IO N{case.spatial}C")


@pytest.mark.parametrize(
    ("case", "layouts"),
    [
        (transposed((8, 16), (5,), (3,), (2,), (1, 1)), "NCW4c IOW4i8o NCW8c"),
        (transposed((8, 16), (5, 4), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)), "NCHW4c IOHW8o NHWC"),
        (transposed((8, 16), (5, 4), (3, 3), (2, 2), groups=2), "NCHW4c IOHW4i4o NCHW8c"),
        (transposed((8, 8), (5, 4), (3, 3), (2, 2), groups=8), "NCHW4c OIHW4i NCHW4c"),
        (transposed((8, 16), (5, 4), (3, 3), (2, 2), groups=4), "NCHW4c HWI4iO NCHW8c"),
        (transposed((8, 4), (3, 4, 2), (2, 2, 2), (2, 1, 2)), "NCDHW8c DHWI8iO NDHWC"),
        (transposed((8, 4), (5, 4), (3, 3), (1, 2)), "HWNC OHWI CHWN"),
    ],
    ids=str,
)
def test_blocks_and_other_orders(case: RankedCase, layouts: str) -> None:
    check(case, layouts)


def test_any_batch() -> None:
    case = transposed((4, 8), (5, 4), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), batch=3)
    check(case, "NHWC HWIO NHWC", any_batch=True)


def test_sums_are_as_wide_as_the_result() -> None:
    """100 * 100 * 18 fits no int8."""
    tensors = [te.placeholder((1, 4, 4, 2), "int8"), te.placeholder((3, 3, 2, 4), "int8")]
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO", "out_layout": "NHWC"}
    made = conv_transpose(*tensors, out_dtype="int32", **layouts)
    inputs = [np.full((1, 4, 4, 2), 100, "int8"), np.full((3, 3, 2, 4), 100, "int8")]
    reached = np.convolve(np.ones(4), np.ones(3)).astype("int32")
    expected = np.broadcast_to((np.outer(reached, reached) * 20000)[None, :, :, None], (1, 6, 6, 4))
    check_kernel(prim_func([*tensors, made]), TARGET, inputs, np.ascontiguousarray(expected))


@pytest.mark.parametrize(
    ("data", "weight", "groups", "out_layout", "problem"),
    [
        ((1, 4, 5), (3, 8, 1), 1, "NCW", "4 input channels in 1 groups for a kernel of 3"),
        ((1, 4, 5), (4, 8, 1), 3, "NCW", "4 input channels in 3 groups for a kernel of 4"),
        ((1, 4, 5), (4, 6, 1), 2, "NCW8c", "12 output channels in blocks of 8"),
    ],
)
def test_channels_that_do_not_fit_together_are_refused(
    data: tuple[int, ...], weight: tuple[int, ...], groups: int, out_layout: str, problem: str
) -> None:
    layouts = {"data_layout": "NCW", "kernel_layout": "IOW", "out_layout": out_layout}
    with pytest.raises(RelayLayoutError) as refused:
        conv_transpose(te.placeholder(data), te.placeholder(weight), groups=groups, **layouts)
    assert str(refused.value) == f"conv1d_transpose of NCW, IOW to {out_layout}: {problem}"


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ({"strides": (2,)}, "2 numbers are needed, not [2]"),
        ({"padding": (1, 1)}, "4 numbers are needed, not [1, 1]"),
        ({"output_padding": (1,)}, "2 numbers of output_padding are needed, not [1]"),
    ],
)
def test_numbers_for_every_axis_are_needed(numbers: dict[str, Any], problem: str) -> None:
    tensors = te.placeholder((1, 4, 5, 5)), te.placeholder((4, 4, 2, 2))
    layouts = {"data_layout": "NCHW", "kernel_layout": "IOHW", "out_layout": "NCHW"}
    with pytest.raises(RelayLayoutError) as refused:
        conv_transpose(*tensors, **layouts, **numbers)
    assert str(refused.value) == problem
