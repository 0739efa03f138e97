"""Which epilogues let the sums of a depthwise convolution start from what they add."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_harness import check_kernel, integers, prim_func, target_for
from tvm import te, topi

from topi_ext.codegen.scopes import START
from topi_ext.compute.convolution import conv2d
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.schedule.blocks import annotated_block, open_schedule
from topi_ext.schedule.cpu.direct import schedule_convolution
from topi_ext.workloads.reading import convolution_from_json

CHANNELS, SIZE = 10, 7

EPILOGUES: dict[str, tuple[Callable[[Any, Any, Any, Any], Any], bool]] = {
    "bias": (lambda _, sums, bias, __: sums + bias, True),
    "bias, first operand": (lambda _, sums, bias, __: bias + sums, True),
    "bias, activation": (lambda on, sums, bias, _: on.clip(sums + bias, 0, 60), True),
    "bias, residual": (lambda _, sums, bias, residual: sums + bias + residual, True),
    "hard swish": (lambda on, sums, bias, _: (sums + bias) * on.clip((sums + bias) + 3, 0, 6), True),
    "residual, bias": (lambda _, sums, bias, residual: sums + residual + bias, False),
    "bias taken away": (lambda _, sums, bias, __: sums - bias, False),
    "sums besides": (lambda _, sums, bias, __: (sums + bias) * sums, False),
    "bias besides": (lambda _, sums, bias, __: (sums + bias) * bias, False),
    "no bias": (lambda on, sums, *_: on.clip(sums, 0, 60), False),
}
"""A function of the module of the tensors, sums, bias and residual; and whether sums start from the bias."""


@pytest.mark.parametrize("tile", [(4, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name: str, tile: tuple[int, int]) -> None:
    epilogue, starts = EPILOGUES[name]
    rng = np.random.default_rng(1)
    image = (2, SIZE, SIZE, CHANNELS)
    arrays = [integers(rng, shape) for shape in (image, (3, 3, CHANNELS, 1), (1, 1, 1, CHANNELS), image)]
    data, weight, bias, residual = (te.placeholder(array.shape, "float32") for array in arrays)
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWOI", "out_layout": "NHWC"}
    sums = conv2d(data, weight, padding=(1, 1, 1, 1), groups=CHANNELS, **layouts)
    func = prim_func([data, weight, bias, residual, epilogue(topi, sums, bias, residual)])
    found = annotated_block(open_schedule(func))
    assert found is not None
    workload = convolution_from_json(found[1])
    arranged = schedule_convolution(func, workload, ConvolutionKnobs(4, *tile, "channels", SIZE, "stage"))
    assert (START in arranged.mod.script()) == starts
    bordered = np.pad(arrays[0], ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(bordered, (3, 3), (1, 2))
    products = np.einsum("nhwcij,ijc->nhwc", windows, arrays[1][..., 0])
    expected = epilogue(np, products, *arrays[2:])
    check_kernel(func, target_for(None), arrays, expected, schedule=lambda *_: arranged, case=(name, tile))
