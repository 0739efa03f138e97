"""AutoTVM's tasks in our terms: the same convolution as a workload, and the knobs nearest to its own.

Knobs do not carry over one by one: AutoTVM's schedules have loops that ours do not have. What carries over
is the choice of layouts and the size of the register tile. Among our knobs of the same algorithm those count
whose estimate is about as good as the best, so that tuning starts from something that may win.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tvm.target import Target

from relay_layout.errors import InputError
from relay_layout.targets.convolutions import Convolution, fitting_layouts, packed_kernel
from relay_layout.targets.matrix_products import product_workload
from relay_layout.targets.target_strings import description_of, is_target_string
from relay_layout.tuning.autotvm import AutoTvmRecord, is_extent, tensor_of
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.machine.processor import Processor, processor_of
from topi_ext.messages import last_line
from topi_ext.tune.space import Candidate, Space
from topi_ext.workloads.convolution import ConvolutionWorkload

NEAR = 1.05
"""Knobs count as good as the best of their algorithm where their estimate is at most this much longer."""


@dataclass(frozen=True)
class Translation:
    """A workload, and what is wished of its knobs: numbers to come near to, and an algorithm."""

    workload: ConvolutionWorkload
    wishes: Mapping[str, int]
    algorithm: str = "direct"


def translate(record: AutoTvmRecord) -> Translation:
    """The record's workload and tile; InputError where there is no kernel like that here."""
    if record.task == "layout_transform":
        raise InputError("layout_transform: the graph tuner's rows hold no knobs")
    if record.task not in _TASKS:
        raise InputError(f"task {record.task[:60]} has no kernel with knobs here")
    return _TASKS[record.task](record)


def nearest(translation: Translation, processor: Processor) -> Candidate:
    """The knobs nearest to what is wished, among those of its algorithm whose estimate is good.

    Any algorithm counts where the space has none of its own for the workload.
    """
    candidates = _space(translation.workload, processor).candidates
    same = [one for one in candidates if one.fields["algorithm"] == translation.algorithm] or candidates
    limit = NEAR * min(one.cycles for one in same)
    good = [one for one in same if one.cycles <= limit]
    return min(good, key=lambda candidate: (_distance(candidate, translation), candidate.cycles))


@lru_cache(maxsize=256)
def processor_named(target: str, threads: int) -> Processor:
    """The processor of an AutoTVM target such as ``llvm -mcpu=cascadelake``; InputError for others."""
    if not is_target_string(target) or target.split()[0] != "llvm":
        raise InputError(f"target {target[:60]!r} is no CPU")
    description = description_of(target, with_others=True)
    triple = description.get("mtriple", "")
    if triple and not triple.startswith(("x86_64", "aarch64", "arm64")):
        raise InputError(f"target {target[:60]!r}: there are no kernels for {triple.split('-')[0]}")
    try:
        return processor_of(Target(description | {"num-cores": threads}))
    except Exception as error:
        raise InputError(f"target {target[:60]!r}: {last_line(str(error))}") from None


@lru_cache(maxsize=64)
def _space(workload: ConvolutionWorkload, processor: Processor) -> Space:
    return Space(workload, processor)


def _distance(candidate: Candidate, translation: Translation) -> float:
    fields = candidate.fields
    return sum(
        abs(math.log2(fields[name] / wish)) if name in fields else 1.0
        for name, wish in translation.wishes.items()
    )


