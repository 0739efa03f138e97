"""Register tiles of matrices: the innermost loops of a convolution of words as instructions on these.

Schedules arrange the loops as they do for vectors and leave marks; then the loops of a tile become
instructions on all of its matrices, which are those of AMX (:mod:`topi_ext.codegen.amx`) or
vectors of ARM (:mod:`topi_ext.codegen.neon_matrices`), and sums are stored where the epilogue reads them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, Range
from tvm.s_tir import SBlock as Block
from tvm.s_tir import SBlockRealize, Schedule

from topi_ext.codegen import amx, neon_matrices
from topi_ext.codegen.bfloat16 import without_conversion
from topi_ext.codegen.dot_products import is_dot, operands
from topi_ext.codegen.scopes import SUMS
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.ir import nodes_of, sequence, substitute, unmarked, with_loops
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.schedule.blocks import SBlock
from topi_ext.workloads.convolution import ConvolutionWorkload

_CONFIGURED, _IN_VECTORS, _ZERO, _SUM, _PRODUCT = _MARKS = tuple(
    f"topi_ext.matrices.{part}" for part in ("configured", "in_vectors", "zero", "sum", "product")
)
"""Loop annotations: around all tiles of AMX, or of ARM; around a tile of zeros, all its products, and one
step of them."""


def keep_configured(sch: Schedule, loop: Any, workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> None:
    """Mark the outermost ``loop``: within it the registers have the shapes that ``knobs`` say."""
    if workload.paired_words:
        sch.annotate(loop, _IN_VECTORS, [knobs.tile_pixels, knobs.tile_channels * knobs.lanes, knobs.steps])
        return
    sch.annotate(
        loop, _CONFIGURED, [knobs.data_matrices, knobs.tile_channels, knobs.matrix_rows, knobs.steps]
    )


def multiply_matrices(
    sch: Schedule, zero: SBlock, products: SBlock, workload: ConvolutionWorkload, tile: int, reduction: int
) -> None:
    """Mark the innermost loops of ``products``, whose sums start from ``zero``.

    These are as many as ``reduction`` says, the last of them over the words of a matrix, and those of a
    ``tile``: rows, if it has several, pixels, vectors of channels, and lanes.
    """
    if not workload.paired_words:
        sch.set_scope(products, 0, SUMS)
    sch.annotate(sch.get_loops(zero)[-tile], _ZERO, 1)
    loops = sch.get_loops(products)
    sch.annotate(loops[-tile - reduction], _SUM, 1)
    sch.annotate(loops[-tile - 1], _PRODUCT, 1)


def apply_matrices(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Put instructions in the place of every marked loop of a scheduled function."""
    marked = {
        name: loop for loop in nodes_of(func.body, tirx.For) for name in loop.annotations if name in _MARKS
    }
    if _PRODUCT not in marked:
        return func
    tile: _Tile
    if _IN_VECTORS in marked:
        shape = map(int, marked[_IN_VECTORS].annotations[_IN_VECTORS])
        tile = _NeonTile(marked[_PRODUCT], *shape)
    else:
        shape = map(int, marked[_CONFIGURED].annotations[_CONFIGURED])
        tile = _AmxTile(marked[_PRODUCT], amx.Matrices(*shape))

    def on_loop(loop: tirx.For) -> Any:
        if _ZERO in loop.annotations:
            return _block("zero", [], [], tile.zero())
        if _PRODUCT in loop.annotations:
            return tile.products()
        if _SUM in loop.annotations:
            return tirx.SeqStmt([unmarked(loop, _SUM, loop.body), tile.stored()])
        if _CONFIGURED in loop.annotations or _IN_VECTORS in loop.annotations:
            return tile.around(loop)
        return loop

    return with_loops(func, on_loop)


