"""The loop over square tiles that are transposed in vector registers.

Whole vectors are read and whole vectors are written. In between, a tile takes log2(n) rounds in which pairs
of rows exchange halves (Eklundh, IEEE Transactions on Computers, 1972), each a shuffle of two vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2, prod
from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad

from topi_ext.codegen.scalar_operations import vector_of
from topi_ext.extents import as_int
from topi_ext.ir import IF_THEN_ELSE, substitute
from topi_ext.machine.processor import LINE_BYTES
from topi_ext.schedule.work import INSTRUCTIONS

SMALLEST_TILE, LARGEST_TILE = 4, 16
"""Rows and columns of the tiles that are transposed in registers."""

VECTOR_CYCLES = 3.0
"""Reading and writing a vector of a tile; each round of exchanges takes one more."""

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)


@dataclass(frozen=True, eq=False)
class Digit:
    """A loop of a copy: its extent, and how many elements a step moves on in the source and in the result.

    A step is ``apart`` steps of ``axis``, which is an axis of the block that copies, or None.
    """

    extent: Any
    source: int
    result: int
    axis: tirx.Var | None
    apart: int


def _is_number(value: Any) -> bool:
    """Whether an operand is the same for all elements."""
    if isinstance(value, TensorLoad):
        return all(isinstance(index, tirx.IntImm) for index in value.indices)
    return isinstance(value, tirx.FloatImm | tirx.IntImm)


def is_arithmetic(value: Any) -> bool:
    """Whether an expression is one of loads and numbers that has the same meaning for vectors."""
    if isinstance(value, _ARITHMETIC):
        return is_arithmetic(value.a) and is_arithmetic(value.b)
    if isinstance(value, tirx.Cast):
        return is_arithmetic(value.value)
    if isinstance(value, Call):
        return _has_instruction(value) and all(map(is_arithmetic, value.args))
    return isinstance(value, TensorLoad) or _is_number(value)


def _has_instruction(call: Call) -> bool:
    """Whether a call is one instruction, whose operands are vectors where its result is one."""
    return any(call.op.same_as(op) for op in INSTRUCTIONS) and call.op.name != IF_THEN_ELSE


def bytes_of(tensor: Any) -> int:
    """The size of an element."""
    return int(tensor.dtype.bits) // 8


def tile_size(rows: Any, columns: Any, lanes: int) -> int | None:
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
class TransposedTiles:
    """Tiles of ``size`` rows, which lie along ``row`` in the source and along ``column`` in the result.

    ``value`` is stored, an expression of the element that ``copied`` loads, and of others that are the same
    along ``column`` and ``pixel``; the first one is at the first of ``starts`` in the source, and at the
    second in the result. ``pixel`` is a loop of a few neighbours in the result, whose tiles alternate there;
    :func:`topi_ext.codegen.interleave.interleave_stores` makes whole vectors of their stores. ``unit``
    neighbours stay together. ``axes`` are those of the block that copies.
    """

    copied: TensorLoad
    result: Any
    value: Any
    starts: tuple[int, int]
    axes: Sequence[tirx.Var]
    outer: Sequence[Digit]
    row: Digit
    column: Digit
    pixel: Digit | None
    unit: int
    size: int

    def loop(self, parallel_cycles: float) -> Any:
        """The loop over all tiles, which threads share where they take more cycles than that."""
        size, tiled = self.size, self._tiled()
        extents = [*(digit.extent for digit in self.outer), *(ceil(one.extent / size) for one in tiled)]
        cycles = _cycles(self.row.extent, self.column.extent, size)
        cycles *= prod(extent for extent in extents[:-2] if isinstance(extent, int))
        cycles *= self.pixel.extent if self.pixel is not None else 1
        tensors = (self.copied.source, self.result)
        views = [_flat(tensor) for tensor in tensors]
        lengths = [as_int(view.shape[0]) for view in views]
        small = all(isinstance(length, int) and length < 1 << 31 for length in lengths)
        dtype = "int32" if small else "int64"
        counter = tirx.Var("tile", dtype)
        places: list[Any] = []
        rest: Any = counter
        for extent in reversed(extents):
            places.insert(0, rest % extent)
            rest = rest // extent
        for inner, digit in zip((-2, -1), tiled, strict=True):
            places[inner] = tirx.min(places[inner] * size, digit.extent - size)
        reached = dict(zip([*self.outer, *tiled], places, strict=True))
        starts, statements = [], []
        for side, first in zip(("source", "result"), self.starts, strict=True):
            offset = first + sum((place * getattr(digit, side) for digit, place in reached.items()), 0)
            starts.append(tirx.Var(f"{side}_start", dtype))
            statements.append(tirx.Bind(starts[-1], offset))
        statements += self._tile(views, starts, reached)
        kind = tirx.ForKind.PARALLEL if cycles > parallel_cycles else tirx.ForKind.SERIAL
        body = tirx.For(counter, tirx.const(0, dtype), prod(extents), kind, tirx.SeqStmt(statements))
        declared = [
            tirx.DeclBuffer(view, data=tensor.data) for view, tensor in zip(views, tensors, strict=True)
        ]
        return tirx.SeqStmt([*declared, body])

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.size * self.unit

    def _tiled(self) -> tuple[Digit, Digit]:
        """The two loops over tiles, outermost first.

        The innermost one walks along one side's memory and crosses the other's rows. Rows that lie a power of
        two apart share a few sets of a cache, so those are crossed that share the least.
        """
        written = self.row.result * bytes_of(self.result)
        read = self.column.source * bytes_of(self.copied.source)
        if _shared_span(written) < _shared_span(read):
            return self.column, self.row
        return self.row, self.column

    def _tile(self, views: Sequence[Any], starts: Sequence[Any], reached: dict[Digit, Any]) -> list[Any]:
        """The tiles of one place, one for each element of a pixel: rows are read, exchanged and written."""
        (source, result), size, lanes = views, self.size, self.lanes
        stride = self.column.result // self.unit
        statements: list[Any] = []
        tiles: list[list[Any]] = []
        for apart in range(self.pixel.extent) if self.pixel is not None else (0,):
            start = starts[0] + apart * self.pixel.source if self.pixel is not None else starts[0]
            rows = []
            for place in range(size):
                run = tirx.Ramp(start + place * self.column.source, 1, lanes)
                rows.append(tirx.Var(f"row{place}", vector_of(str(source.dtype), lanes)))
                statements.append(tirx.Bind(rows[-1], tirx.BufferLoad(source, [run])))
            tiles.append(_transposed(rows, self.unit, statements))
        for place in range(size):
            for apart, rows in enumerate(tiles):
                value = self._value(self.value, rows[place], self._axes(reached, place))
                run = tirx.Ramp(starts[1] + place * self.row.result + apart, stride, lanes)
                statements.append(tirx.BufferStore(result, value, [run]))
        return statements

    def _axes(self, reached: dict[Digit, Any], place: int) -> dict[tirx.Var, Any]:
        """Where the axes of the block are at one of a tile's rows of the result."""
        axes = {axis: tirx.const(0, str(axis.ty.dtype)) for axis in self.axes}
        for digit, start in reached.items():
            if digit.axis is not None:
                step = start + place if digit is self.row else start
                axes[digit.axis] += tirx.Cast(digit.axis.ty, step) * digit.apart
        return axes

    def _value(self, value: Any, vector: Any, axes: dict[tirx.Var, Any]) -> Any:
        """An expression of one element, of a vector of them."""
        if isinstance(value, _ARITHMETIC):
            return type(value)(self._value(value.a, vector, axes), self._value(value.b, vector, axes))
        if isinstance(value, tirx.Cast):
            kind = vector_of(str(value.ty.dtype), self.lanes)
            return tirx.Cast(kind, self._value(value.value, vector, axes))
        if isinstance(value, Call):
            operands = [self._value(operand, vector, axes) for operand in value.args]
            return tirx.call_intrin(vector_of(str(value.ty.dtype), self.lanes), value.op, *operands)
        if isinstance(value, TensorLoad) and value.source.same_as(self.copied.source):
            return vector
        return tirx.Broadcast(substitute(value, axes), self.lanes)


def _transposed(rows: list[Any], unit: int, statements: list[Any]) -> list[Any]:
    """Variables of the columns of a tile of units, which are bound by what is put after ``statements``."""
    rows, size = list(rows), len(rows)
    half = size // 2
    while half:
        for upper in (place for place in range(size) if not place & half):
            lower = upper + half
            pair = [rows[upper], rows[lower]]
            left = [size + lane - half if lane & half else lane for lane in range(size)]
            right = [size + lane if lane & half else lane + half for lane in range(size)]
            for place, order in ((upper, left), (lower, right)):
                exchanged = tirx.Shuffle(
                    pair, [lane * unit + within for lane in order for within in range(unit)]
                )
                rows[place] = tirx.Var(f"row{place}", exchanged.ty)
                statements.append(tirx.Bind(rows[place], exchanged))
        half //= 2
    return rows