def _blocked(record: AutoTvmRecord) -> Translation:
    """conv2d_NCHWc and depthwise_conv2d_NCHWc: blocks from the splits of the channels."""
    data, weight, strides, padding, dilation, layout, out_layout, out_dtype = _arguments(record, 8)
    if (layout, out_layout) != ("NCHW", "NCHW"):
        raise InputError(f"layouts {layout} and {out_layout} where the task has NCHW")
    in_block, out_block = record.inner("tile_ic"), record.inner("tile_oc")
    pixels = record.inner("tile_ow")
    if in_block is None or out_block is None or pixels is None:
        raise InputError("config: expected splits tile_ic, tile_oc and tile_ow")
    depthwise = record.task.startswith("depthwise")
    extents = _first(data, weight, depthwise)
    if extents.in_channels % in_block or extents.out_channels % out_block:
        raise InputError(f"blocks of {in_block} and {out_block} do not divide the channels")
    layouts = f"NCHW{in_block}c" if in_block > 1 else "NCHW", f"NCHW{out_block}c" if out_block > 1 else "NCHW"
    workload = _workload(extents, layouts, (strides, padding, dilation), data, out_dtype)
    return Translation(workload, {"tile_pixels": pixels, "tile_channels": 1})


def _spatial_pack(record: AutoTvmRecord) -> Translation:
    """The arm_cpu tasks on NCHW, which pack the image themselves: ours takes it in blocks."""
    data, weight, strides, padding, dilation, out_dtype = _arguments(record, 6)
    extents = _first(data, weight, record.task.startswith("depthwise"))
    channels = record.inner("tile_co", "tile_c", "tile_k")
    if channels is None:
        raise InputError("config: expected a split tile_co, tile_c or tile_k")
    block = min(_ARM_BLOCK, 1 << (channels.bit_length() - 1))
    block = block if block > 1 else _ARM_BLOCK
    workload = _workload(
        extents, (f"NCHW{block}c", f"NCHW{block}c"), (strides, padding, dilation), data, out_dtype
    )
    algorithm = "winograd" if "winograd" in record.task else "direct"
    return Translation(workload, _tile(record, max(1, channels // block)), algorithm)


def _channels_last(record: AutoTvmRecord) -> Translation:
    """The arm_cpu tasks on NHWC with HWIO or, depthwise, HWOI."""
    data, weight, strides, padding, dilation, out_dtype = _arguments(record, 6)
    (batch, height, width, channels), _ = tensor_of(data, 4)
    (rows, columns, *rest), _ = tensor_of(weight, 4)
    depthwise = record.task.startswith("depthwise")
    out_channels = rest[0] * rest[1] if depthwise else rest[1]
    extents = _extents(batch, channels, out_channels, (height, width), (rows, columns), depthwise, rest[0])
    found = record.inner("tile_co", "tile_c") or 1
    workload = _workload(extents, ("NHWC", "NHWC"), (strides, padding, dilation), data, out_dtype)
    return Translation(workload, _tile(record, max(1, found // _NEON_LANES)))


def _dense(record: AutoTvmRecord) -> Translation:
    """dense_nopack and dense_pack: rows by a matrix, which is a convolution without an image."""
    data, weight, _, out_dtype = _arguments(record, 4)
    (rows, channels), dtype = tensor_of(data, 2)
    (out_channels, again), _ = tensor_of(weight, 2)
    if channels != again:
        raise InputError(f"a matrix of {again} rows where the data has {channels} columns")
    workload = product_workload((rows, channels), out_channels, _dtype(dtype), _dtype(out_dtype))
    return Translation(workload, {"tile_pixels": record.inner("tile_y") or 1})


_NEON_LANES = 4
"""Lanes of float32 in a NEON register."""
_ARM_BLOCK = 8
"""Channels in a block of NCHW on ARM; a task whose own blocks are smaller keeps those."""

_TASKS: dict[str, Callable[[AutoTvmRecord], Translation]] = {
    "conv2d_NCHWc.x86": _blocked,
    "depthwise_conv2d_NCHWc.x86": _blocked,
    "conv2d_nchw_spatial_pack.arm_cpu": _spatial_pack,
    "conv2d_nchw_winograd.arm_cpu": _spatial_pack,
    "depthwise_conv2d_nchw.arm_cpu": _spatial_pack,
    "depthwise_conv2d_nchw_spatial_pack.arm_cpu": _spatial_pack,
    "conv2d_nhwc_spatial_pack.arm_cpu": _channels_last,
    "depthwise_conv2d_nhwc.arm_cpu": _channels_last,
    "depthwise_conv2d_nhwc_spatial_pack.arm_cpu": _channels_last,
    "dense_nopack.x86": _dense,
    "dense_pack.x86": _dense,
}


def _arguments(record: AutoTvmRecord, count: int) -> Sequence[Any]:
    if len(record.arguments) != count:
        raise InputError(f"{len(record.arguments)} arguments where {record.task} has {count}")
    return record.arguments


def _tile(record: AutoTvmRecord, channels: int) -> dict[str, int]:
    """Pixels and vectors of channels that the record computes at a time."""
    pixels = (record.inner("tile_ow", "tile_w", "tile_p") or 1) * (record.inner("tile_oh", "tile_h") or 1)
    return {"tile_pixels": pixels, "tile_channels": channels}


def _first(data: Any, weight: Any, depthwise: bool) -> Convolution:
    """The extents of a convolution of NCHW by OIHW."""
    (batch, channels, height, width), _ = tensor_of(data, 4)
    (out, taken, rows, columns), _ = tensor_of(weight, 4)
    out_channels, kernel_channels = (out * taken, out) if depthwise else (out, taken)
    image, kernel = (height, width), (rows, columns)
    return _extents(batch, channels, out_channels, image, kernel, depthwise, kernel_channels)


def _extents(
    batch: int,
    channels: int,
    out_channels: int,
    image: tuple[int, int],
    kernel: tuple[int, int],
    depthwise: bool,
    kernel_channels: int,
) -> Convolution:
    if kernel_channels != channels:
        raise InputError(f"a kernel of {kernel_channels} channels where the data has {channels}")
    return Convolution(
        "nn.conv2d", batch, channels, out_channels, image, kernel, channels if depthwise else 1
    )


def _workload(
    extents: Convolution, layouts: tuple[str, str], window: tuple[Any, Any, Any], data: Any, out_dtype: Any
) -> ConvolutionWorkload:
    fitting = fitting_layouts(extents, *layouts)
    strides, padding, dilation = window
    workload = ConvolutionWorkload(
        batch=extents.batch,
        in_channels=extents.in_channels,
        out_channels=extents.out_channels,
        in_height=extents.image[0],
        in_width=extents.image[1],
        kernel=(extents.kernel[0], extents.kernel[1]),
        strides=_pair("strides", strides),
        padding=_padding(padding),
        dilation=_pair("dilation", dilation),
        groups=extents.groups,
        data_layout=fitting.data,
        kernel_layout=packed_kernel(extents, fitting.kernel, fitting.out),
        out_layout=fitting.out,
        dtype=_dtype(tensor_of(data, 4)[1]),
        out_dtype=_dtype(out_dtype),
    )
    if workload.out_height < 1 or workload.out_width < 1:
        raise InputError("the kernel is larger than the image")
    return workload


def _dtype(name: Any) -> str:
    if not isinstance(name, str) or name not in DTYPE_BYTES:
        raise InputError(f"unknown data type {str(name)[:40]!r}")
    return name


def _pair(name: str, values: Any) -> tuple[int, int]:
    given = [values, values] if is_extent(values) else values
    if not isinstance(given, list) or len(given) != 2 or not all(map(is_extent, given)):
        raise InputError(f"{name}: expected two whole numbers of at least 1")
    return given[0], given[1]


def _padding(values: Any) -> tuple[int, int, int, int]:
    given = [values] * 4 if isinstance(values, int) else values
    if isinstance(given, list) and len(given) == 2:
        given = given * 2
    if (
        not isinstance(given, list)
        or len(given) != 4
        or not all(value == 0 or is_extent(value) for value in given)
    ):
        raise InputError("padding: expected one, two or four whole numbers")
    return int(given[0]), int(given[1]), int(given[2]), int(given[3])
