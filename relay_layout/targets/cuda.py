"""CUDA targets: an architecture, and what convolutions are multiplied in."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from tvm.target import codegen

from relay_layout.environment.host import architecture
from relay_layout.errors import TargetError
from relay_layout.graph import Node, Value
from relay_layout.ir import is_static, size_in_bytes
from relay_layout.ops import ConvolutionLayouts
from relay_layout.targets.convolutions import Convolution
from relay_layout.targets.facts import TargetFacts
from relay_layout.targets.target import BuildTarget, Precision
from topi_ext.chooser import KernelChooser
from topi_ext.cuda.compute.row_product import MOST_ROWS
from topi_ext.cuda.gemm_space import LATENCY_CYCLES
from topi_ext.cuda.multiprocessor import MOST_BLOCKS, MULTIPROCESSORS, Multiprocessor
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.workloads.convolution import BYTES

PREFIX = "cuda-"
"""A target's name is this and an architecture: ``cuda-sm_90``."""

NO_WGMMA = "+nowgmma"
"""Behind an architecture that has wgmma: products by mma.sync alone."""

NO_TMA = "+notma"
"""Behind an architecture that has bulk copies of tiles: those of every thread alone."""


def _without(word: str, taken: Callable[[Multiprocessor], bool], **changes: Any) -> dict[str, Multiprocessor]:
    """Architectures of which ``taken`` holds, as the word behind their names changes them."""
    return {arch + word: replace(found, **changes) for arch, found in MULTIPROCESSORS.items() if taken(found)}


_NAMED = (
    MULTIPROCESSORS
    | _without(NO_WGMMA, lambda found: found.wgmma_gain > 0, wgmma_gain=0.0)
    | _without(NO_TMA, lambda found: found.has_bulk_copies, has_bulk_copies=False)
)

_MULTIPLIED: dict[Precision, str] = {"fp16": "float16", "tf32": "tf32", "fp32": "float32"}

LOOPS_SHARE = 0.03
"""Share of the float32 peak that plain loops reach, one thread for each result."""

REDUCTION_WARPS = 8
"""Warps of the block of threads that plain loops have for each sum."""

REDUCTION_CYCLES = 2 * LATENCY_CYCLES
"""The cycles of such a block, which reads once, and adds what its threads have between barriers."""


