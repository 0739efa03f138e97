"""The knobs of a kernel for a depthwise convolution and the pointwise one after it, with estimated cycles."""

from collections.abc import Iterator
from dataclasses import replace

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.machine.processor import Processor
from topi_ext.spaces.direct import direct_knobs, vector_axes
from topi_ext.spaces.direct_costs import imbalance
from topi_ext.workloads.convolution import ROWS
from topi_ext.workloads.separable import SeparableWorkload

COPIED_BYTES_PER_CYCLE = 32.0
"""As a chunk is copied in :mod:`.direct_costs`: within the level-2 cache."""


def separable_knobs(
    workload: SeparableWorkload, processor: Processor
) -> Iterator[tuple[float, ConvolutionKnobs]]:
    """All knobs worth trying, each with its estimated cycles; knobs describe the pointwise convolution.

    A chunk is some rows of the result. The rows of the depthwise convolution that it needs are computed into
    a buffer, which should fit the level-2 cache.
    """
    first = workload.depthwise
    launch = processor.threads * processor.launch_cycles
    alone = min(cycles for cycles, knobs in direct_knobs(first, processor) if knobs.parallel) - launch
    _, channel_vectors, pixels = vector_axes(workload, processor)
    pixel = workload.in_channels * DTYPE_BYTES[workload.dtype]
    row = pixel * int(workload.in_width)
    reach = first.along(ROWS).window
    for cycles, knobs in direct_knobs(workload, processor):
        if knobs.order != "pixels":
            continue
        found = replace(knobs, pad_at="chunk")
        made = alone * imbalance(workload, processor, found, pixels, channel_vectors)
        # Rows of the image that two neighbouring chunks need are copied twice.
        shared = max(0, reach - first.strides[0]) * (int(workload.out_height) // knobs.rows - 1)
        copied = shared * pixel * int(first.in_width) * workload.planes / COPIED_BYTES_PER_CYCLE
        spilled = row * int(workload.out_height) if row * knobs.rows > processor.l2_bytes // 2 else 0
        yield cycles + made + copied + 2 * spilled / processor.cache_bytes_per_cycle, found
