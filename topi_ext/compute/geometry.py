"""What a convolution of any number of spatial axes is, read off its tensors and layouts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from topi_ext.codegen.bfloat16 import BITS
from topi_ext.errors import RelayLayoutError
from topi_ext.extents import as_int
from topi_ext.indexing import (
    BlockedCoordinate,
    Coordinate,
    block_of,
    logical_extent,
    physical_axes,
    word_axis,
)
from topi_ext.workloads.convolution import BYTES, WIDENED, padded_lanes, word_elements

SHORTEST_RUN = 4
"""The fewest channels side by side that get a loop of their own; a word of bytes, too."""


@dataclass(frozen=True)
class Geometry:
    """A convolution, plain or transposed; extents in elements.

    ``spatial`` are the letters of its axes ("HW"), and the tuples have one entry for each; ``padding`` lists
    all that is before, then all that is after. ``image`` are the spatial extents of the data. ``dtype`` is
    that of the data as it is multiplied: float32 is rounded where the kernel holds bits of bfloat16, and
    uint8 is widened where it holds int16.
    """

    spatial: str
    batch: Any
    in_channels: Any
    out_channels: Any
    image: tuple[Any, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    data_layout: str
    kernel_layout: str
    out_layout: str
    dtype: str
    weight_dtype: str
    out_dtype: str

    @property
    def group_in_channels(self) -> Any:
        return self.in_channels // self.groups

    @property
    def group_out_channels(self) -> Any:
        return self.out_channels // self.groups

    @property
    def keeps_channels(self) -> bool:
        """Whether every channel of the result is made of the channel of the data at the same place."""
        return bool(self.groups > 1 and self.groups == self.in_channels == self.out_channels)

    @property
    def padded_lanes(self) -> int:
        """As :attr:`topi_ext.workloads.convolution.ConvolutionWorkload.padded_lanes`."""
        return padded_lanes(self.kernel_layout, self.out_layout, self.groups, self.out_channels)

    @property
    def channels_last(self) -> bool:
        return self.data_layout.endswith("C")

    @property
    def reduction_block(self) -> int:
        """As :func:`reduction_block`."""
        return reduction_block(self.data_layout, self.group_in_channels)

    @property
    def reads_bits(self) -> bool:
        """Are the elements of data and kernel bits of bfloat16?"""
        return self.dtype == "bfloat16" and self.weight_dtype == BITS

    @property
    def word_axis(self) -> str:
        """I or W where dot products of words run along that axis, as the kernel is stored; or none."""
        return word_axis(self.kernel_layout, self.word)

    @property
    def word(self) -> int:
        """Elements of the data in a word; 1 where products are summed one by one."""
        if self.dtype in BYTES and self.weight_dtype != "int8":
            return 1
        return word_elements(self.dtype, self.out_dtype)

    @property
    def reductions(self) -> dict[str, Any]:
        """The reduction loops in order, with their extents."""
        block = self.reduction_block
        lengths = {f"r{axis.lower()}": size for axis, size in zip(self.spatial, self.kernel, strict=True)}
        lengths |= {"rc": self.group_in_channels // block, "rb": block}
        if self.word_axis:
            worded = "rw" if self.word_axis == "W" else "rb" if block > 1 else "rc"
            lengths[worded] //= self.word
        order = reduction_order(
            self.spatial,
            channels=self.group_in_channels,
            block=block,
            channels_last=self.channels_last,
        )
        return {name: lengths[name] for name in order}

    @property
    def out_block(self) -> int:
        return block_of(self.out_layout, "C")

    def out_shape(self, extents: Sequence[Any]) -> list[Any]:
        """The shape in memory of a result with these spatial extents."""
        known = dict(zip(self.spatial, extents, strict=True))
        known |= {"N": self.batch, "C": self.out_channels // self.out_block}
        return [factor or known[name] for name, factor in physical_axes(self.out_layout)]

    def out_channel(self, position: dict[tuple[str, int], Any]) -> Coordinate:
        """The channel of the output element at ``position``, a variable for each axis in memory."""
        if self.out_block == 1:
            return position["C", 0]
        return BlockedCoordinate(position["C", 0], position["C", self.out_block], self.out_block)


def geometry_of(
    spatial: str,
    data: te.Tensor,
    weight: te.Tensor,
    *,
    strides: Sequence[int] = (),
    padding: Sequence[int] = (),
    dilation: Sequence[int] = (),
    groups: int = 1,
    data_layout: str = "",
    kernel_layout: str = "",
    out_layout: str = "",
    out_dtype: str | None = None,
    out_channels: int | None = None,
    transposed: bool = False,
) -> Geometry:
    """The geometry of a call, over the axes whose letters ``spatial`` has ("HW").

    Empty ``strides``, ``padding`` and ``dilation`` stand for 1, 0 and 1, empty layouts for channels first.
    ``out_dtype`` is that of ``data`` by default. ``out_channels`` are those of the result where the weight of
    each group is filled up with zeros.

    RelayLayoutError where channels do not fit together: they would be left out of the result without a word.
    """
    rank = len(spatial)
    data_layout = data_layout or f"NC{spatial}"
    kernel_layout = kernel_layout or f"{'IO' if transposed else 'OI'}{spatial}"
    out_layout = out_layout or f"NC{spatial}"
    outputs = as_int(logical_extent(kernel_layout, weight.shape, "O"))
    outputs *= as_int(logical_extent(kernel_layout, weight.shape, "G"))
    geometry = Geometry(
        spatial=spatial,
        batch=as_int(logical_extent(data_layout, data.shape, "N")),
        in_channels=as_int(logical_extent(data_layout, data.shape, "C")),
        out_channels=out_channels or (outputs * groups if transposed else outputs),
        image=tuple(as_int(logical_extent(data_layout, data.shape, axis)) for axis in spatial),
        kernel=tuple(as_int(logical_extent(kernel_layout, weight.shape, axis)) for axis in spatial),
        strides=_each(strides, rank, 1),
        padding=_each(padding, 2 * rank, 0),
        dilation=_each(dilation, rank, 1),
        groups=int(groups),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        dtype=_multiplied(str(data.dtype), str(weight.dtype), out_dtype),
        weight_dtype=str(weight.dtype),
        out_dtype=out_dtype or str(data.dtype),
    )
    inputs = as_int(logical_extent(kernel_layout, weight.shape, "I"))
    if all(isinstance(extent, int) for extent in (geometry.in_channels, outputs, inputs)):
        problem = _misfit(geometry, inputs, outputs, transposed)
        if problem:
            name = f"conv{rank}d_transpose" if transposed else f"conv{rank}d"
            layouts = f"{data_layout}, {kernel_layout} to {out_layout}"
            raise RelayLayoutError(f"{name} of {layouts}: {problem}")
    return geometry


def _multiplied(data: str, weight: str, out: str | None) -> str:
    """The dtype in which data is multiplied by a weight of another one, if that is not its own."""
    if weight == BITS and out == "float32":
        return "bfloat16"
    return WIDENED if (data, weight, out) == ("uint8", WIDENED, "int32") else data


def _misfit(geometry: Geometry, inputs: int, stored: int, transposed: bool) -> str:
    """What does not fit together among the channels; "" where everything does.

    The kernel has ``inputs`` and ``stored`` outputs.
    """
    channels, outputs, groups = geometry.in_channels, geometry.out_channels, geometry.groups
    if transposed and (inputs != channels or channels % groups):
        return f"{channels} input channels in {groups} groups for a kernel of {inputs}"
    if not transposed and channels != groups * inputs:
        return f"{channels} input channels for {groups} groups of {inputs}"
    if outputs % groups:
        return f"{outputs} output channels in {groups} groups"
    lanes = geometry.padded_lanes or 1
    filled = groups * math.ceil(outputs // groups / lanes) * lanes
    if not transposed and stored != filled:
        return f"{stored} outputs of the kernel where {filled} are needed"
    if outputs % geometry.out_block:
        return f"{outputs} output channels in blocks of {geometry.out_block}"
    return ""


def reduction_block(data_layout: str, channels: Any) -> int:
    """How many of a group's ``channels`` lie side by side in each block that holds any; 1 where few do."""
    block = block_of(data_layout, "C")
    if block == 1 or not isinstance(channels, int):
        return block
    common = math.gcd(channels, block)
    return common if common >= SHORTEST_RUN else 1


