"""What a cost model sees of a kernel: numbers that say more of its speed than the knobs alone.

Features have names, and which of them there are depends on the knobs: another algorithm has other knobs.
"""

import math
from collections.abc import Mapping
from typing import Any

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.indexing import block_of
from topi_ext.machine.processor import Processor
from topi_ext.workloads.convolution import PLANES, ConvolutionWorkload
from topi_ext.workloads.separable import SeparableWorkload

Features = dict[str, float]


def logarithms_of(counts: Mapping[str, float]) -> Features:
    """The binary logarithm of each count, named after it."""
    return {f"log_{name}": math.log2(value) for name, value in counts.items()}


def workload_features(workload: ConvolutionWorkload) -> Features:
    """Logarithms of the extents, and what kind of convolution it is."""
    if isinstance(workload, SeparableWorkload):
        first = workload_features(workload.depthwise)
        return {f"before_{name}": value for name, value in first.items()} | workload_features(
            workload.pointwise
        )
    found = {
        "batch": workload.batch,
        "in_channels": workload.in_channels,
        "out_channels": workload.out_channels,
        "out_height": workload.out_height,
        "out_width": workload.out_width,
        "groups": workload.groups,
        "macs": workload.macs,
        "in_block": block_of(workload.data_layout, "C"),
        "out_block": block_of(workload.out_layout, "C"),
    }
    found |= {f"kernel_{axis}": workload.kernel[axis] for axis in (0, 1)}
    found |= {f"stride_{axis}": workload.strides[axis] for axis in (0, 1)}
    if workload.depth:
        found |= {
            "out_depth": workload.out_depth,
            "kernel_2": workload.kernel_depth,
            "stride_2": workload.along(PLANES).stride,
        }
    logarithms = logarithms_of(found)
    kinds = {
        "is_depthwise": workload.is_depthwise,
        "is_pointwise": workload.is_pointwise,
        "is_padded": workload.is_padded,
    }
    return logarithms | {name: float(value) for name, value in kinds.items()}


def knob_features(
    workload: ConvolutionWorkload, processor: Processor, knobs: Mapping[str, Any], cycles: float
) -> Features:
    """Every knob, the algorithm, and the loops that the tile makes; ``cycles`` is the estimate for them."""
    found = {"log_cycles": math.log2(cycles), "log_cycles_per_mac": math.log2(cycles / workload.macs)}
    for name, value in knobs.items():
        if isinstance(value, str):
            found[f"{name}={value}"] = 1.0
        else:
            found[name] = float(value)
            if value > 0:
                found[f"log_{name}"] = math.log2(value)
    if {"lanes", "tile_pixels", "tile_channels"} <= set(knobs):
        found |= _tile_features(workload, processor, knobs)
    return found


def _tile_features(workload: ConvolutionWorkload, processor: Processor, knobs: Mapping[str, Any]) -> Features:
    """Registers, loads, cache footprints and chunks of a register tile of pixels by vectors of channels."""
    lanes, pixels, vectors = (int(knobs[name]) for name in ("lanes", "tile_pixels", "tile_channels"))
    size = DTYPE_BYTES[workload.dtype]
    registers = processor.registers(lanes, workload.out_dtype)
    accumulators = pixels * vectors * registers
    # Of NCHW the vectors run along a row, so that channels are single.
    along_rows = workload.out_layout == "NCHW"
    tile_pixels = pixels * (lanes if along_rows else 1)
    tile_channels = vectors * (1 if along_rows else lanes)
    reduced = workload.group_in_channels * workload.taps
    weights = tile_channels * reduced * size
    rows = int(knobs.get("rows", 1))
    image_rows = (rows - 1) * workload.strides[0] + workload.kernel[0]
    channels = tile_channels if workload.is_depthwise else workload.in_channels
    image = image_rows * int(workload.in_width) * channels * size
    image *= workload.kernel_depth
    row_tiles = math.ceil(int(workload.out_width) / tile_pixels)
    chunks = workload.planes * math.ceil(int(workload.out_height) / rows)
    if knobs.get("order") == "channels":
        chunks *= math.ceil(workload.out_channels / tile_channels)
    threads = processor.threads if knobs.get("parallel", True) else 1
    return {
        "accumulators": float(accumulators),
        "registers_left": float(processor.vector_registers - accumulators - vectors * registers),
        "loads_per_fma": (pixels + vectors * registers) / accumulators,
        "stores_per_fma": 1.0 / reduced,
        "pixel_remainder": row_tiles * tile_pixels / int(workload.out_width),
        "channel_remainder": math.ceil(workload.out_channels / tile_channels)
        * tile_channels
        / workload.out_channels,
        "log_weights_per_l1": math.log2(weights / processor.l1_bytes),
        "log_weights_per_l2": math.log2(workload.out_channels * reduced * size / processor.l2_bytes),
        "log_image_per_l1": math.log2(image / processor.l1_bytes),
        "log_image_per_l2": math.log2(image / processor.l2_bytes),
        "log_chunks_per_thread": math.log2(chunks / threads),
        "imbalance": math.ceil(chunks / threads) * processor.threads / chunks,
    }
