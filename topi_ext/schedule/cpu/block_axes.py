"""Other axes for the blocks of a convolution, before its loops are tiled: fused rows, and groups apart."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.indexing import physical_axes
from topi_ext.schedule.blocks import SBlock
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.facts import fuses_rows


def fuse_rows(
    sch: Schedule, workload: ConvolutionWorkload, anchor: SBlock, epilogue: SBlock, copy: SBlock | None
) -> None:
    """Fuse rows and columns to one axis in the blocks, and in the buffers between them.

    ``copy`` is the block that copies the padded image, if there is one.
    """

    def fuse_in(layout: str) -> Callable[..., list[Any]]:
        row = physical_axes(layout).index(("H", 0))

        def fuse(*index: Any) -> list[Any]:
            pixel = index[row] * workload.out_width + index[row + 1]
            return [*index[:row], pixel, *index[row + 2 :]]

        return fuse

    _remap(sch, fuse_in(workload.out_layout), [anchor, epilogue], filled=anchor)
    if copy is not None:
        _remap(sch, fuse_in(workload.data_layout), [copy], filled=copy)


def split_groups(sch: Schedule, workload: ConvolutionWorkload, anchor: SBlock, epilogue: SBlock) -> None:
    """Split the channels into groups and channels of a group, in both blocks and the buffer between them.

    Rows are fused already where they are to be. The anchor's result already has these axes if its vectors are
    padded.
    """
    channel = physical_axes(workload.out_layout).index(("C", 0)) - fuses_rows(workload)
    outputs = workload.out_channels // workload.groups

    def split(*index: Any) -> list[Any]:
        pair = [index[channel] // outputs, index[channel] % outputs]
        return [*index[:channel], *pair, *index[channel + 1 :]]

    if workload.padded_lanes:
        _remap(sch, split, [epilogue])
    else:
        _remap(sch, split, [anchor, epilogue], filled=anchor)


def _remap(
    sch: Schedule, axes: Callable[..., list[Any]], blocks: Sequence[SBlock], filled: SBlock | None = None
) -> None:
    """Map the axes of ``blocks`` by ``axes``, and the dimensions of the buffer that ``filled`` writes."""

    def mapping(block: SBlock, rank: int) -> tirx.IndexMap:
        # The map's default dtype, int64, would put casts into indices, which later primitives refuse.
        dtype = str(sch.get(block).iter_vars[0].var.ty)
        return tirx.IndexMap.from_func(axes, ndim=rank, index_dtype=dtype)

    for block in blocks:
        sch.transform_block_layout(block, mapping(block, len(sch.get(block).iter_vars)))
    if filled is not None:
        rank = len(sch.get(filled).writes[0].source.shape)
        sch.transform_layout(filled, ("write", 0), mapping(filled, rank), assume_injective_transform=True)
