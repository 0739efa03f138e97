"""What a cost model sees of a depthwise convolution on a GPU: where its time may go, as numbers."""

from math import ceil, log2, prod

from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs, depthwise_registers, read_pixels, weight_bytes
from topi_ext.cuda.depthwise_space import depthwise_blocks, depthwise_resident, warp_lines
from topi_ext.cuda.multiprocessor import LANES, Multiprocessor
from topi_ext.cuda.workload import DepthwiseConvolution
from topi_ext.tune.models.features import Features, logarithms_of
from topi_ext.tune.models.product_features import occupancy_features


def depthwise_features(workload: DepthwiseConvolution) -> Features:
    """Logarithms of the extents, and what is multiplied."""
    counts = {
        "rows": workload.rows,
        "out_width": workload.out_width,
        "channels": workload.out_channels,
        "taps": workload.taps,
        "stride": prod(workload.strides),
        "macs": workload.macs,
    }
    found = logarithms_of(counts)
    kinds = {"is_depthwise": 1.0, "is_padded": float(any(workload.padding))}
    return found | kinds | {f"multiplied={workload.dtype}": 1.0}


def thread_features(
    workload: DepthwiseConvolution, multiprocessor: Multiprocessor, knobs: DepthwiseKnobs, cycles: float
) -> Features:
    """The knobs, and what they make of a multiprocessor; ``cycles`` is the estimate for them."""
    counts = {name: value for name, value in knobs.to_dict().items() if isinstance(value, int)}
    counts |= {
        "threads": knobs.threads,
        "warps": knobs.warps,
        "run_bytes": knobs.channels * workload.element_bytes,
    }
    found = logarithms_of(counts)
    found[f"weights={knobs.weights}"] = 1.0
    extents = workload.out_height, workload.out_width
    padded = [ceil(extent / size) * size for extent, size in zip(extents, knobs.block, strict=True)]
    blocks = depthwise_blocks(workload, knobs)
    resident = depthwise_resident(workload, knobs, multiprocessor)
    results = knobs.tile_rows * knobs.tile_columns
    read = read_pixels(workload, knobs.tile_rows, knobs.tile_columns)
    found |= occupancy_features(blocks, resident, knobs.warps, multiprocessor)
    return found | {
        "log_cycles": log2(cycles),
        "registers": float(depthwise_registers(workload, knobs, multiprocessor)),
        "weight_bytes": float(weight_bytes(workload, knobs)),
        "pixel_remainder": prod(padded) / prod(extents),
        "lane_remainder": knobs.warps * LANES / knobs.threads,
        "reads_per_result": read / results,
        "weights_per_result": workload.taps / results,
        "lines_per_read": warp_lines(workload, knobs, workload.element_bytes, workload.strides[1]),
        "bytes_asked_at_once": float(read * knobs.vector * workload.element_bytes),
        "log_products_per_thread": log2(results * knobs.vector * workload.taps),
    }
