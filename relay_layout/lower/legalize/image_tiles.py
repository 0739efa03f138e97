"""Convolutions of images of dynamic size as batches of convolutions of tiles of static size.

Used in layouts for which no kernel takes a dynamic size: those whose vectors run along a row of pixels or
across the end of one. Tiles are copied out together with the halo that their windows read, convolved as a
batch, and copied to their places. The last tile along an axis is moved back to end with the image; of an
image smaller than a tile, the elements past its end are computed and dropped.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from relay_layout.ir import Expression, is_static, operator_name, out_layout, shape_of
from relay_layout.layout import Layout
from relay_layout.lower.dynamic_shapes.run_time_extents import extent_variable
from relay_layout.lower.fusion.patterns import INJECTIVE, PATTERN
from relay_layout.lower.legalize.convolutions import typical_workload
from relay_layout.targets import CpuTarget
from topi_ext.compute.imperative import variable, written
from topi_ext.compute.winograd_any_size import tile_counts, tile_place
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.indexing import physical_axes
from topi_ext.spaces.any_size import suits_any_size
from topi_ext.spaces.typical_sizes import overrun
from topi_ext.workloads.convolution import COLUMNS, ROWS, ConvolutionWorkload, SpatialAxis

_TILES = (16, 8, 4)
"""Rows and columns of a tile, in pixels of the result.