class _Tile(ABC):
    """The tile of a step's innermost loops: words, rows if several, pixels, vectors, lanes; what it reads."""

    def __init__(self, loop: tirx.For) -> None:
        self.loops = [loop]
        while isinstance(self.loops[-1].body, tirx.For):
            self.loops.append(self.loops[-1].body)
        self.realize = self.loops[-1].body
        self.block = self.realize.block
        calls = nodes_of(self.block.body, Call)
        (dot,) = [call for call in calls if is_dot(call)]
        (data, *_), (weight, *_) = operands(dot)
        self.data, self.weight = without_conversion(data), without_conversion(weight)
        self.dtype = str(self.data.ty.dtype)
        self.sums = tirx.BufferLoad(self.block.body.buffer, list(self.block.body.indices))
        self.analyzer = tvm.sym.Analyzer()

    @abstractmethod
    def around(self, loop: tirx.For) -> Any:
        """The outermost loop with registers for its tiles: each thread has its own."""

    @abstractmethod
    def zero(self) -> list[Any]:
        """Statements that set the sums of a tile to zero."""

    @abstractmethod
    def products(self) -> Any:
        """One step: all matrices of words are loaded and multiplied."""

    @abstractmethod
    def stored(self) -> Any:
        """The sums are stored where the block would have had them, in what the tile needs of that buffer."""

    def _values(self, at: Mapping[int, int]) -> list[Any]:
        """Those of the block's axes where the loops of the tile are at the places ``at``, or at 0."""
        places = [0] * len(self.loops)
        for loop, place in at.items():
            places[loop] = place
        known = {
            loop.loop_var: tirx.IntImm(str(loop.loop_var.ty), place)
            for loop, place in zip(self.loops, places, strict=True)
        }
        return [self.analyzer.simplify(substitute(value, known)) for value in self.realize.iter_values]

    def _indices(self, load: Any, values: list[Any]) -> list[Any]:
        axes = dict(zip([axis.var for axis in self.block.iter_vars], values, strict=True))
        return [self.analyzer.simplify(substitute(index, axes)) for index in load.indices]

    def _address(self, load: Any, at: Mapping[int, int]) -> Any:
        return tirx.address_of(tirx.BufferLoad(load.source, self._indices(load, self._values(at))))

    def _stride(self, load: Any, loop: int, extents: Any = None) -> int:
        """Bytes from one step of a loop to the next, in a buffer of ``extents``."""
        axes = [axis.var for axis in self.block.iter_vars]
        steps = zip(self._values({}), self._values({loop: 1}), strict=True)
        # An axis of a tile that ends at an edge starts at a minimum, which the analyzer would take apart.
        moved = [
            axis + self.analyzer.simplify(next_ - first)
            for axis, (first, next_) in zip(axes, steps, strict=True)
        ]
        first, other = (
            _place(self._indices(load, values), extents or load.source.shape) for values in (axes, moved)
        )
        apart = self.analyzer.simplify(other - first)
        return int(apart) * DTYPE_BYTES[str(load.source.dtype)]

    def _region(self, load: Any) -> Any:
        """What the tile reads of the buffer: whole axes where that varies."""
        last = {place: int(loop.extent) - 1 for place, loop in enumerate(self.loops)}
        ends = [self._indices(load, self._values(at)) for at in ({}, last)]
        ranges = []
        for low, high, extent in zip(*ends, load.source.shape, strict=True):
            length = self.analyzer.simplify(high - low + 1)
            known = isinstance(length, tirx.IntImm)
            ranges.append(Range.from_min_extent(low, length) if known else Range(0, extent))
        return tirx.BufferRegion(load.source, ranges)


