"""What a cost model sees of a matrix product on a GPU: where its time may go, as numbers."""

from math import ceil, log2

from topi_ext.cuda.compute.implicit_gemm import padded
from topi_ext.cuda.gemm_knobs import GemmKnobs, registers, shared_bytes
from topi_ext.cuda.gemm_space import resident_blocks
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs, product_of
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.tune.models.features import Features, logarithms_of


def product_features(workload: GemmConvolution) -> Features:
    """Logarithms of the extents, and what is multiplied."""
    counts = {
        "rows": workload.rows,
        "columns": workload.columns,
        "depth": workload.depth,
        "groups": workload.groups,
        "taps": workload.kernel[0] * workload.kernel[1],
        "stride": workload.strides[0] * workload.strides[1],
        "copy_elements": workload.copy_elements,
        "macs": workload.macs,
    }
    found = logarithms_of(counts)
    return found | {"is_padded": float(any(workload.padding)), f"multiplied={workload.dtype}": 1.0}


def convolution_features(
    workload: GemmConvolution,
    multiprocessor: Multiprocessor,
    knobs: GemmKnobs | WinogradGemmKnobs,
    cycles: float,
) -> Features:
    """Those of the product that is computed, and the size of Winograd's tile: 1 of the direct convolution."""
    tile = 1
    if isinstance(knobs, WinogradGemmKnobs):
        tile = knobs.tile
        workload, knobs = product_of(workload, tile), knobs.product
    return _block_features(workload, multiprocessor, knobs, cycles) | {"winograd_tile": float(tile)}


def _block_features(
    workload: GemmConvolution, multiprocessor: Multiprocessor, knobs: GemmKnobs, cycles: float
) -> Features:
    """The knobs, and what they make of a multiprocessor; ``cycles`` is the estimate for them."""
    counts = {name: value for name, value in knobs.to_dict().items() if isinstance(value, int)}
    counts |= {"warps": knobs.warps, "warp_m": knobs.warp_m, "warp_n": knobs.warp_n}
    found = logarithms_of(counts)
    words = {"order": knobs.order, "instruction": knobs.instruction, "copies": knobs.copies}
    found |= {f"{name}={value}": 1.0 for name, value in words.items()}
    rows, columns, depth = padded(workload, knobs)
    size = workload.element_bytes
    blocks = rows // knobs.block_m * (columns // knobs.block_n) * workload.groups * knobs.split_k
    resident = resident_blocks(workload, knobs, multiprocessor)
    row_bytes = knobs.block_k * size
    found |= occupancy_features(blocks, resident, knobs.warps, multiprocessor)
    return found | {
        "log_cycles": log2(cycles),
        "registers": float(registers(workload, knobs, multiprocessor)),
        "log_shared_bytes": log2(shared_bytes(workload, knobs, multiprocessor)),
        "log_tiles": log2(depth // knobs.split_k // knobs.block_k),
        "in_flight_bytes": float((knobs.stages - 1) * (knobs.block_m + knobs.block_n) * row_bytes * resident),
        "row_remainder": rows / workload.rows,
        "column_remainder": columns / workload.columns,
        "depth_remainder": depth / workload.depth,
        "products_per_arriving_byte": _per_byte(knobs.block_m, knobs.block_n, size),
        "products_per_fragment_byte": _per_byte(knobs.warp_m, knobs.warp_n, size),
        "log_copies_per_thread": log2(knobs.block_m * knobs.block_k / workload.copy_elements / knobs.threads),
    }


def occupancy_features(blocks: int, resident: int, warps: int, multiprocessor: Multiprocessor) -> Features:
    """How ``blocks`` of so many ``warps`` fill a GPU whose multiprocessors hold ``resident`` of them each."""
    at_once = multiprocessor.count * resident
    return {
        "log_blocks": log2(blocks),
        "waves": blocks / at_once,
        "idle_in_last_wave": ceil(blocks / at_once) * at_once / blocks,
        "resident_blocks": float(resident),
        "resident_warps": float(resident * warps),
    }


def _per_byte(rows: int, columns: int, size: int) -> float:
    """Products of a tile for each byte of the operands' rows and columns."""
    return rows * columns / ((rows + columns) * size)
