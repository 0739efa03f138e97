"""Kernels of bfloat16 beside numpy."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
from kernel_harness import check_kernel
from kernel_reference import convolve as reference
from kernel_reference import pack
from tvm import te, topi
from tvm.target import Target

from topi_ext.kernel import direct_convolution, kernel_arguments
from topi_ext.kernel import schedule as arrange
from topi_ext.weights import fill_vectors
from topi_ext.workloads.convolution import ConvolutionWorkload


def floats(case: ConvolutionWorkload) -> ConvolutionWorkload:
    """The same of float32."""
    return replace(case, dtype="float32", out_dtype="float32")


def check_bfloat16(case: ConvolutionWorkload, form: ConvolutionWorkload, chosen: Any, target: Target) -> None:
    """The kernel of a form of ``case``, whose data of float32 it rounds, with bias and ReLU beside numpy."""
    rng = np.random.default_rng(case.in_channels)
    data = rng.standard_normal((case.batch, case.in_channels, case.in_height, case.in_width), "float32")
    weight = rng.standard_normal((case.out_channels, case.group_in_channels, *case.kernel), "float32")
    bias = rng.standard_normal(case.out_channels, "float32")
    bfloats = [array.astype(ml_dtypes.bfloat16) for array in (data, weight)]
    rounded = [array.astype("float64") for array in bfloats]
    sums = reference(*rounded, case.strides, case.padding, case.dilation, case.groups)
    expected = np.maximum(sums + bias[:, None, None], 0)
    parameters = [
        te.placeholder(shape, "float32" if place == 0 else dtype)
        for place, (shape, dtype) in enumerate(kernel_arguments(form, chosen)[:-1])
    ]
    result = topi.nn.relu(topi.add(direct_convolution(*parameters[:2], form), parameters[2]))
    wider = form.kernel[1] - case.kernel[1]
    stored = np.pad(bfloats[1].view("uint16"), ((0, 0), (0, 0), (0, 0), (0, wider)))
    if form.padded_lanes:
        stored = fill_vectors(stored, 1, form.padded_lanes)
    check_kernel(
        te.create_prim_func([*parameters, result]),
        target,
        [
            pack(data, "NCHW", form.data_layout),
            pack(stored, "OIHW", form.kernel_layout),
            pack(bias[None, :, None, None], "NCHW", form.out_layout),
        ],
        pack(expected.astype("float32"), "NCHW", form.out_layout),
        tolerance=1e-4,
        schedule=lambda func, _: arrange(func, form, chosen),
        case=f"{form.to_json()} {chosen}",
    )