@dataclass(frozen=True, kw_only=True)
class CudaTarget(BuildTarget):
    """A GPU, with the host that launches its kernels."""

    multiprocessor: Multiprocessor

    @property
    def threads(self) -> int:
        return 1

    @property
    def machine(self) -> Multiprocessor:
        return self.multiprocessor

    @property
    def description(self) -> str:
        return f"{self.multiprocessor.arch} ({self.multiprocessor.board}, {self.precision})"

    @property
    def widened_dtypes(self) -> tuple[str, ...]:
        """Both: tensors of ``fp16`` are narrowed later (:mod:`relay_layout.lower.narrow_storage`)."""
        return ("bfloat16", "float16")

    @property
    def has_branches(self) -> bool:
        """A CUDA graph launches the same kernels each time."""
        return False

    @property
    def multiplied(self) -> str:
        """What products of floats are computed of."""
        return _MULTIPLIED[self.precision]

    def multiplies_bytes(self, dtype: str) -> bool:
        """Are products of integers of ``dtype`` by int8 matrix products, on tensor cores or by dp4a?"""
        return dtype in BYTES and self.multiprocessor.byte_macs > 0

    @property
    def stored_bytes(self) -> int:
        return DTYPE_BYTES[self.storage_dtype]

    def manifest(self) -> dict[str, Any]:
        return {
            "kind": "cuda",
            "arch": self.multiprocessor.arch,
            "precision": self.precision,
            "mtriple": codegen.llvm_get_system_triple(),
        }

    def convolution_us(self, node: Node, convolution: Convolution, layouts: ConvolutionLayouts) -> float:
        """Estimated microseconds: those of a matrix product where channels are last; 0 where extents are
        symbolic.
        """
        data, weight, result = node.operands[0], node.operands[1], node.results[0]
        if not is_static([*(data.shape or ()), *(result.shape or ())]):
            return 0.0
        moved = self._stored(data, result)
        memory = self.facts.moving_us(moved) + self.facts.launch_us
        last = convolution.channels_last
        if (layouts.data, layouts.out) == (last, last) and weight.constant is not None:
            workload: GemmConvolution | DepthwiseConvolution | None
            if convolution.is_depthwise:
                dtype = data.dtype if data.dtype in BYTES else self.multiplied
                workload = depthwise_workload(convolution, node.attributes, dtype)
            else:
                workload = gemm_workload(convolution, node.attributes, self._multiplied(data))
                if workload is not None and is_few_rows(workload):
                    return self.rows_us(workload.in_channels, workload.out_channels)
            if workload is not None:
                return self.kernels.choose(workload).microseconds
        sums = size_in_bytes(result.shape or (), "int8")
        products = convolution.in_channels // convolution.groups
        for extent in convolution.kernel:
            products *= extent
        chip = self.multiprocessor
        clock = chip.gigahertz * 1e3
        # TVM's rules give each sum a block of threads.
        turns = ceil(sums / (chip.count * (chip.warps // REDUCTION_WARPS)))
        waited = (LATENCY_CYCLES + turns * REDUCTION_CYCLES) / clock
        return memory + waited + sums * products / (chip.float_macs * chip.count * clock * LOOPS_SHARE)

    def rows_us(self, depth: int, outputs: int) -> float:
        """Microseconds of few rows by a constant matrix, by estimate: its weights once, after a wait for what
        is asked for first.
        """
        waited = LATENCY_CYCLES / (self.multiprocessor.gigahertz * 1e3)
        return self.facts.launch_us + waited + self.facts.moving_us(depth * outputs * self.stored_bytes)

    def static_matmul_us(self, node: Node) -> float:
        """The time to move every byte once, or to multiply at half the peak."""
        values = (*node.operands, *node.results)
        moved = self._stored(*values)
        products = size_in_bytes(node.results[0].shape or (), "int8") * int(
            (node.operands[0].shape or (1,))[-1]
        )
        chip = self.multiprocessor
        rate = chip.macs[self._multiplied(node.operands[0])] * chip.count * chip.gigahertz
        bandwidth = self.facts.gigabytes_per_second * 1e3
        return max(moved / bandwidth, products / (rate * 500)) + self.facts.launch_us

    def _multiplied(self, data: Value) -> str:
        """What products of ``data`` by a constant are computed of."""
        return data.dtype if self.multiplies_bytes(data.dtype) else self.multiplied

    def _stored(self, *values: Value) -> float:
        """Bytes of values between kernels."""
        return sum(
            size_in_bytes(value.shape or (), value.dtype)
            * (self.stored_bytes / 4 if value.dtype == "float32" else 1)
            for value in values
        )


def require_cuda(target: BuildTarget) -> CudaTarget:
    """``target``, for what is done on GPUs alone; TargetError for another."""
    if not isinstance(target, CudaTarget):
        raise TargetError(f"target '{target.name}' is none of a GPU; use one such as {PREFIX}sm_90")
    return target


def gemm_workload(convolution: Convolution, attributes: Any, dtype: str) -> GemmConvolution | None:
    """The product that a plain 2-D convolution of static extents is, its channels padded to what is
    copied.
    """
    if not _is_plain(convolution):
        return None
    channels = convolution.in_channels
    if convolution.groups == 1:
        channels = padded_channels(channels)
    return GemmConvolution(in_channels=channels, **_geometry(convolution, attributes), dtype=dtype)


def is_few_rows(workload: GemmConvolution) -> bool:
    """Is it a matrix product of floats of too few rows for a tile?"""
    return (
        workload.dtype not in BYTES
        and workload.groups == 1
        and workload.rows <= MOST_ROWS
        and (workload.kernel, workload.padding) == ((1, 1), (0, 0, 0, 0))
        and (workload.in_height, workload.in_width) == (1, 1)
    )


def depthwise_workload(convolution: Convolution, attributes: Any, dtype: str) -> DepthwiseConvolution | None:
    """A depthwise 2-D convolution of static extents, whose tensors are of ``dtype``, float32 for tf32; None
    of any other, and of more images than a grid has blocks along an axis.
    """
    if not _is_plain(convolution) or convolution.batch > MOST_BLOCKS:
        return None
    stored = "float32" if dtype == "tf32" else dtype
    geometry = _geometry(convolution, attributes)
    return DepthwiseConvolution(in_channels=convolution.in_channels, **geometry, dtype=stored)


def _is_plain(convolution: Convolution) -> bool:
    return convolution.operator == "nn.conv2d" and is_static([convolution.batch, *convolution.image])


def _geometry(convolution: Convolution, attributes: Any) -> dict[str, Any]:
    return {
        "batch": convolution.batch,
        "in_height": convolution.image[0],
        "in_width": convolution.image[1],
        "out_channels": convolution.out_channels,
        "kernel": (convolution.kernel[0], convolution.kernel[1]),
        "strides": _pair(attributes.strides),
        "padding": tuple(int(value) for value in attributes.padding),
        "dilation": _pair(attributes.dilation),
        "groups": convolution.groups,
    }


def padded_channels(channels: int) -> int:
    """Input channels with zeros behind them where they could only be copied one or two at a time."""
    if channels % 4 == 0:
        return channels
    return 4 if channels < 4 else -(-channels // 8) * 8


def cuda_target(name: str, precision: Precision) -> CudaTarget:
    """The target that ``cuda-sm_90``, ``cuda-sm_90+nowgmma`` or ``cuda-sm_90+notma`` names; TargetError for
    an architecture or precision that is not known.
    """
    arch = name.removeprefix(PREFIX)
    if arch not in _NAMED:
        known = ", ".join(PREFIX + found for found in _NAMED)
        raise TargetError(f"target {name!r} is not known; use one of {known}")
    if precision not in _MULTIPLIED:
        raise TargetError(
            f"target {name}: precision {precision} is for CPUs; use one of {', '.join(_MULTIPLIED)}"
        )
    multiprocessor = _NAMED[arch]
    if not multiprocessor.macs[_MULTIPLIED[precision]]:
        raise TargetError(f"precision {precision!r} needs cuda-sm_80 or later, not {name}; use fp16 or fp32")
    facts = TargetFacts(
        name=f"CUDA {arch}",
        channel_blocks=(),
        gigahertz=multiprocessor.gigahertz,
        gigabytes_per_second=multiprocessor.gigabytes_per_second * 0.8,
        launch_us=multiprocessor.launch_us,
        strided_window_penalty=2.0,
        channels_last_penalty=0.0,
    )
    target = multiprocessor.target()
    return CudaTarget(
        name=name,
        tvm_target=target,
        facts=facts,
        architecture=architecture(),
        kernels=KernelChooser(multiprocessor, multiprocessor.gigahertz),
        multiprocessor=multiprocessor,
        precision=precision,
    )


def _pair(values: Any) -> tuple[int, int]:
    rows, columns = (int(value) for value in values)
    return rows, columns