class _AmxTile(_Tile):
    """A tile of matrices in registers of AMX."""

    def __init__(self, loop: tirx.For, matrices: amx.Matrices) -> None:
        super().__init__(loop)
        self.matrices = matrices

    def around(self, loop: tirx.For) -> Any:
        words = tirx.decl_buffer((8,), "int64", "configuration", scope="local")
        first = [tirx.AllocBuffer(words, {}), *self.matrices.configure(words)]
        return _within(loop, _CONFIGURED, first, [self.matrices.release()])

    def zero(self) -> list[Any]:
        return self.matrices.zero()

    def products(self) -> Any:
        steps = self.matrices.multiply(
            [self._address(self.data, at) for at in self._pixels()],
            self._stride(self.data, _PIXEL),
            [self._address(self.weight, {_VECTOR: vector}) for vector in range(self.matrices.weights)],
            self._stride(self.weight, _WORD),
            self.dtype,
        )
        return _block("product", [self._region(self.data), self._region(self.weight)], [], steps)

    def stored(self) -> Any:
        addresses = [
            self._address(self.sums, {**at, _VECTOR: vector})
            for at in self._pixels()
            for vector in range(self.matrices.weights)
        ]
        region = self._region(self.sums)
        stride = self._stride(self.sums, _PIXEL, [part.extent for part in region.region])
        return _block("store", [], [region], self.matrices.store(addresses, stride))

    def _pixels(self) -> list[dict[int, int]]:
        """Where the matrices of pixels begin."""
        row_matrices = int(self.loops[_PIXEL].extent) // self.matrices.rows
        return [
            {_ROW: place // row_matrices, _PIXEL: place % row_matrices * self.matrices.rows}
            for place in range(self.matrices.data)
        ]


class _NeonTile(_Tile):
    """A tile of matrices in vector registers of ARM."""

    def __init__(self, loop: tirx.For, pixels: int, channels: int, words: int) -> None:
        super().__init__(loop)
        self.matrices = neon_matrices.MatrixVectors(pixels, channels, words, self.dtype)

    def around(self, loop: tirx.For) -> Any:
        return _within(loop, _IN_VECTORS, [self.matrices.allocate()], [])

    def zero(self) -> list[Any]:
        return self.matrices.zero()

    def products(self) -> Any:
        def data(pixel: int, word: int, length: int) -> Any:
            return self._run(self.data, {_WORD: word, _PIXEL: pixel}, length)

        def weight(channel: int, word: int, length: int) -> Any:
            return self._run(self.weight, {_WORD: word, **self._channel(channel)}, length)

        side_by_side = self._stride(self.data, _PIXEL) == neon_matrices.ROW_BYTES
        steps = self.matrices.multiply(data, weight, side_by_side=side_by_side)
        return _block("product", [self._region(self.data), self._region(self.weight)], [], steps)

    def stored(self) -> Any:
        def store(pixel: int, channel: int, sums: Any) -> Any:
            at = {_PIXEL: pixel, **self._channel(channel)}
            *outer, first = self._indices(self.sums, self._values(at))
            return tirx.BufferStore(self.sums.source, sums, [*outer, tirx.Ramp(first, 1, neon_matrices.SUMS)])

        return _block("store", [], [self._region(self.sums)], self.matrices.store(store))

    def _channel(self, channel: int) -> dict[int, int]:
        lanes = int(self.loops[_LANE].extent)
        return {_VECTOR: channel // lanes, _LANE: channel % lanes}

    def _run(self, load: Any, at: Mapping[int, int], length: int) -> Any:
        """So many elements of a buffer in a row, whichever axes they are along."""
        *outer, first = self._indices(load, self._values(at))
        return tirx.BufferLoad(load.source, [*outer, tirx.Ramp(first, 1, length)])


_WORD, _ROW, _PIXEL, _VECTOR, _LANE = 0, -4, -3, -2, -1
"""Places of the loops among those of a tile; where it has one row, that of words stands for its rows."""


def _within(loop: tirx.For, mark: str, first: list[Any], last: list[Any]) -> Any:
    """The loop with statements before and after all that one thread does of it."""
    if loop.kind == tirx.ForKind.PARALLEL:
        return unmarked(loop, mark, tirx.SeqStmt([*first, loop.body, *last]))
    return tirx.SeqStmt([*first, unmarked(loop, mark, loop.body), *last])


def _place(indices: list[Any], shape: Any) -> Any:
    """The place of an element in a buffer of that shape."""
    place = indices[0]
    for index, extent in zip(indices[1:], shape[1:], strict=True):
        place = place * extent + index
    return place


def _block(name: str, reads: list[Any], writes: list[Any], statements: list[Any]) -> Any:
    return SBlockRealize([], True, Block([], reads, writes, name, sequence(statements)))