def reduction_order(spatial: str, *, channels: int, block: int, channels_last: bool) -> tuple[str, ...]:
    """Names of the reduction loops, outermost first: "rc", "rh" and so on for the window, "rb" in a block.

    Blocked data is walked block by block, so that one block's lanes stay in cache over the whole
    window; with channels last the window comes first because a pixel's channels are contiguous.
    """
    window = tuple(f"r{axis.lower()}" for axis in spatial)
    if channels == 1:
        return window
    if block > 1:
        return ("rc", *window, "rb")
    return (*window, "rc") if channels_last else ("rc", *window)


def reduction_channel(axes: dict[str, tirx.IterVar], block: int) -> Coordinate:
    """The position within a group's input channels that the reduction loops stand at."""
    if "rb" in axes:
        return BlockedCoordinate(axes["rc"], axes["rb"], block)
    return axes.get("rc", 0)


def flat(coordinate: Coordinate) -> Any:
    """A coordinate as one expression."""
    return coordinate.flat if isinstance(coordinate, BlockedCoordinate) else coordinate


def widened(value: Any, geometry: Geometry) -> Any:
    """An element in the dtype that is accumulated in."""
    return value if geometry.out_dtype == geometry.dtype else value.astype(geometry.out_dtype)


def _each(values: Sequence[int], count: int, default: int) -> tuple[int, ...]:
    given = tuple(int(value) for value in values) or (default,) * count
    if len(given) != count:
        raise RelayLayoutError(f"{count} numbers are needed, not {list(given)}")
    return given
