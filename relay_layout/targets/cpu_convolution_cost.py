"""The estimated time of a convolution on a CPU, by its layouts."""

from math import prod
from typing import Any

from relay_layout.graph import Node
from relay_layout.ir import ints, is_static, out_layout, size_in_bytes
from relay_layout.layout import Layout
from relay_layout.ops import ConvolutionLayouts
from relay_layout.targets.convolutions import (
    CONVOLUTIONS,
    SMALLEST_BLOCK,
    Convolution,
    packed_kernel,
    with_merged_groups,
)
from relay_layout.targets.cpu_costs import CpuCosts, loops_us
from relay_layout.targets.phases import Phases, phases_of
from topi_ext.workloads.convolution import workload_along

LAST_SHARE, BLOCKED_SHARE, FIRST_SHARE = 0.18, 0.07, 0.008
"""Shares of the multiply-add peak that loops without register tiles reach, by the layout of the result:
channels last, in blocks, or first.

Measured on AVX-512: conv3d 3x3x3 of 32 to 64 channels, and conv2d_transpose 4x4 of 128 to 64. Vectors along
channels read one element of the data for all lanes; along a row they gather.
"""


INTERLEAVED_COPY = 2.5
"""How many times as long as other copies one takes that interleaves phases and moves channels first.

Measured on AVX-512: 52 us for 32 channels of 56x56 pixels, which a transform from blocks takes 7 us for.
"""


NOT_IN_ROWS_US = 1000.0
"""The cost of a convolution of images of dynamic size in another layout than channels last: more than
transforms of the image would cost."""


def cpu_convolution_us(
    node: Node, convolution: Convolution, layouts: ConvolutionLayouts, target: CpuCosts
) -> float:
    """Estimated microseconds of the kernel that is chosen for a convolution in these layouts.

    With symbolic spatial extents, 0 for channels last, which has the kernels for dynamic sizes, and for a
    first layer that reads few channels as they are; :data:`NOT_IN_ROWS_US` for other layouts.
    """
    if not is_static(convolution.image):
        is_first = layouts.data == convolution.channels_first and convolution.in_channels < SMALLEST_BLOCK
        in_rows = layouts.out == convolution.channels_last and (is_first or layouts.data == layouts.out)
        has_kernels = node.operands[1].constant is not None
        return NOT_IN_ROWS_US if has_kernels and not in_rows else 0.0
    if convolution.operator in CONVOLUTIONS:
        return _tiled_us(node, convolution, layouts, node.attributes, target)
    if convolution.is_transposed and node.operands[1].constant is not None:
        phases = phases_of(convolution, node.attributes, layouts.data, layouts.out, in_place=True)
        if phases is not None:
            return _phases_us(node, phases, target)
    return _loops_us(node, convolution, layouts, target)


def _phases_us(node: Node, phases: Phases, target: CpuCosts) -> float:
    """The convolution of all phases, and the copy of the result, if one is needed."""
    convolution, facts = phases.convolution, target.facts
    microseconds = _tiled_us(node, convolution, phases.layouts, phases, target)
    if phases.are_result:
        return microseconds
    if phases.in_place:
        return microseconds * phases.stacked.share_of_taps(convolution.kernel)
    result = node.results[0]
    copied = facts.moving_us(2 * size_in_bytes(result.shape or (), result.dtype))
    if phases.layouts.out != phases.result_layout:
        copied *= INTERLEAVED_COPY
    return microseconds + copied + facts.launch_us


def _tiled_us(
    node: Node, convolution: Convolution, layouts: ConvolutionLayouts, window: Any, target: CpuCosts
) -> float:
    """The estimate for a kernel with register tiles; a 1-D convolution is one of images of one row.

    ``window`` has strides, padding and dilation: the node's attributes, or phases.
    """
    facts = target.facts
    weight = convolution.weight
    if weight is not None:
        convolution, layouts = with_merged_groups(convolution, layouts)
    workload = workload_along(
        convolution.image,
        convolution.kernel,
        ints(window.strides),
        ints(window.padding),
        ints(window.dilation),
        batch=_batch(convolution),
        in_channels=convolution.in_channels,
        out_channels=convolution.out_channels,
        groups=convolution.groups,
        data_layout=layouts.data,
        kernel_layout=packed_kernel(convolution, layouts.kernel, layouts.out),
        out_layout=layouts.out,
        dtype=node.operands[0].dtype,
        out_dtype=node.results[0].dtype,
    )
    if weight is not None:
        workload = target.kernel_form(workload, weight)
    # Winograd kernels need constant weights, which are transformed at compile time.
    choice = target.kernels.choose(workload, winograd=weight is not None)
    microseconds = choice.microseconds
    plain = (layouts.data, layouts.out).count(convolution.channels_last)
    return microseconds * (1.0 + plain * facts.channels_last_penalty) + facts.launch_us


def _loops_us(node: Node, convolution: Convolution, layouts: ConvolutionLayouts, target: CpuCosts) -> float:
    """The estimate for loops without register tiles: a share of the multiply-add peak, and every byte
    once.
    """
    data, weight, result = node.operands[0], node.operands[1], node.results[0]
    extents = dict(zip(out_layout(node.attributes), result.shape or (), strict=False))
    image = convolution.image if convolution.is_transposed else [extents.get(a) for a in convolution.spatial]
    if not is_static(image):
        return 0.0
    pairs = convolution.in_channels * convolution.out_channels // convolution.groups
    multiply_adds = _batch(convolution) * pairs * prod(image) * prod(convolution.kernel)
    return loops_us((data, weight, result), multiply_adds, _share(convolution, layouts.out), target)


def _share(convolution: Convolution, out: str) -> float:
    if Layout.parse(out).is_blocked:
        return BLOCKED_SHARE
    return LAST_SHARE if out == convolution.channels_last else FIRST_SHARE


def _batch(convolution: Convolution) -> int:
    return convolution.batch if isinstance(convolution.batch, int) else 1
