"""The estimated cycles of a block, by which small blocks are left on one thread."""

from math import ceil
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm_ffi import structural_hash

from topi_ext.codegen.bfloat16 import CONVERSIONS
from topi_ext.extents import fixed
from topi_ext.ir import IF_THEN_ELSE, nodes_of, strides_along
from topi_ext.schedule.blocks import SBlock, is_reduction, loop_extent

MOVE_CYCLES = 2.0
"""Cycles to load a vector from the level-2 cache, or to store one to it."""

OPERATION_CYCLES, DIVISION_CYCLES = 0.5, 4.0
"""Cycles of an operation on a vector, with two vector units, and of a division."""

FUNCTION_CYCLES = 80.0
"""Cycles of a vector for which the mathematical library is called, element by element."""

_SINGLE = (
    "prim.ceil",
    IF_THEN_ELSE,
    "tirx.fabs",
    "tirx.floor",
    "tirx.fma",
    "tirx.isnan",
    "tirx.nearbyint",
    "tirx.reinterpret",
    "tirx.round",
    "tirx.sqrt",
    "tirx.trunc",
)

INSTRUCTIONS = (*map(tvm.ir.Op.get, _SINGLE), *CONVERSIONS)
"""Calls for which there are vector instructions."""

ALONG_ROW = 4
"""The factor on a reduction along the innermost axis, which is not vectorized."""


def block_cycles(sch: Schedule, block: SBlock, lanes: int) -> float:
    """Cycles of a block on one thread, roughly: of moving vectors and of computing with them.

    Vectors run along the last axis of the result; an element that is not loaded with its neighbours counts as
    much as a vector. Symbolic extents count as one vector.
    """
    node = sch.get(block)
    elements = 1
    for loop in sch.get_loops(block):
        elements *= loop_extent(sch, loop) or lanes
    spatial = [axis for axis in node.iter_vars if axis.iter_type == tirx.IterVar.DataPar]
    innermost = spatial[-1].var if spatial else None
    stores = nodes_of(node.body, tirx.BufferStore)
    summed = is_reduction(sch, block)
    # A sum stays in its register.
    cycles = sum(
        _value_cycles(store, innermost, lanes) + (0.0 if summed else MOVE_CYCLES) for store in stores
    )
    if summed and (not spatial or fixed(spatial[-1].dom.extent) == 1):
        cycles *= ALONG_ROW
    return ceil(elements / lanes) * cycles


def _value_cycles(store: tirx.BufferStore, innermost: tirx.Var | None, lanes: int) -> float:
    """Cycles to compute one vector of what ``store`` stores, without index arithmetic and without loading the
    destination.
    """
    loads = _distinct(store.value, TensorLoad).values()
    inside = {key for load in loads for index in load.indices for key in _operations(index)}
    cycles = sum(_cycles_of(node) for key, node in _operations(store.value).items() if key not in inside)
    for load in loads:
        if load.source.same_as(store.buffer):
            continue
        strided = innermost is not None and strides_along(load, innermost)
        cycles += lanes if strided else MOVE_CYCLES
    return cycles


def _operations(expression: Any) -> dict[int, Any]:
    return _distinct(
        expression, tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min, tirx.Select, tirx.Div, tvm.ir.Call
    )


def _distinct(expression: Any, *kinds: type) -> dict[int, Any]:
    """The nodes of ``kinds`` by structural hash: common subexpressions are computed once."""
    return {structural_hash(node): node for node in nodes_of(expression, kinds)}


def _cycles_of(node: Any) -> float:
    if isinstance(node, tirx.Div):
        return DIVISION_CYCLES
    if isinstance(node, tvm.ir.Call) and node.op not in INSTRUCTIONS:
        return FUNCTION_CYCLES
    return OPERATION_CYCLES
