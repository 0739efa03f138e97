"""What follows the sums of a kernel: one block that writes the result."""

from typing import Any

from tvm.s_tir import Schedule

from topi_ext.schedule.blocks import child_blocks, fuse_epilogue


def epilogue_of(sch: Schedule, product: Any) -> Any | None:
    """The block that writes the result; the product itself where nothing follows it, None where what follows
    cannot be one block.
    """
    blocks = child_blocks(sch)
    place = [sch.get(block).name_hint for block in blocks].index(sch.get(product).name_hint)
    if place == len(blocks) - 1:
        return product
    anchor = blocks[place + 1]
    if place + 2 == len(blocks):
        return anchor
    around = fuse_epilogue(sch, anchor)
    if around.epilogue is None or around.after:
        return None
    sch.compute_inline(anchor)
    return around.epilogue


def result_run(columns: int) -> int:
    """Results that a thread writes at once: TVM's CUDA has no vectors of eight float32."""
    return next(size for size in (4, 2, 1) if columns % size == 0)
