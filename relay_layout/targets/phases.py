"""Transposed convolutions as convolutions: one for each phase of the result, stacked as output channels.

With stride s, the elements of the result whose position (counted from before the padding) is r modulo s are
a convolution of the data with every s-th tap from the r-th on. The convolutions of all r have the same
window, so that one convolution with s times the outputs makes them all. Its kernel stores them in place, or a
copy moves them there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from relay_layout.ir import Extent, ints, is_static
from relay_layout.layout import Layout
from relay_layout.ops import ConvolutionLayouts
from relay_layout.targets.convolutions import TRANSPOSED_CONVOLUTIONS, Convolution, fitting_layouts
from topi_ext.indexing import block_of
from topi_ext.workloads.stacked_phases import PhasesAlong, StackedPhases

LARGEST_BLOCK = 16
"""Channels in a block of the phases of a result that has channels first, which are in no blocks where it does
not divide. Of channels last, those of the largest vector."""

SMALL_IMAGE = 100
"""Pixels; with fewer, a convolution of many channels takes the time that reading its weight takes.

Measured on AVX-512 with kernels of 4x4 and stride 2: with aligned phases, an image of 4x4 pixels and 512
channels takes half longer, one of 16x16 pixels and 256 channels a quarter less.
"""


@dataclass(frozen=True)
class PhaseAxis(PhasesAlong):
    """One spatial axis: for each phase a convolution of ``window`` taps, padded by ``before`` and ``after``.

    Of data of extent n, a phase has ``n + grown`` elements and the result ``n * stride + beyond``.
    """

    window: int
    before: int
    after: int
    grown: int
    beyond: int

    @property
    def phases(self) -> int:
        """Phases that have a tap, the first ones; the others are zero."""
        return min(self.stride, self.taps)

    @property
    def is_identity(self) -> bool:
        """Whether the only phase is the result."""
        return self.stride == 1 and self.skipped == 0 and self.grown == self.beyond


@dataclass(frozen=True)
class Phases:
    """The convolution that makes all phases, and its window; ``axes`` say where the phases go.

    Output channel ``phase * out_channels + o`` is channel o of a phase, phases counted with the last axis
    fastest. ``layouts.out`` may differ from the layout of the result. ``padding`` lists all that is before,
    then all that is after, and is nowhere negative. If ``in_place``, the convolution's kernel stores phases
    where they belong, and no copy moves them.
    """

    convolution: Convolution
    layouts: ConvolutionLayouts
    axes: tuple[PhaseAxis, ...]
    out_channels: int
    dilation: tuple[int, ...]
    result_layout: str
    in_place: bool = False

    @property
    def strides(self) -> tuple[int, ...]:
        return (1,) * len(self.axes)

    @property
    def padding(self) -> tuple[int, ...]:
        return (*(axis.before for axis in self.axes), *(axis.after for axis in self.axes))

    @property
    def image(self) -> tuple[Extent, ...]:
        """Spatial extents of the stacked phases."""
        return tuple(size + axis.grown for size, axis in zip(self.convolution.image, self.axes, strict=True))

    @property
    def are_result(self) -> bool:
        """Whether there is one phase, the result itself."""
        return all(axis.is_identity for axis in self.axes)

    @property
    def stacked(self) -> StackedPhases:
        """What a kernel that stores phases in place needs to know of them."""
        return StackedPhases(self.out_channels, self.axes)


def phases_of(
    convolution: Convolution, attributes: Any, data: str, out: str, *, in_place: bool = False
) -> Phases | None:
    """A transposed convolution from layout ``data`` to ``out`` as phases.

    If ``in_place``, kernels of the target can store them where they belong, and skip taps that phases lack.
    None for groups, a dilation and a stride on one axis, and layouts that tiled kernels have not.
    """
    if convolution.groups > 1:
        return None
    rank = len(convolution.spatial)
    padding, behind = ints(attributes.padding), ints(attributes.output_padding)
    dilation, strides = ints(attributes.dilation), ints(attributes.strides)
    if any(apart > 1 and stride > 1 for apart, stride in zip(dilation, strides, strict=True)):
        return None
    axes = tuple(
        _axis(kernel, stride, apart, before, after - more)
        for kernel, stride, apart, before, after, more in zip(
            convolution.kernel,
            strides,
            dilation,
            padding[:rank],
            padding[rank:],
            behind,
            strict=True,
        )
    )
    outputs = convolution.out_channels
    for axis in axes:
        outputs *= axis.phases
    stacked = replace(
        convolution,
        operator=TRANSPOSED_CONVOLUTIONS[convolution.operator],
        out_channels=outputs,
        kernel=tuple(axis.window for axis in axes),
    )
    layouts = fitting_layouts(stacked, data, out)
    if not all(_is_tiled(stacked, side) for side in (data, out)) or (layouts.data, layouts.out) != (
        data,
        out,
    ):
        return None
    phases = Phases(stacked, layouts, axes, convolution.out_channels, tuple(dilation), out)
    if out == stacked.channels_first and not phases.are_result:
        # The copy interleaves pixels in any case, and convolutions are faster with whole vectors of channels.
        if outputs % LARGEST_BLOCK == 0:
            return replace(phases, layouts=fitting_layouts(stacked, data, f"{out}{LARGEST_BLOCK}c"))
        return phases
    if in_place and not phases.are_result and _has_whole_vectors(phases):
        return _stored_in_place(phases, padding[:rank])
    return phases


def _has_whole_vectors(phases: Phases) -> bool:
    """Whether images have a known size, and each vector of channels is in one phase: in one place there."""
    block = block_of(phases.layouts.out, "C")
    vector = block if block > 1 else LARGEST_BLOCK
    whole = phases.out_channels % vector == 0 and all(axis.phases == axis.stride for axis in phases.axes)
    return whole and is_static(phases.convolution.image)


def _stored_in_place(phases: Phases, before: Sequence[int]) -> Phases:
    """The same with aligned axes, unless they enlarge the weight of a :data:`SMALL_IMAGE`."""
    axes = tuple(map(_aligned, phases.axes, before))
    enlarged = any(one.window > other.window for one, other in zip(axes, phases.axes, strict=True))
    if enlarged and prod(phases.convolution.image) < SMALL_IMAGE:
        return replace(phases, in_place=True)
    convolution = replace(phases.convolution, kernel=tuple(axis.window for axis in axes))
    return replace(phases, convolution=convolution, axes=axes, in_place=True)


def _axis(kernel: int, stride: int, dilation: int, before: int, after: int) -> PhaseAxis:
    """The smallest window; ``after`` is what the result leaves out there, negative where it is longer."""
    span = dilation * (kernel - 1)
    window = -(-kernel // stride)
    reach = dilation * (window - 1)
    # More padding than the window reaches would be a crop of the data; the copy leaves it out instead.
    front = max(0, reach - before // stride)
    back = max(0, (span - after) // stride)
    return PhaseAxis(
        stride=stride,
        skipped=before - stride * (reach - front),
        taps=kernel,
        first=stride * (window - 1),
        window=window,
        before=front,
        after=back,
        grown=front + back - reach,
        beyond=span + 1 - stride - before - after,
    )


def _aligned(axis: PhaseAxis, before: int) -> PhaseAxis:
    """The same with a phase for each remainder of places in the result, of which none is skipped.

    The window may be larger than each phase has taps for. The axis itself where data would be cropped,
    and without a stride.
    """
    stride = axis.stride
    if stride == 1:
        return axis
    low, high = -((axis.taps - 1 - before) // stride), (stride - 1 + before) // stride
    window, grown = high - low + 1, -(-axis.beyond // stride)
    behind = grown + window - 1 + low
    if low > 0 or behind < 0:
        return axis
    return replace(
        axis,
        first=before - stride * low,
        window=window,
        before=-low,
        after=behind,
        skipped=0,
        grown=grown,
    )


def _is_tiled(stacked: Convolution, layout: str) -> bool:
    """Whether tiled kernels take data in ``layout``: channels first, last, or first in blocks."""
    block = Layout.parse(layout).block("C")
    first = f"{stacked.channels_first}{block}c" if block > 1 else stacked.channels_first
    return layout in (first, stacked.channels_last)
