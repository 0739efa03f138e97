"""Copies that bring another axis innermost: square tiles, transposed in vector registers.

Whole vectors are read and whole vectors are written. In between, a tile takes log2(n) rounds in which pairs
of rows exchange halves (Eklundh, IEEE Transactions on Computers, 1972), each a shuffle of two vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log2, prod
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import Schedule

from topi_ext.codegen.scalar_operations import vector_of
from topi_ext.extents import as_int
from topi_ext.ir import IF_THEN_ELSE, loads_of, nodes_of, substitute
from topi_ext.machine.processor import LINE_BYTES, Processor
from topi_ext.schedule.blocks import has_reduction, open_schedule
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.inlining import inlined, only_block
from topi_ext.schedule.nests import with_nests
from topi_ext.schedule.work import INSTRUCTIONS

SMALLEST_TILE, LARGEST_TILE = 4, 16
"""Rows and columns of the tiles that are transposed in registers."""

_ELEMENT_BYTES = (1, 2, 4, 8)

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)

VECTOR_CYCLES = 3.0
"""Reading and writing a vector of a tile; each round of exchanges takes one more."""


@dataclass(frozen=True)
class Digit:
    """A loop of a copy: its extent, and how many elements a step moves on in the source and in the result."""

    extent: Any
    source: int
    result: int


class Transpose(ProcessorRule):
    """Functions that copy elements, of which neighbours in the source are none in the result.

    What is done to each of them, with numbers that are the same for all, and conversions are done to whole
    vectors.
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
    if not isinstance(store, tirx.BufferStore):
        return None
    copied = [load for load in loads_of(store.value) if not _is_number(load)]
    if len(copied) != 1 or not _is_arithmetic(store.value):
        return None
    source, result = copied[0].source, store.buffer
    element = _bytes_of(source)
    if any(tensor.dtype == "bool" or _bytes_of(tensor) not in _ELEMENT_BYTES for tensor in (source, result)):
        return None
    if any(as_int(extent) == 0 for extent in (*source.shape, *result.shape)):
        return None
    loops = _digits(block, copied[0], store)
    if loops is None:
        return None
    digits, starts = loops
    row = next((digit for digit in digits if digit.source == 1), None)
    column = next((digit for digit in digits if digit.result == 1), None)
    if row is None or column is None or row is column:
        return None
    size = _tile_size(row.extent, column.extent, min(LARGEST_TILE, processor.lanes(element)))
    if size is None:
        return None
    outer = [digit for digit in digits if digit is not row and digit is not column]
    body = _Copy(source, result, store.value, starts, outer, row, column, size).loop(
        processor.parallel_cycles
    )
    return open_schedule(with_nests(func, [body], []))


def _is_number(value: Any) -> bool:
    """Whether an operand is the same for all elements."""
    if isinstance(value, TensorLoad):
        return all(isinstance(index, tirx.IntImm) for index in value.indices)
    return isinstance(value, tirx.FloatImm | tirx.IntImm)


def _bytes_of(tensor: Any) -> int:
    """The size of an element."""
    return int(tensor.dtype.bits) // 8


def _is_arithmetic(value: Any) -> bool:
    """Whether an expression is one of loads and numbers that has the same meaning for vectors."""
    if isinstance(value, _ARITHMETIC):
        return _is_arithmetic(value.a) and _is_arithmetic(value.b)
    if isinstance(value, tirx.Cast):
        return _is_arithmetic(value.value)
    if isinstance(value, Call):
        return _has_instruction(value) and all(map(_is_arithmetic, value.args))
    return isinstance(value, TensorLoad) or _is_number(value)


def _has_instruction(call: Call) -> bool:
    """Whether a call is one instruction, whose operands are vectors where its result is one."""
    return any(call.op.same_as(op) for op in INSTRUCTIONS) and call.op.name != IF_THEN_ELSE


def _of_vector(value: Any, vector: Any, lanes: int) -> Any:
    """An expression of one element, of a vector of them."""
    if isinstance(value, _ARITHMETIC):
        return type(value)(_of_vector(value.a, vector, lanes), _of_vector(value.b, vector, lanes))
    if isinstance(value, tirx.Cast):
        return tirx.Cast(vector_of(str(value.ty.dtype), lanes), _of_vector(value.value, vector, lanes))
    if isinstance(value, Call):
        operands = [_of_vector(operand, vector, lanes) for operand in value.args]
        return tirx.call_intrin(vector_of(str(value.ty.dtype), lanes), value.op, *operands)
    return tirx.Broadcast(value, lanes) if _is_number(value) else vector


