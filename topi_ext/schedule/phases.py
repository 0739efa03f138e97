"""Phases of a transposed convolution: stored where they belong, and without the taps that they do not have.

A transposed convolution of stride s is a convolution that makes s phases of the result as channels of their
own, and a block that moves them into place (each element of the result is read from its phase). Here that
block is turned around: it follows the convolution's elements and stores each at its place in the result, so
that it fuses like any epilogue. A phase skips what of the window it has no taps for.
"""

from math import prod
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock as SBlockNode
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_map

from topi_ext.indexing import block_of, physical_axes
from topi_ext.ir import nodes_of, substitute, unmarked, with_loops
from topi_ext.schedule.blocks import (
    SBlock,
    anchor_of,
    child_blocks,
    fuse_epilogue,
    loop_extent,
    open_schedule,
)
from topi_ext.schedule.nests import nest_of, nested_block, nests_of, with_nests
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.stacked_phases import PHASES, PhasesAlong, StackedPhases

SKIPPED_PHASES = "topi_ext.skip_phases"
"""Loop annotation: [block axis of the channels, indices of it in a phase, phases of the axes behind the
loop's, and the fields of the loop's :class:`topi_ext.workloads.stacked_phases.PhasesAlong`]."""


def share_of_products(func: tirx.PrimFunc, workload: ConvolutionWorkload) -> float:
    """The share of the workload's products that ``func`` needs: those of taps that phases have."""
    for block in nodes_of(func.body, SBlockNode):
        if PHASES in block.annotations:
            spatial = [axis for axis, _ in physical_axes(workload.out_layout) if axis in "DHW"]
            window = [workload.along("HWD".index(axis)).taps for axis in spatial]
            return StackedPhases.of(block.annotations[PHASES]).share_of_taps(window)
    return 1.0


def store_in_place(sch: Schedule, layout: str) -> tuple[Schedule, StackedPhases | None]:
    """The schedule of a function whose epilogue goes over stacked phases, rather than gather from them.

    ``layout`` is that of phases and result. The blocks behind the one that moves phases become one with it.
    The schedule itself, and None, where there are no phases.
    """
    merged = _merged(sch)
    if merged is None:
        return sch, None
    last, phases = merged
    stacked = sch.get(anchor_of(sch)).writes[0].source
    main, name = sch.mod["main"], sch.get(last).name_hint
    nest = _over_phases(sch.get(last), stacked, layout, phases)
    made = open_schedule(with_nests(main, [nest if _holds(each, name) else each for each in nests_of(main)]))
    made.annotate(made.get_sblock(name), PHASES, phases.numbers())
    return made, phases


def _merged(sch: Schedule) -> tuple[SBlock, StackedPhases] | None:
    """The block that moves phases, merged with the elementwise ones behind it; None without phases."""
    block = next((block for block in child_blocks(sch) if PHASES in sch.get(block).annotations), None)
    if block is None:
        return None
    phases = StackedPhases.of(sch.get(block).annotations[PHASES])
    around = fuse_epilogue(sch, block)
    if around.epilogue is None:
        return block, phases
    sch.compute_inline(block)
    return around.epilogue, phases


def _holds(nest: Any, name: str) -> bool:
    realize = nested_block(nest)
    return realize is not None and realize.block.name_hint == name


def _over_phases(block: Any, stacked: Any, layout: str, phases: StackedPhases) -> Any:
    """The loops of ``block`` over the elements of ``stacked``."""
    store, names = block.body, physical_axes(layout)
    kind = block.iter_vars[0].var.ty.dtype
    axes = [
        tirx.IterVar(
            tvm.ir.Range.from_min_extent(tirx.const(0, kind), extent),
            tirx.Var(f"{axis.lower()}{factor or ''}", kind),
            tirx.IterVar.DataPar,
        )
        for (axis, factor), extent in zip(names, stacked.shape, strict=True)
    ]
    own = {name: axis.var for name, axis in zip(names, axes, strict=True)}
    unit = block_of(layout, "C")
    in_phase = phases.channels // unit
    phase = own["C", 0] // in_phase
    places = {**own, ("C", 0): own["C", 0] % in_phase}
    inside = []
    spatial = [name for name, factor in names if name in "DHW" and not factor]
    analyzer = tvm.sym.Analyzer()
    for axis in axes:
        analyzer.bind(axis.var, axis.dom)
    old = dict(zip(names, block.iter_vars, strict=True))
    behind = 1
    for name, along in reversed(list(zip(spatial, phases.axes, strict=True))):
        place = own[name, 0] * along.stride + phase // behind % along.stride - along.skipped
        behind *= along.stride
        places[name, 0] = place
        for condition in (place >= 0, place < old[name, 0].dom.extent):
            if not analyzer.can_prove(condition):
                inside.append(condition)
    variables = {axis.var: places[name] for name, axis in old.items()}

    def load(found: TensorLoad) -> TensorLoad:
        if found.source.same_as(stacked):
            return tirx.BufferLoad(stacked, [axis.var for axis in axes])
        return found

    value = substitute(structural_map(store.value, (TensorLoad, load)), variables)
    body = tirx.BufferStore(store.buffer, value, [places[name] for name in names])
    if inside:
        body = tirx.IfThenElse(tirx.all(*inside), body, None)
    return nest_of(axes, body, block.name_hint)[1]


def skip_missing_taps(
    sch: Schedule, loop: Any, side: int, tile: int, phases: StackedPhases, layout: str
) -> None:
    """Mark ``loop`` over the window along spatial axis ``side`` of ``phases`` if some phases lack taps there.

    A register tile has ``tile`` channels; the loop is not marked where they may lie in three phases.
    """
    along = phases.axes[side]
    if not along.lacks_taps(loop_extent(sch, loop) or 0) or tile > phases.channels:
        return
    channels = physical_axes(layout).index(("C", 0))
    behind = prod(axis.stride for axis in phases.axes[side + 1 :])
    in_phase = phases.channels // block_of(layout, "C")
    sch.annotate(loop, SKIPPED_PHASES, [channels, in_phase, behind, *along.numbers()])


def apply_missing_taps(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Guard the body of every marked loop of a scheduled function by whether a phase has the tap."""

    def on_loop(loop: tirx.For) -> tirx.For:
        if SKIPPED_PHASES not in loop.annotations:
            return loop
        axis, in_phase, behind, *numbers = map(int, loop.annotations[SKIPPED_PHASES])
        along = PhasesAlong(*numbers)
        channel = nodes_of(loop.body, SBlockRealize)[0].iter_values[axis]
        inner = {each.loop_var: each for each in nodes_of(loop.body, tirx.For)}
        # A tile begins in one phase and may end in the next one.
        ends = [
            substitute(channel, {variable: tirx.IntImm(str(variable.ty), 0) for variable in inner}),
            substitute(channel, {variable: each.extent - 1 for variable, each in inner.items()}),
        ]
        taps = [along.tap(end // in_phase // behind % along.stride, loop.loop_var) for end in ends]
        # Without the hint TVM would shape buffers by the condition.
        exists = tirx.likely(tirx.any(*(tirx.all(tap >= 0, tap < along.taps) for tap in taps)))
        return unmarked(loop, SKIPPED_PHASES, tirx.IfThenElse(exists, loop.body, None))

    return with_loops(func, on_loop)
