"""The calls of a compiled function, each with the kernel that it calls."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from relay_layout.lower.kernel_calls import KernelCall
from relay_layout.lower.schedule import Kernel
from relay_layout.report.schema import Call
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs
from topi_ext.cuda.workload import nhwc_class, nhwc_convolution
from topi_ext.family import Workload
from topi_ext.knobs import WinogradKnobs
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.pooling import PoolingWorkload
from topi_ext.workloads.reading import convolution_from_json
from topi_ext.workloads.separable import SEPARABLE

_IN_MANIFEST = ("function", "operators", "operator", "source", "multiplied", "gigaflop", "bytes")
"""What an artifact holds of a call, so that a profile can name what it timed."""


def described_calls(
    calls: Sequence[KernelCall], kernels: Sequence[Kernel], variants: Mapping[str, str]
) -> list[Call]:
    """The calls with what is known of their kernels; ``variants`` are functions that are other kernels."""
    by_name = {kernel.name: kernel for kernel in kernels}
    return [_call(call, by_name.get(variants.get(call.function, call.function))) for call in calls]


def plain(calls: Sequence[Call]) -> list[dict[str, Any]]:
    """The calls as an artifact holds them."""
    return [{key: value for key, value in call.items() if key in _IN_MANIFEST} for call in calls]


def _call(call: KernelCall, kernel: Kernel | None) -> Call:
    choice = kernel.choice if kernel else None
    workload = _workload(kernel) if kernel and kernel.workload else None
    return Call(
        function=call.function,
        operators=list(call.operators),
        operator=kernel.operator if kernel else "",
        source=kernel.source if kernel else "loops",
        workload=None if workload is None else asdict(workload),
        algorithm="" if kernel is None or choice is None else _algorithm(kernel.operator, choice.knobs),
        knobs=None if choice is None else choice.knobs.to_dict(),
        multiplied="" if workload is None else workload.dtype,
        gigaflop=_gigaflop(workload, kernel.share if kernel else 1.0),
        bytes=call.bytes,
        estimate_us=None if choice is None else round(choice.microseconds, 3),
        measured_us=None,
        runs=None if call.body else 1,
    )


def _workload(kernel: Kernel) -> Workload | PoolingWorkload:
    if nhwc_class(kernel.operator) is not None:
        return nhwc_convolution(kernel.workload)
    if kernel.operator.startswith("conv") or kernel.operator == SEPARABLE:
        return convolution_from_json(kernel.workload)
    return PoolingWorkload.from_json(kernel.workload)


def _gigaflop(workload: Workload | PoolingWorkload | None, share: float) -> float | None:
    if workload is None or isinstance(workload, PoolingWorkload):
        return None
    extents = [workload.batch, workload.in_height, workload.in_width]
    if isinstance(workload, ConvolutionWorkload):
        extents.append(workload.in_depth)
    return 2 * share * workload.macs / 1e9 if all(isinstance(extent, int) for extent in extents) else None


def _algorithm(operator: str, knobs: Any) -> str:
    if isinstance(knobs, WinogradKnobs | WinogradGemmKnobs):
        return f"Winograd F({knobs.tile},3)"
    if isinstance(knobs, GemmKnobs):
        return "implicit GEMM"
    return "depthwise, then 1x1" if operator == SEPARABLE else "direct"
