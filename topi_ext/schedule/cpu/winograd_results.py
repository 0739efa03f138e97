"""Results of Winograd's convolution computed tile by tile, and stored where the tile lies in its image.

The function computes each result where it is; which tile that is of, TVM could not tell from divisions by
extents that are not known.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_map

from topi_ext.compute.winograd import RESULT_COLUMNS
from topi_ext.compute.winograd_any_size import tile_counts, tile_place
from topi_ext.extents import fixed
from topi_ext.indexing import physical_axes
from topi_ext.ir import loads_of, substitute
from topi_ext.knobs import WinogradKnobs
from topi_ext.schedule.nests import nested_block, nests_of, with_nests
from topi_ext.workloads.convolution import ConvolutionWorkload


def by_tiles(
    func: tirx.PrimFunc, name: str, workload: ConvolutionWorkload, knobs: WinogradKnobs
) -> tuple[tirx.PrimFunc, Any]:
    """The function whose block ``name``, which computes the results pixel by pixel, does so tile by tile; and
    how many tiles there are.

    Only they may be computed: beyond the last one results have no place.
    """
    nests = nests_of(func)
    place, block = next(
        (place, realize.block)
        for place, realize in enumerate(map(nested_block, nests))
        if realize is not None and realize.block.name_hint == name
    )
    tiles = _Tiles(block, workload, knobs)
    nests[place] = tiles.nest()
    return with_nests(func, nests), tiles.count


class _Tiles:
    """A block that computes the results, as one whose axes are chunks, tiles of a chunk, vectors of channels,
    rows and columns of a tile, and channels of a vector.
    """

    def __init__(self, block: SBlock, workload: ConvolutionWorkload, knobs: WinogradKnobs) -> None:
        self.block, self.tile = block, knobs.tile
        axes = dict(zip(physical_axes(workload.out_layout), block.iter_vars, strict=True))
        images, self.height, self.width = (axes[name, 0].dom.extent for name in "NHW")
        rows, columns = tile_counts(self.height, self.tile), tile_counts(self.width, self.tile)
        self.count = images * rows * columns
        products = next(load.source for load in loads_of(block.body) if load.source.name == RESULT_COLUMNS)
        extents = {
            "chunk": products.shape[1],
            "place": knobs.rows,
            "vector": workload.out_channels // knobs.out_lanes,
            "row": self.tile,
            "column": self.tile,
            "lane": knobs.out_lanes,
        }
        self.axes = [
            tirx.IterVar(_from_zero(extent), tirx.Var(name, "int64"), tirx.IterVar.DataPar)
            for name, extent in extents.items()
        ]
        chunk, place, vector, self.row, column, lane = self.own = [axis.var for axis in self.axes]
        image, y, x = tile_place(chunk * knobs.rows + place, rows, columns)
        self.y, self.x = y * self.tile + self.row, x * self.tile + column
        places = {("N", 0): image, ("H", 0): self.y, ("W", 0): self.x, ("C", 0): vector}
        if ("C", knobs.out_lanes) in axes:
            places["C", knobs.out_lanes] = lane
        else:
            places["C", 0] = vector * knobs.out_lanes + lane
        self.values = {axis.var: places[name] for name, axis in axes.items()}
        self._image_row = axes["H", 0].var

    def nest(self) -> Any:
        """The loops around the block; what is outside of the image is not stored."""
        store, needed = self.block.body, []
        if isinstance(store, tirx.IfThenElse):
            needed, store = [store.condition], store.then_case
        loads = [(TensorLoad, self._in_tile), (tirx.FloorMod, self._row_of_tile)]
        value = substitute(structural_map(store.value, loads), self.values)
        place = [substitute(index, self.values) for index in store.indices]
        needed = [substitute(condition, self.values) for condition in needed]
        inside = tirx.all(self.y < self.height, self.x < self.width, *needed)
        body = tirx.IfThenElse(inside, tirx.BufferStore(store.buffer, value, place), None)
        sources: dict[Any, TensorLoad] = {load.source: load for load in loads_of(value)}
        reads = [self._region(load) for load in sources.values()]
        writes = [_whole(store.buffer)]
        block = SBlock(
            self.axes, reads, writes, self.block.name_hint, body, annotations=self.block.annotations
        )
        loops = [tirx.Var(str(variable.name), "int64") for variable in self.own]
        found: Any = SBlockRealize(loops, tirx.const(True, "bool"), block)
        for loop, axis in zip(reversed(loops), reversed(self.axes), strict=True):
            found = tirx.For(loop, axis.dom.min, axis.dom.extent, tirx.ForKind.SERIAL, found)
        return found

    def _in_tile(self, load: TensorLoad) -> TensorLoad:
        """A load of columns of the results from the tile at hand."""
        if load.source.name != RESULT_COLUMNS:
            return load
        chunk, place, vector, _, column, lane = self.own
        return tirx.BufferLoad(load.source, [vector, chunk, place, load.indices[3], column, lane])

    def _row_of_tile(self, remainder: tirx.FloorMod) -> Any:
        is_row = remainder.a.same_as(self._image_row) and fixed(remainder.b) == self.tile
        return self.row if is_row else remainder

    def _region(self, load: TensorLoad) -> tirx.BufferRegion:
        """What of a tensor a load reads: all of it, where that depends on the place in an image."""
        if load.source.name != RESULT_COLUMNS:
            return _whole(load.source)
        chunk, place, vector, _, column, lane = self.own
        at = [(vector, 1), (chunk, 1), (place, 1), (0, load.source.shape[3]), (column, 1), (lane, 1)]
        return tirx.BufferRegion(load.source, [Range.from_min_extent(*each) for each in at])


def _whole(buffer: Any) -> tirx.BufferRegion:
    return tirx.BufferRegion(buffer, [_from_zero(extent) for extent in buffer.shape])


def _from_zero(extent: Any) -> Range:
    number = fixed(extent)
    return Range.from_min_extent(
        tirx.IntImm("int64", 0), extent if number is None else tirx.IntImm("int64", number)
    )