def _digits(
    block: Any, load: TensorLoad, store: tirx.BufferStore
) -> tuple[list[Digit], tuple[int, int]] | None:
    """The loops of the copy and where it begins in the source and in the result.

    Loops are outermost in the result first and joined where they follow each other in both. None where the
    copy is no permutation of such loops.
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
    variables, extents, apart = [], [], []
    for axis, stride in zip(block.iter_vars, written, strict=True):
        lengths = _digit_lengths(as_int(axis.dom.extent), _factors(indices, axis.var))
        if lengths is None:
            return None
        steps = []
        for place, length in enumerate(lengths):
            variable = tirx.Var(axis.var.name, axis.var.ty)
            analyzer.bind(variable, tvm.ir.Range(0, length))
            inner = prod(lengths[place + 1 :])
            variables.append(variable)
            extents.append(length)
            apart.append(stride * inner)
            steps.append(variable * inner)
        offset = substitute(offset, {axis.var: sum(steps, 0)})
    found = tvm.sym.detect_linear_equation(analyzer.simplify(offset), variables)
    if len(found) != len(variables) + 1 or not all(isinstance(part, tirx.IntImm) for part in found):
        return None
    digits = [
        Digit(extent, int(part), step)
        for extent, part, step in zip(extents, found, apart, strict=False)
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
            and outer.source == digit.source * digit.extent
            and outer.result == digit.result * digit.extent
        ):
            joined[-1] = Digit(outer.extent * digit.extent, digit.source, digit.result)
        else:
            joined.append(digit)
    return joined


def _tile_size(rows: Any, columns: Any, lanes: int) -> int | None:
    """The size of the tiles that cover both extents in the fewest cycles; the last ones overlap others."""
    if not isinstance(rows, int) or not isinstance(columns, int):
        return None
    sizes = [lanes >> halved for halved in range(3)]
    fitting = [size for size in sizes if SMALLEST_TILE <= size <= min(rows, columns)]
    return min(fitting, key=lambda size: _cycles(rows, columns, size), default=None)


def _cycles(rows: int, columns: int, size: int) -> float:
    return ceil(rows / size) * ceil(columns / size) * size * (VECTOR_CYCLES + log2(size))


def _shared_span(step: int) -> int:
    """The largest power of two that divides a step of so many bytes; a line where it is less.

    Steps reach one in ``span / line`` sets of a cache.
    """
    return max(LINE_BYTES, step & -step)


def _flat(tensor: Any) -> Any:
    """A view of one axis, along which a vector may run over the end of a row."""
    return tirx.decl_buffer((prod(as_int(extent) for extent in tensor.shape),), tensor.dtype, tensor.name)


@dataclass(frozen=True)
class _Copy:
    """Tiles of ``size`` rows, which lie along ``row`` in the source and along ``column`` in the result.

    ``value`` is stored, an expression of the element that is loaded; the first one is at the first of
    ``starts`` in the source, and at the second in the result.
    """

    source: Any
    result: Any
    value: Any
    starts: tuple[int, int]
    outer: list[Digit]
    row: Digit
    column: Digit
    size: int

    def loop(self, parallel_cycles: float) -> Any:
        """The loop over all tiles, which threads share where they take more cycles than that."""
        size, tiled = self.size, self._tiled()
        extents = [*(digit.extent for digit in self.outer), *(ceil(one.extent / size) for one in tiled)]
        cycles = _cycles(self.row.extent, self.column.extent, size)
        cycles *= prod(extent for extent in extents[:-2] if isinstance(extent, int))
        views = [_flat(tensor) for tensor in (self.source, self.result)]
        lengths = [as_int(view.shape[0]) for view in views]
        small = all(isinstance(length, int) and length < 1 << 31 for length in lengths)
        dtype = "int32" if small else "int64"
        counter = tirx.Var("tile", dtype)
        places: list[Any] = []
        rest: Any = counter
        for extent in reversed(extents):
            places.insert(0, rest % extent)
            rest = rest // extent
        starts, statements = [], []
        for side, first in zip(("source", "result"), self.starts, strict=True):
            offset: Any = first
            for place, digit in zip(places, self.outer, strict=False):
                offset += place * getattr(digit, side)
            for place, digit in zip(places[-2:], tiled, strict=True):
                offset += tirx.min(place * size, digit.extent - size) * getattr(digit, side)
            starts.append(tirx.Var(f"{side}_start", dtype))
            statements.append(tirx.Bind(starts[-1], offset))
        statements += self._tile(views, starts)
        kind = tirx.ForKind.PARALLEL if cycles > parallel_cycles else tirx.ForKind.SERIAL
        body = tirx.For(counter, tirx.const(0, dtype), prod(extents), kind, tirx.SeqStmt(statements))
        tensors = (self.source, self.result)
        declared = [
            tirx.DeclBuffer(view, data=tensor.data) for view, tensor in zip(views, tensors, strict=True)
        ]
        return tirx.SeqStmt([*declared, body])

    def _tiled(self) -> tuple[Digit, Digit]:
        """The two loops over tiles, outermost first.

        The innermost one walks along one side's memory and crosses the other's rows. Rows that lie a power of
        two apart share a few sets of a cache, so those are crossed that share the least.
        """
        written, read = self.row.result * _bytes_of(self.result), self.column.source * _bytes_of(self.source)
        if _shared_span(written) < _shared_span(read):
            return self.column, self.row
        return self.row, self.column

    def _tile(self, views: list[Any], starts: list[Any]) -> list[Any]:
        """One tile: its rows are read, exchanged and written."""
        (source, result), size = views, self.size
        statements: list[Any] = []

        def named(value: Any, place: int) -> Any:
            variable = tirx.Var(f"row{place}", value.ty)
            statements.append(tirx.Bind(variable, value))
            return variable

        def run(start: Any, place: int, apart: int) -> list[Any]:
            return [tirx.Ramp(start + place * apart, 1, size)]

        rows = [
            named(tirx.BufferLoad(source, run(starts[0], place, self.column.source)), place)
            for place in range(size)
        ]
        half = size // 2
        while half:
            for upper in (place for place in range(size) if not place & half):
                lower = upper + half
                pair = [rows[upper], rows[lower]]
                left = [size + lane - half if lane & half else lane for lane in range(size)]
                right = [size + lane if lane & half else lane + half for lane in range(size)]
                rows[upper] = named(tirx.Shuffle(pair, left), upper)
                rows[lower] = named(tirx.Shuffle(pair, right), lower)
            half //= 2
        for place, row in enumerate(rows):
            value = _of_vector(self.value, row, size)
            statements.append(tirx.BufferStore(result, value, run(starts[1], place, self.row.result)))
        return statements
