"""Queries and preparations on the blocks of a fused function, before its loops are scheduled."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock as SBlockNode
from tvm.s_tir import SBlockRealize, Schedule
from tvm.s_tir.transform import ConvertSSA
from tvm_ffi import structural_map, structural_walk

from topi_ext.extents import fixed
from topi_ext.ir import holds, loads_of, nodes_of
from topi_ext.workloads.convolution import ANNOTATION
from topi_ext.workloads.reading import convolution_from_json
from topi_ext.workloads.separable import separable
from topi_ext.workloads.stacked_phases import PHASES
from topi_ext.workloads.text import operator_of

PAIR = 2
"""Convolutions in one kernel at most; see :class:`topi_ext.workloads.separable.SeparableWorkload`."""

MOST_REPEATED = 512
"""The most expression nodes that inlining one block may add to a function."""

SBlock = Any
"""A block of a schedule (``tvm.s_tir.schedule.SBlockRV``)."""


_SEED = 1
"""No schedule here draws random numbers, but without a seed each would ask the system for one."""

_unchecked = type(
    "Unchecked",
    (Schedule,),
    {name: method.__wrapped__ for name, method in vars(Schedule).items() if hasattr(method, "__wrapped__")},
)
"""A schedule whose methods do not check their arguments against their type hints: mypy has done that, and the
check takes longer than most methods."""


def open_schedule(func: tirx.PrimFunc) -> Schedule:
    """A schedule of one function, named "main", without the checks that make large functions slow.

    The function is brought into SSA form first: an expression that was inlined several times defines its
    ``let`` variables several times, which schedules do not accept.
    """
    schedule: Schedule = _unchecked(
        ConvertSSA()(tvm.IRModule({"main": func}))["main"],
        seed=_SEED,
        debug_mask="none",
        error_render_level="none",
    )
    return schedule


def child_blocks(sch: Schedule) -> list[SBlock]:
    """The blocks of the function in program order; none if its body is no block."""
    body = sch.mod["main"].body
    if not isinstance(body, SBlockRealize):
        return []
    return list(sch.get_child_blocks(sch.get_sblock(body.block.name_hint)))


def annotated_block(sch: Schedule) -> tuple[SBlock, str] | None:
    """The block that is annotated with a workload, and the workload as JSON; None without one.

    If several are, the first counts; but a depthwise convolution followed by a pointwise one yields the block
    of the latter and the :class:`topi_ext.workloads.separable.SeparableWorkload` of both.
    """
    blocks = child_blocks(sch)
    found = _workload_among([sch.get(block) for block in blocks])
    return None if found is None else (blocks[found[0]], found[1])


def anchor_of(sch: Schedule) -> SBlock:
    """The block of :func:`annotated_block`, which there has to be."""
    found = annotated_block(sch)
    assert found is not None
    return found[0]


def carried_workload(func: tirx.PrimFunc) -> tuple[str, Any] | None:
    """As :func:`annotated_block`, without a schedule: the workload, and all annotations of its block.

    Only for functions whose blocks are not nested, as they are before scheduling.
    """
    if not isinstance(func.body, SBlockRealize):
        return None
    blocks = nodes_of(func.body.block.body, SBlockNode)
    found = _workload_among(blocks)
    return None if found is None else (found[1], blocks[found[0]].annotations)


def _workload_among(blocks: Sequence[SBlockNode]) -> tuple[int, str] | None:
    """The index of the annotated block, and its workload."""
    found = [
        (place, str(block.annotations[ANNOTATION]))
        for place, block in enumerate(blocks)
        if ANNOTATION in block.annotations
    ]
    if len(found) == PAIR and all(operator_of(text) == "conv2d" for _, text in found):
        both = separable(*(convolution_from_json(text) for _, text in found))
        if both is not None:
            return found[1][0], both.to_json()
    return found[0] if found else None


@dataclass(frozen=True)
class AnchorNeighbours:
    """The blocks around an anchor: those before it, its epilogue if there is one, and those after it."""

    before: list[SBlock]
    epilogue: SBlock | None
    after: list[SBlock]


def fuse_epilogue(sch: Schedule, anchor: SBlock) -> AnchorNeighbours:
    """Merge the elementwise blocks that follow ``anchor`` into one block, its epilogue.

    There is no epilogue if the anchor's result must be stored as a whole, because it is an output, or because
    a later block reads other elements of it. Tiles overlap and run on several threads, so accumulators must
    be local to a tile, and an element of the result must be written once, when it is finished.
    """
    _inline_ahead(sch, anchor)
    before, after = _around(sch, anchor)
    fusible, others = _elementwise_after(sch, anchor, after)
    buffers = [_result(sch, block) for block in (anchor, *fusible)]
    needed = [buffer for block in others for buffer in _inputs(sch, block)]
    kept = temporaries(sch)
    last = next(
        (at for at, buffer in enumerate(buffers) if holds(needed, buffer) or not holds(kept, buffer)),
        0,
    )
    rest = fusible[last:]
    if last == 0 or any(holds(buffers[:last], buffer) for block in rest for buffer in _inputs(sch, block)):
        return AnchorNeighbours(before, None, [*fusible, *others])
    for block in fusible[: last - 1]:
        sch.compute_inline(block)
    return AnchorNeighbours(before, fusible[last - 1], [*rest, *others])


def inline_copies(sch: Schedule) -> None:
    """Inline blocks that are identity copies, such as a cast to the dtype that a tensor already has."""
    for block in child_blocks(sch):
        node = sch.get(block)
        store = node.body
        if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, TensorLoad):
            continue
        axes = [axis.var for axis in node.iter_vars]
        places = [list(store.indices), list(store.value.indices)]
        if all(len(place) == len(axes) and all(map(_same, place, axes)) for place in places):
            try_inline(sch, block)


def _same(index: Any, axis: Any) -> bool:
    return bool(index.same_as(axis))


def _around(sch: Schedule, anchor: SBlock) -> tuple[list[SBlock], list[SBlock]]:
    """The blocks before the anchor, and those after it."""
    blocks = child_blocks(sch)
    place = [sch.get(block).name_hint for block in blocks].index(sch.get(anchor).name_hint)
    return blocks[:place], blocks[place + 1 :]


def _inline_ahead(sch: Schedule, anchor: SBlock) -> None:
    """Inline blocks before ``anchor`` that it does not depend on, such as a factor of its results."""
    needed = _inputs(sch, anchor)
    for block in reversed(_around(sch, anchor)[0]):
        if holds(needed, _result(sch, block)):
            needed += _inputs(sch, block)
        elif not is_reduction(sch, block):
            try_inline(sch, block)


def _elementwise_after(
    sch: Schedule, anchor: SBlock, after: list[SBlock]
) -> tuple[list[SBlock], list[SBlock]]:
    """The blocks ``after`` the anchor that are elementwise in its result, and the others.

    Blocks that do not depend on the anchor are inlined if possible.
    """
    fusible: list[SBlock] = []
    others: list[SBlock] = []
    for block in after:
        inputs = _inputs(sch, block)
        buffers = [_result(sch, found) for found in (anchor, *fusible)]
        left = [_result(sch, found) for found in others]
        if not any(holds(buffers + left, buffer) for buffer in inputs):
            if is_reduction(sch, block) or not try_inline(sch, block):
                others.append(block)
        elif not any(holds(left, buffer) for buffer in inputs) and _is_elementwise(
            sch, block, anchor, buffers
        ):
            fusible.append(block)
        else:
            others.append(block)
    return fusible, others


def _is_elementwise(sch: Schedule, block: SBlock, anchor: SBlock, buffers: list[Any]) -> bool:
    """Does ``block`` have the spatial axes of the anchor, and read ``buffers`` only at the index that it
    writes? One that stores phases elsewhere reads them at the index of its own axes.
    """
    node = sch.get(block)
    axes = [axis for axis in sch.get(anchor).iter_vars if axis.iter_type == tirx.IterVar.DataPar]
    if len(node.writes) != 1 or len(node.iter_vars) != len(axes) or is_reduction(sch, block):
        return False
    analyzer = tvm.sym.Analyzer()
    for own, other in zip(node.iter_vars, axes, strict=True):
        if not analyzer.can_prove_equal(own.dom.extent, other.dom.extent):
            return False
    written = [] if PHASES in node.annotations else node.writes
    regions = [*written, *(region for region in node.reads if holds(buffers, region.source))]
    return all(_is_own_element(region.region, node.iter_vars) for region in regions)


def _is_own_element(region: Any, axes: Any) -> bool:
    if len(region) != len(axes):
        return False
    return all(
        fixed(part.extent) == 1
        and (axis.var.same_as(part.min) or (fixed(axis.dom.extent) == 1 and fixed(part.min) == 0))
        for part, axis in zip(region, axes, strict=True)
    )


def _inputs(sch: Schedule, block: SBlock) -> list[Any]:
    return [region.source for region in sch.get(block).reads]


def _result(sch: Schedule, block: SBlock) -> Any:
    return sch.get(block).writes[0].source


def temporaries(sch: Schedule) -> Any:
    """The intermediate buffers that the function allocates."""
    return sch.get(sch.get_sblock(sch.mod["main"].body.block.name_hint)).alloc_buffers


def try_inline(sch: Schedule, block: SBlock) -> bool:
    """Inline ``block`` into its consumers; False, and no change, if TVM refuses."""
    try:
        sch.compute_inline(block)
    except RuntimeError:  # ScheduleError or a failed check inside TVM, depending on what is in the way
        return False
    return True


def inline_small(sch: Schedule, block: SBlock) -> bool:
    """Inline ``block`` unless that adds more than :data:`MOST_REPEATED` nodes; False, and no change, if not.

    A chain of blocks that each read the previous one several times, such as the corners of boxes at all
    levels of a detector, would otherwise grow exponentially.
    """
    node = sch.get(block)
    results = [region.source for region in node.writes]
    reads = sum(
        holds(results, load.source)
        for reader in sch.get_consumers(block)
        for load in loads_of(sch.get(reader).body)
    )
    return not is_repeated_long(node, reads) and try_inline(sch, block)


def is_repeated_long(block: SBlockNode, reads: int) -> bool:
    """Would inlining a block that is read ``reads`` times add more than :data:`MOST_REPEATED` nodes?"""
    if reads <= 1:
        return False
    return (reads - 1) * len(nodes_of(block.body, tvm.ir.Expr)) > MOST_REPEATED


def simplified(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with divisions, comparisons, minima and maxima simplified by the extents of block axes."""
    analyzer = tvm.sym.Analyzer()

    def bound(block: SBlockNode) -> None:
        for axis in block.iter_vars:
            analyzer.bind(axis.var, axis.dom)

    def at_least(node: tirx.LE) -> Any:
        # TVM cancels common factors only if the constant is on the right.
        below = analyzer.simplify(tirx.LT(node.b, node.a))
        return tirx.LE(below.b, below.a) if isinstance(below, tirx.LT) else analyzer.simplify(node)

    def rounded_down(node: tirx.Div) -> Any:
        is_index = str(node.ty.dtype).startswith("int") and fixed(node.b)
        if is_index and analyzer.can_prove(node.a >= 0) and analyzer.can_prove(node.b > 0):
            return analyzer.simplify(tirx.floordiv(node.a, node.b))
        return node

    def bounded(node: Any) -> Any:
        return analyzer.simplify(node) if str(node.ty.dtype).startswith("int") else node

    structural_walk(func.body, (SBlockNode, bound))
    plain = (tirx.FloorDiv, tirx.FloorMod, tirx.LT)
    return func.with_body(
        structural_map(
            func.body,
            [
                (plain, analyzer.simplify),
                (tirx.LE, at_least),
                (tirx.Div, rounded_down),
                ((tirx.Min, tirx.Max), bounded),
            ],
        )
    )


def is_reduction(sch: Schedule, block: SBlock) -> bool:
    """Does the block reduce over any of its axes?"""
    return _reduces(sch.get(block))


def has_reduction(func: tirx.PrimFunc) -> bool:
    """Does any block of a function reduce over any of its axes?"""
    return any(map(_reduces, nodes_of(func.body, SBlockNode)))


def _reduces(block: SBlockNode) -> bool:
    return any(axis.iter_type == tirx.IterVar.CommReduce for axis in block.iter_vars)


def loop_extent(sch: Schedule, loop: Any) -> int | None:
    """The extent of a loop, None where it is symbolic."""
    return fixed(sch.get(loop).extent)


def fusible(sch: Schedule, loops: list[Any]) -> list[Any]:
    """The outer loops of ``loops`` that can be fused: all, or those up to the innermost symbolic one.

    TVM cannot analyse indices that divide a fused loop by the product of a symbolic and a fixed extent.
    """
    symbolic = [place for place, loop in enumerate(loops) if place and loop_extent(sch, loop) is None]
    return loops[: symbolic[-1] + 1] if symbolic else loops
