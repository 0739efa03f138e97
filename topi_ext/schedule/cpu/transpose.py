"""Copies that bring another axis innermost: square tiles, transposed in vector registers."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm_ffi import structural_equal

from topi_ext.extents import as_int
from topi_ext.ir import loads_of, nodes_of, substitute, uses
from topi_ext.machine.processor import Processor
from topi_ext.schedule.blocks import has_reduction, open_schedule
from topi_ext.schedule.cpu.interleaved import MOST_ROWS
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.cpu.transposed_tiles import (
    LARGEST_TILE,
    SMALLEST_TILE,
    Digit,
    TransposedTiles,
    bytes_of,
    is_arithmetic,
    tile_size,
)
from topi_ext.schedule.inlining import inlined, only_block
from topi_ext.schedule.nests import with_nests

_ELEMENT_BYTES = (1, 2, 4, 8)


class Transpose(ProcessorRule):
    """Functions that copy elements, of which neighbours in the source are none in the result.

    What is done to each of them is done to whole vectors: conversions, and arithmetic with operands that are
    the same for neighbours in the result. Neighbours may also alternate between a few such copies, as pixels
    of an image of twice the size do, or a few of them stay together, as the parts of a complex number do.
    """

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None where the function does more than that, or an axis of the tiles is shorter than a tile."""
        return _scheduled(func, processor)


