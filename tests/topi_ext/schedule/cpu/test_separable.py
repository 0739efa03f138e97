"""A depthwise convolution and the pointwise one of its result in one kernel: against numpy, exactly."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from kernel_harness import check_kernel, convolution_rule, host_cpus, integers, target_for
from kernel_reference import convolve, pack
from tvm import te, tirx, topi
from tvm.s_tir import Schedule
from tvm.target import Target

from topi_ext import compute
from topi_ext.errors import RelayLayoutError
from topi_ext.kernel import kernel_arguments, kernel_function
from topi_ext.knobs import ConvolutionKnobs, check_knobs
from topi_ext.machine.processor import processor_of
from topi_ext.schedule.blocks import annotated_block, open_schedule
from topi_ext.spaces.convolution import cheapest, knob_space
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.reading import convolution_from_json
from topi_ext.workloads.separable import SeparableWorkload, separable


@dataclass(frozen=True)
class Case:
    """``layout`` is that of the data and of the depthwise result, ``out`` that of the pointwise result."""

    channels: int = 32
    outputs: int = 48
    image: tuple[int, int] = (12, 14)
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilation: tuple[int, int] = (1, 1)
    batch: int = 1
    layout: str = "NCHW16c"
    out: str = "NCHW16c"

    @property
    def weights(self) -> tuple[str, str]:
        block = self.layout.removeprefix("NCHW").removesuffix("c")
        if self.layout == "NHWC":
            return "HWOI", "OHWI16o"
        return f"OIHW{block}o", f"OIHW{block}i{16 if self.out == 'NHWC' else block}o"

    @property
    def workload(self) -> SeparableWorkload:
        first, second = self.weights
        depthwise = ConvolutionWorkload(
            batch=self.batch,
            in_channels=self.channels,
            out_channels=self.channels,
            in_height=self.image[0],
            in_width=self.image[1],
            kernel=self.kernel,
            strides=self.strides,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.channels,
            data_layout=self.layout,
            kernel_layout=first,
            out_layout=self.layout,
            dtype="float32",
            out_dtype="float32",
        )
        pointwise = replace(
            depthwise,
            out_channels=self.outputs,
            in_height=depthwise.out_height,
            in_width=depthwise.out_width,
            kernel=(1, 1),
            strides=(1, 1),
            padding=(0, 0, 0, 0),
            dilation=(1, 1),
            groups=1,
            kernel_layout=second,
            out_layout=self.out,
        )
        both = separable(depthwise, pointwise)
        assert both is not None, f"{self!r} has no such kernel"
        return both


BLOCKED = Case()
LAST = Case(layout="NHWC", out="NHWC")
CASES = [
    BLOCKED,
    LAST,
    Case(kernel=(5, 5), padding=(2, 2, 2, 2), strides=(2, 2), image=(19, 23), batch=2),
    Case(image=(9, 17), padding=(0, 0, 0, 0), channels=48, outputs=16),
    Case(image=(11, 31), padding=(2, 2, 2, 2), dilation=(2, 2)),
    Case(image=(7, 7), padding=(0, 1, 2, 1), channels=64, outputs=24, out="NHWC"),
    Case(image=(10, 13), layout="NCHW8c", out="NCHW8c", channels=24, outputs=40),
    Case(image=(13, 9), layout="NHWC", out="NHWC", channels=24, outputs=20, strides=(2, 1)),
    Case(image=(8, 15), layout="NHWC", channels=40, outputs=32, kernel=(1, 3), padding=(0, 1, 0, 1)),
]


def operands(case: Case) -> tuple[list[np.ndarray], np.ndarray]:
    """What the kernel takes, in its order, and the plain result after bias and ReLU of both."""
    rng = np.random.default_rng(0)
    data = integers(rng, (case.batch, case.channels, *case.image))
    first = integers(rng, (case.channels, 1, *case.kernel))
    second = integers(rng, (case.outputs, case.channels, 1, 1))
    biases = [integers(rng, (1, count, 1, 1)) for count in (case.channels, case.outputs)]
    made = convolve(data, first, case.strides, case.padding, case.dilation, case.channels)
    expected = np.maximum(convolve(np.maximum(made + biases[0], 0), second) + biases[1], 0)
    kernel = second
    if case.workload.padded_lanes:
        kernel = np.pad(second, ((0, -case.outputs % 16), (0, 0), (0, 0), (0, 0)))
    packed = [
        pack(data, "NCHW", case.layout),
        pack(kernel, "OIHW", case.weights[1]),
        pack(biases[1], "NCHW", case.out),
        pack(first, "OIHW", case.weights[0]),
        pack(biases[0], "NCHW", case.layout),
    ]
    return packed, pack(expected.astype("float32"), "NCHW", case.out)


def scheduled(func: tirx.PrimFunc, target: Target) -> Schedule:
    found = convolution_rule(target).apply(func, target, False)
    assert found is not None, "the kernel fell back to plain loops"
    return found


@pytest.mark.parametrize(
    ("case", "cpu"), [(case, host_cpus()[place % len(host_cpus())]) for place, case in enumerate(CASES)]
)
def test_one_kernel_computes_both(case: Case, cpu: str | None) -> None:
    target = target_for(cpu)
    inputs, expected = operands(case)
    func = kernel_function(case.workload, cheapest(case.workload, processor_of(target))[1])
    check_kernel(func, target, inputs, expected, case=case, schedule=scheduled)


@pytest.mark.parametrize("case", [CASES[2], CASES[7]], ids=repr)
def test_any_knobs_compute_the_same(case: Case) -> None:
    """Four of the space: short and long chunks, small and large tiles."""
    from topi_ext.kernel import schedule

    target = target_for(host_cpus()[-1])
    inputs, expected = operands(case)
    space = [knobs for _, knobs in knob_space(case.workload, processor_of(target))]
    for place in np.linspace(0, len(space) - 1, 4).astype(int):
        knobs = space[place]
        check_kernel(
            kernel_function(case.workload, knobs),
            target,
            inputs,
            expected,
            case=(case, knobs),
            schedule=lambda func, _, knobs=knobs: schedule(func, case.workload, knobs),
        )


def bare(case: Case) -> tuple[te.Tensor, list[te.Tensor]]:
    """Both convolutions with nothing between them, and their placeholders."""
    shapes = [shape for shape, _ in kernel_arguments(case.workload, ANY)]
    data, second, _, first = (te.placeholder(shape, "float32") for shape in shapes[:4])
    layouts: dict[str, Any] = {"data_layout": case.layout}
    made = compute.conv2d(
        data,
        first,
        strides=case.strides,
        padding=case.padding,
        groups=case.channels,
        kernel_layout=case.weights[0],
        out_layout=case.layout,
        **layouts,
    )
    result = compute.conv2d(made, second, kernel_layout=case.weights[1], out_layout=case.out, **layouts)
    return result, [data, second, first]


ANY = ConvolutionKnobs(16, 2, 1, "pixels", 1, "chunk")


def test_nothing_need_stand_between_them() -> None:
    result, parameters = bare(BLOCKED)
    func = te.create_prim_func([*parameters, result])
    rng = np.random.default_rng(1)
    data = integers(rng, (1, 32, 12, 14))
    first, second = integers(rng, (32, 1, 3, 3)), integers(rng, (48, 32, 1, 1))
    expected = convolve(convolve(data, first, padding=(1, 1, 1, 1), groups=32), second).astype("float32")
    inputs = [
        pack(array, order, layout)
        for array, order, layout in (
            (data, "NCHW", "NCHW16c"),
            (second, "OIHW", "OIHW16i16o"),
            (first, "OIHW", "OIHW16o"),
        )
    ]
    check_kernel(
        func, target_for(host_cpus()[-1]), inputs, pack(expected, "NCHW", "NCHW16c"), schedule=scheduled
    )


def test_a_residual_is_added_in_the_kernel() -> None:
    case = replace(BLOCKED, outputs=32)
    result, parameters = bare(case)
    func = te.create_prim_func([*parameters, topi.add(result, parameters[0])])
    blocks = scheduled(func, target_for(host_cpus()[-1])).mod["main"].script()
    assert "T_add" in blocks and blocks.count("T.parallel") == 1


def test_both_are_one_workload() -> None:
    result, parameters = bare(BLOCKED)
    found = annotated_block(open_schedule(te.create_prim_func([*parameters, result])))
    assert found is not None
    workload = convolution_from_json(found[1])
    assert workload == BLOCKED.workload
    assert workload.macs == 12 * 14 * 32 * 9 + 12 * 14 * 32 * 48


@pytest.mark.parametrize(
    "change",
    [
        {"in_channels": 48},
        {"in_width": 13},
        {"strides": (2, 2)},
        {"padding": (1, 1, 1, 1)},
        {"data_layout": "NHWC"},
        {"groups": 2},
        {"out_layout": "NCHW"},
        {"dtype": "int8"},
    ],
)
def test_what_does_not_follow_is_no_pair(change: dict[str, Any]) -> None:
    workload = BLOCKED.workload
    assert separable(workload.depthwise, workload.pointwise) == workload
    assert separable(workload.depthwise, replace(workload.pointwise, **change)) is None


@pytest.mark.parametrize("change", [{"order": "channels"}, {"pad_at": "stage"}])
def test_knobs_of_another_order_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RelayLayoutError, match="two convolutions in one kernel go by chunks of rows"):
        check_knobs(BLOCKED.workload, replace(ANY, **change))