Images whose sides are a multiple of 32, as networks like them, leave whole tiles at most stages.
"""


@dataclass(frozen=True)
class _Window:
    """The tiles along one spatial axis, of ``tile`` results of the convolution ``along`` it each."""

    tile: int
    along: SpatialAxis

    @property
    def read(self) -> int:
        """Pixels of the image that a tile reads: its own and the halo."""
        return (self.tile - 1) * self.along.stride + self.along.window

    def results(self, extent: Any) -> Any:
        """The extent of the result for an image of ``extent``."""
        more = self.along.pad_before + self.along.pad_after - self.along.window
        return tirx.floordiv(extent + more, self.along.stride) + 1

    def count(self, results: Any) -> Any:
        """How many tiles cover ``results``."""
        return tile_counts(results, self.tile)

    def begin(self, number: Any, results: Any) -> Any:
        """The first result of tile ``number``; the last tile is moved back to end at ``results``."""
        return te.min(number * self.tile, te.max(results - self.tile, 0))

    def first_read(self, number: Any, results: Any) -> Any:
        """The first pixel that tile ``number`` reads, below 0 in the border."""
        return self.begin(number, results) * self.along.stride - self.along.pad_before


@dataclass(frozen=True)
class _Tiling:
    """The tiles along both axes, and the positions of N, H and W among the dimensions of data and result."""

    rows: _Window
    columns: _Window
    data: tuple[int, int, int]
    result: tuple[int, int, int]

    def number(self, data: te.Tensor) -> Any:
        """How many tiles all images of the batch have."""
        batch, rows, columns = (data.shape[place] for place in self.data)
        down = self.rows.count(self.rows.results(rows))
        across = self.columns.count(self.columns.results(columns))
        return batch * down * across

    def cut(self, data: te.Tensor, tiles: Any) -> te.Tensor:
        """The tiles of all images with their halos, row by row; zeros outside of the image."""
        _, height, width = (data.shape[place] for place in self.data)
        down, across = self.rows.results(height), self.columns.results(width)

        shape = list(data.shape)
        for place, extent in zip(self.data, (tiles, self.rows.read, self.columns.read), strict=True):
            shape[place] = extent
        inner = [place for place in range(len(shape)) if place != self.data[0]]

        def body(source: Any, result: Any) -> None:
            with T.parallel(0, tiles) as tile:
                image, *numbers = tile_place(tile, self.rows.count(down), self.columns.count(across))
                # What is divided is divided once for each tile.
                first = [variable("int64") for _ in range(3)]
                first[0][0] = image
                first[1][0] = self.rows.first_read(numbers[0], down)
                first[2][0] = self.columns.first_read(numbers[1], across)
                with T.grid(*(shape[place] for place in inner)) as found:
                    within = dict(zip(inner, found, strict=True))
                    row = first[1][0] + within[self.data[1]]
                    column = first[2][0] + within[self.data[2]]
                    within |= {self.data[0]: tile}
                    read = within | dict(zip(self.data, (first[0][0], row, column), strict=True))
                    inside = tirx.all(row >= 0, row < height, column >= 0, column < width)
                    result[tuple(within[place] for place in range(len(shape)))] = tirx.if_then_else(
                        inside,
                        source[tuple(read[place] for place in range(len(shape)))],
                        tirx.const(0, data.dtype),
                    )

        return written("cut_tiles", [data], [(shape, data.dtype)], body)

    def join(self, found: te.Tensor, goal: Any) -> te.Tensor:
        """The result, of shape ``goal``, from the results ``found`` of the tiles."""
        _, down, across = (goal[place] for place in self.result)

        def element(*index: Any) -> Any:
            image, row, column = (index[place] for place in self.result)
            numbers = row // self.rows.tile, column // self.columns.tile
            source = list(index)
            tiles = self.rows.count(down), self.columns.count(across)
            source[self.result[0]] = (image * tiles[0] + numbers[0]) * tiles[1] + numbers[1]
            source[self.result[1]] = row - self.rows.begin(numbers[0], down)
            source[self.result[2]] = column - self.columns.begin(numbers[1], across)
            return found(*source)

        return te.compute(list(goal), element, name="join_tiles")


def tiled_call(
    builder: relax.BlockBuilder,
    call: relax.Call,
    convolve: Callable[[relax.BlockBuilder, relax.Call, int], Expression],
    target: CpuTarget,
) -> Expression | None:
    """Lower a 2-D convolution by a constant weight of images of dynamic size, tile by tile.

    None for other calls, and for layouts that have a kernel for dynamic sizes. ``convolve(builder, call,
    count)`` lowers the convolution of the tiles; ``count`` is how many tiles a typical image has.
    """
    workload = typical_workload(call)
    tiling = None if workload is None else _best_tiling(call, workload, target)
    if workload is None or tiling is None:
        return None
    data, weight = call.args
    attributes = call.attrs
    number = tiling.rows.count(int(workload.out_height)) * tiling.columns.count(int(workload.out_width))
    tiles = extent_variable(builder, data, tiling.number, "tiles")
    cut = builder.emit_te(tiling.cut, data, tiles, primfunc_name_hint="cut_tiles")
    inner = relax.op.nn.conv2d(
        cut,
        weight,
        strides=list(attributes.strides),
        padding=[0, 0, 0, 0],
        dilation=list(attributes.dilation),
        groups=attributes.groups,
        data_layout=attributes.data_layout,
        kernel_layout=attributes.kernel_layout,
        out_layout=attributes.out_layout,
        out_dtype=str(call.ty.dtype),
    )
    found = builder.emit(convolve(builder, builder.normalize(inner), number))
    goal = relax.ShapeExpr(list(shape_of(call) or ()))
    return builder.call_te(
        tiling.join, found, goal, primfunc_name_hint="join_tiles", primfunc_attrs={PATTERN: INJECTIVE}
    )


def _best_tiling(call: relax.Call, workload: ConvolutionWorkload, target: CpuTarget) -> _Tiling | None:
    """The square tiles with the lowest estimated time; None where a kernel takes dynamic sizes.

    ``workload`` is the convolution of images of a typical size.
    """
    if suits_any_size(workload) or target.float_form(workload, any_size=True) is not workload:
        return None
    tilings = [_tiling(call, workload, tile) for tile in _TILES]
    return min(
        (tiling for tiling in tilings if tiling is not None),
        key=lambda tiling: _tiled_us(tiling, workload, target),
        default=None,
    )


def _tiled_us(tiling: _Tiling, workload: ConvolutionWorkload, target: CpuTarget) -> float:
    """Estimated microseconds of the tiles of an image of typical size, with the copies before and after."""
    windows = tiling.rows, tiling.columns
    extents = int(workload.out_height), int(workload.out_width)
    counts = [window.count(extent) for window, extent in zip(windows, extents, strict=True)]
    tiles = replace(
        workload,
        batch=prod(counts),
        in_height=tiling.rows.read,
        in_width=tiling.columns.read,
        padding=(0, 0, 0, 0),
    )
    choice = target.kernels.choose(tiles)
    repeated = prod(overrun(extent, window.tile) for window, extent in zip(windows, extents, strict=True))
    read = prod(counts) * tiling.rows.read * tiling.columns.read * workload.in_channels
    written = prod(counts) * tiling.rows.tile * tiling.columns.tile * workload.out_channels
    copied = 2 * DTYPE_BYTES[workload.dtype] * (read + written)
    return repeated * (choice.microseconds + target.facts.moving_us(copied)) + 2 * target.facts.launch_us


def _tiling(call: relax.Call, workload: ConvolutionWorkload, tile: int) -> _Tiling | None:
    """Tiles of ``tile`` by ``tile`` results, but along extents that are known; None where none are."""
    data, result = shape_of(call.args[0]), shape_of(call)
    if operator_name(call) != "nn.conv2d" or data is None or result is None:
        return None
    attributes = call.attrs
    texts = [str(attributes.data_layout), out_layout(attributes)]
    if any(set(Layout.parse(text).blocked_axes) & {"N", "H", "W"} for text in texts):
        return None
    places = [_places(text) for text in texts]
    sides = list(zip((data, result), places, strict=True))
    images = [[shape[place] for place in own[1:]] for shape, own in sides]
    others = [extent for shape, own in sides for place, extent in enumerate(shape) if place not in own]
    if is_static(images[0]) or not is_static(others):
        return None
    rows, columns = (
        _Window(extent if isinstance(extent, int) else tile, workload.along(side))
        for side, extent in zip((ROWS, COLUMNS), images[1], strict=True)
    )
    return _Tiling(rows, columns, *places)


def _places(layout: str) -> tuple[int, int, int]:
    """The positions of N, H and W among the dimensions in memory."""
    batch, rows, columns = (_dimensions(layout).index(axis) for axis in "NHW")
    return batch, rows, columns


def _dimensions(layout: str) -> list[str]:
    """The axis of each dimension in memory; a blocked axis appears twice, its outer part first."""
    return [axis for axis, _ in physical_axes(layout)]