def _scheduled(func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
    if has_reduction(func):
        return None
    block = only_block(inlined(func))
    if block is None:
        return None
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not is_arithmetic(store.value):
        return None
    copied = _copied(block, store.value)
    if copied is None:
        return None
    operands = [load for load in loads_of(store.value) if not load.source.same_as(copied.source)]
    source, result = copied.source, store.buffer
    if any(tensor.dtype == "bool" or bytes_of(tensor) not in _ELEMENT_BYTES for tensor in (source, result)):
        return None
    if any(as_int(extent) == 0 for extent in (*source.shape, *result.shape)):
        return None
    loops = _digits(block, copied, store, [index for load in operands for index in load.indices])
    if loops is None:
        return None
    digits, starts = loops
    lanes = processor.lanes(bytes_of(source))
    unit = next((digit for digit in digits if digit.source == digit.result == 1), None)
    together = unit.extent if unit is not None else 1
    if not isinstance(together, int) or lanes % together or lanes < SMALLEST_TILE * together:
        return None
    pixel, column = _innermost(digits) if unit is None else (None, _step(digits, "result", together))
    row = _step(digits, "source", together)
    if row is None or column is None or row in (column, pixel):
        return None
    inner = (row, column, pixel, unit)
    along = [digit.axis for digit in inner if digit not in (None, row) and digit.axis is not None]
    if any(uses(index, axis) for load in operands for index in load.indices for axis in along):
        return None
    size = tile_size(row.extent, column.extent, min(LARGEST_TILE, lanes // together))
    if size is None:
        return None
    outer = [digit for digit in digits if digit not in inner]
    axes = [axis.var for axis in block.iter_vars]
    tiles = TransposedTiles(
        copied, result, store.value, starts, axes, outer, row, column, pixel, together, size
    )
    return open_schedule(with_nests(func, [tiles.loop(processor.parallel_cycles)], []))


def _copied(block: Any, value: Any) -> TensorLoad | None:
    """The load that depends on all axes of a block; None where there are others."""
    axes = [axis.var for axis in block.iter_vars if as_int(axis.dom.extent) != 1]
    loads = loads_of(value)
    whole = [load for load in loads if all(any(uses(index, axis) for index in load.indices) for axis in axes)]
    copied = whole[0] if whole else None
    if copied is None or not all(load.source.same_as(copied.source) for load in whole):
        return None
    same = [load for load in loads if load.source.same_as(copied.source)]
    return copied if all(structural_equal(load, copied) for load in same) else None


def _innermost(digits: Sequence[Digit]) -> tuple[Digit | None, Digit | None]:
    """The loop of a few neighbours in the result, if any, and the one that vectors of a result lie along."""
    last = _step(digits, "result", 1)
    if last is None or not isinstance(last.extent, int) or last.extent > MOST_ROWS:
        return None, last
    column = _step(digits, "result", last.extent)
    if column is None or column.source == 1:
        return None, last
    if not isinstance(column.extent, int) or column.extent < SMALLEST_TILE:
        return None, last
    return last, column


def _step(digits: Sequence[Digit], side: str, elements: int) -> Digit | None:
    """The loop of which a step moves on so many elements in the source or in the result."""
    return next((digit for digit in digits if getattr(digit, side) == elements), None)


def _digits(
    block: Any, load: TensorLoad, store: tirx.BufferStore, others: Sequence[Any]
) -> tuple[list[Digit], tuple[int, int]] | None:
    """The loops of the copy and where it begins in the source and in the result.

    Loops are outermost in the result first and joined where they follow each other in both, but for those of
    axes that ``others`` use. None where the copy is no permutation of such loops.
    """
    read, written = _strides(load.source.shape), _strides(store.buffer.shape)
    axes = [axis.var for axis in block.iter_vars]
    # A block that writes one element has an axis of its own for it, and the result no dimension.
    if read is None or written is None or len(axes) != len(written):
        return None
    begins = [_begin(index, axis) for index, axis in zip(store.indices, axes, strict=True)]
    first = [begin * stride for begin, stride in zip(begins, written, strict=True) if begin is not None]
    if len(first) < len(axes):
        return None
    analyzer = tvm.sym.Analyzer()
    for axis in block.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    indices = [analyzer.simplify(index) for index in load.indices]
    offset = sum((index * stride for index, stride in zip(indices, read, strict=True)), 0)
    variables: list[tirx.Var] = []
    loops: list[tuple[Any, int, tirx.Var | None, int]] = []
    for axis, stride in zip(block.iter_vars, written, strict=True):
        lengths = _digit_lengths(as_int(axis.dom.extent), _factors(indices, axis.var))
        if lengths is None:
            return None
        used = any(uses(index, axis.var) for index in others)
        steps = []
        for place, length in enumerate(lengths):
            variable = tirx.Var(axis.var.name, axis.var.ty)
            analyzer.bind(variable, tvm.ir.Range(0, length))
            inner = prod(lengths[place + 1 :])
            variables.append(variable)
            loops.append((length, stride * inner, axis.var if used else None, inner))
            steps.append(variable * inner)
        offset = substitute(offset, {axis.var: sum(steps, 0)})
    found = tvm.sym.detect_linear_equation(analyzer.simplify(offset), variables)
    if len(found) != len(variables) + 1 or not all(isinstance(part, tirx.IntImm) for part in found):
        return None
    digits = [
        Digit(extent, int(part), step, axis, apart)
        for (extent, step, axis, apart), part in zip(loops, found, strict=False)
        if not isinstance(extent, int) or extent > 1
    ]
    start = int(found[-1])
    if start < 0 or any(digit.source < 1 for digit in digits):
        return None
    return _joined(digits), (start, sum(first))


def _begin(index: Any, axis: tirx.Var) -> int | None:
    """What an index adds to its axis; None where it is not that."""
    if index.same_as(axis):
        return 0
    moved = isinstance(index, tirx.Add) and index.a.same_as(axis) and isinstance(index.b, tirx.IntImm)
    return int(index.b) if moved and int(index.b) >= 0 else None


def _strides(shape: Sequence[Any]) -> list[int] | None:
    """Elements between neighbours on each axis; None where they depend on a symbol."""
    inner = [as_int(extent) for extent in shape[1:]]
    if not all(isinstance(extent, int) for extent in inner):
        return None
    return [prod(inner[place:]) for place in range(len(shape))]


def _factors(indices: Sequence[Any], variable: tirx.Var) -> list[Any]:
    """What a variable is divided by: numbers, or symbols."""
    found = [node for index in indices for node in nodes_of(index, (tirx.FloorDiv, tirx.FloorMod))]
    return list({as_int(node.b) for node in found if variable.same_as(node.a)})


def _digit_lengths(extent: Any, factors: list[Any]) -> list[Any] | None:
    """The loops that an axis is, outermost first, where indices divide it by ``factors``.

    None where the factors do not divide each other and the extent.
    """
    if not factors:
        return [extent]
    if not all(isinstance(number, int) for number in (extent, *factors)) or max(factors) > extent:
        return None
    pairs = list(pairwise([*sorted({extent, *factors}, reverse=True), 1]))
    if any(larger % smaller for larger, smaller in pairs):
        return None
    return [larger // smaller for larger, smaller in pairs]


def _joined(digits: list[Digit]) -> list[Digit]:
    joined: list[Digit] = []
    for digit in digits:
        outer = joined[-1] if joined else None
        if (
            outer is not None
            and outer.axis is None
            and digit.axis is None
            and outer.source == digit.source * digit.extent
            and outer.result == digit.result * digit.extent
        ):
            joined[-1] = Digit(outer.extent * digit.extent, digit.source, digit.result, None, 0)
        else:
            joined.append(digit)
    return joined
