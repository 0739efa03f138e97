"""Windows that slide over the spatial axes of a layout: what convolutions and poolings have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, Extent
from relay_layout.layout import Layout

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
"""The letters of the spatial axes, by their number."""

MOST = 2**31 - 1
"""The largest stride, dilation, extent or padding that is accepted; with it no sum leaves 64 bits."""


def count(name: str, value: Any) -> int:
    """An attribute that is one number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise ModelError(f"{name} is {str(value)[:40]}, not a number from 1 to {MOST}")
    return value


def numbers(name: str, value: Any, counts: Sequence[int], least: int = 0) -> tuple[int, ...]:
    """An attribute that is a list of as many numbers as ``counts`` allows, each at least ``least``."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = (value,)
    fits = isinstance(value, tuple | list) and len(value) in counts
    if not fits or not all(isinstance(entry, int) and least <= entry <= MOST for entry in value):
        wanted = " or ".join(str(count) for count in counts)
        shown = str(list(value) if isinstance(value, tuple) else value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        raise ModelError(f"{name} is {shown}, not {wanted} numbers from {least} to {MOST}")
    return tuple(value)


def positive(name: str, value: Any, rank: int) -> tuple[int, ...]:
    """An attribute that is one number of at least 1 for each spatial axis."""
    return numbers(name, value, (rank,), 1)


def full_padding(value: Any, rank: int) -> tuple[int, ...]:
    """Padding before each spatial axis, then after each: from one number, one per axis, or two per axis."""
    given = numbers("padding", value, sorted({1, rank, 2 * rank}))
    if len(given) == 2 * rank:
        return given
    return (given if len(given) == rank else given * rank) * 2


def parsed_layout(name: str, text: str, letters: str, blocked: str = "") -> Layout:
    """A layout of exactly ``letters``, of which only those in ``blocked`` may be split into blocks."""
    layout = Layout.parse(text)
    if sorted(layout.primal) != sorted(letters) or layout.alignments:
        raise ModelError(f"{name} is '{text}', which is no order of {letters}")
    split = [axis for axis in layout.blocked_axes if axis not in blocked]
    if split:
        raise ModelError(f"{name} is '{text}'; the axis {split[0]} cannot be split here")
    return layout


def logical_extents(layout: Layout, shape: Sequence[Extent], what: str) -> dict[str, Extent]:
    """The extent of each axis, blocks included, of a tensor of ``shape`` in memory.

    ``what`` names the tensor in the ModelError for a shape that the layout cannot be of.
    """
    if len(shape) != len(layout.axes):
        raise ModelError(f"{what} has {len(shape)} dimensions; the layout {layout} has {len(layout.axes)}")
    extents: dict[str, Extent] = dict.fromkeys(layout.primal, 1)
    for axis, extent in zip(layout.axes, shape, strict=True):
        if axis.factor is not None and extent != axis.factor:
            raise ModelError(f"{what} has {extent} where the layout {layout} has a block of {axis.factor}")
        extents[axis.name] = extent * extents[axis.name]
    return extents


def physical_shape(layout: Layout, extents: Mapping[str, int | None]) -> tuple[int | None, ...]:
    """The shape in memory of a tensor of logical ``extents``, None where one is unknown."""
    shape: list[int | None] = []
    for axis in layout.axes:
        extent = extents[axis.name]
        if axis.factor is not None:
            shape.append(axis.factor)
        else:
            shape.append(None if extent is None else -(-extent // layout.block(axis.name)))
    return tuple(shape)


def reordered(value: Expression, source: str, target: str) -> Expression:
    """A tensor in the plain layout ``source`` transposed to ``target``, of the same letters."""
    if source == target:
        return value
    return relax.op.permute_dims(value, [source.index(letter) for letter in target])


@dataclass(frozen=True)
class Window:
    """A window along one spatial axis. All numbers are elements of that axis."""

    size: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def reach(self) -> int:
        """From the first to the last element of a window, gaps included."""
        return (self.size - 1) * self.dilation + 1

    def count(self, extent: int) -> int:
        """How many windows fit into ``extent`` elements and the padding."""
        return self._spare(extent) // self.stride + 1

    def check_fits(self, axis: str, extent: Extent) -> None:
        """ModelError where not even one window fits into the padded axis."""
        if isinstance(extent, int) and extent + self.before + self.after < self.reach:
            raise ModelError(
                f"a window of {self.reach} does not fit into the {extent + self.before + self.after} "
                f"elements of axis {axis} and its padding"
            )

    def ceil_count(self, extent: int) -> int:
        """How many windows there are when the last may reach past the padding."""
        return -(-self._spare(extent) // self.stride) + 1

    def starts_outside(self, extent: Extent) -> bool:
        """Whether the last of :meth:`ceil_count` has its first element behind the last of the tensor.

        Relay has such a window in the result when it rounds up; Relax leaves it out.
        """
        if not isinstance(extent, int):
            return False
        return (self.ceil_count(extent) - 1) * self.stride >= extent + self.before

    def after_for(self, number: int, extent: int) -> int:
        """Padding behind the tensor with which exactly ``number`` windows fit; what there is, if it does."""
        if self.count(extent) == number:
            return self.after
        return max(0, (number - 1) * self.stride + self.reach - extent - self.before)

    def _spare(self, extent: int) -> int:
        return extent + self.before + self.after - self.reach


def windows(
    sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int], padding: Sequence[int]
) -> list[Window]:
    """One window for each spatial axis; ``padding`` holds all that is before, then all that is after."""
    rank = len(sizes)
    return [
        Window(sizes[axis], strides[axis], dilation[axis], padding[axis], padding[axis + rank])
        for axis in range(rank)
    ]


def python_padding(value: Any, rank: int) -> Any:
    """``padding`` as Relay's Python functions take it: an int, one per axis or two per axis."""
    if isinstance(value, int):
        return (value,) * (2 * rank)
    values = tuple(value)
    if len(values) not in (1, rank, 2 * rank) or (rank > 1 and len(values) == 1):
        raise ValueError(f"padding has {len(values)} numbers; it is one, or has {rank} or {2 * rank}")
    return values if len(values) == 2 * rank else values * 2


def per_axis(value: Any, rank: int) -> Any:
    """One number as a number for each of ``rank`` axes; anything else as it is."""
    return (value,) * rank if isinstance(value, int) else value
