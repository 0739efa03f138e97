"""Transposed convolutions as convolutions: one for each phase of the result, stacked as output channels.

With stride s, the elements of the result whose position (counted from before the padding) is r modulo s are
a convolution of the data with every s-th tap from the r-th on. The convolutions of all r have the same
window, so that one convolution with s times the outputs makes them all; a copy then moves phases into place.
"""

from dataclasses import dataclass, replace
from typing import Any

from relay_layout.ir import Extent, ints
from relay_layout.layout import Layout
from relay_layout.ops import ConvolutionLayouts
from relay_layout.targets.convolutions import TRANSPOSED_CONVOLUTIONS, Convolution, fitting_layouts

LARGEST_BLOCK = 16
"""Channels in a block of the phases of a result that has channels first; fewer where it does not divide."""


@dataclass(frozen=True)
class PhaseAxis:
    """One spatial axis: for each phase a convolution of ``window`` taps, padded by ``before`` and ``after``.

    Of data of extent n, a phase has ``n + grown`` elements and the result ``n * stride + beyond``. Element p
    of the result is in phase ``(p + skipped) % stride``, at ``(p + skipped) // stride``. Phases from
    ``phases`` on have no tap, and are zero.
    """

    stride: int
    phases: int
    window: int
    before: int
    after: int
    skipped: int
    grown: int
    beyond: int

    @property
    def is_identity(self) -> bool:
        """Whether the only phase is the result."""
        return self.stride == 1 and self.skipped == 0 and self.grown == self.beyond


@dataclass(frozen=True)
class Phases:
    """The convolution that makes all phases, and its window; ``axes`` say where the phases go.

    Output channel ``phase * out_channels + o`` is channel o of a phase, phases counted with the last axis
    fastest. ``layouts.out`` may differ from the layout of the result. ``padding`` lists all that is before,
    then all that is after, and is nowhere negative.
    """

    convolution: Convolution
    layouts: ConvolutionLayouts
    axes: tuple[PhaseAxis, ...]
    out_channels: int
    dilation: tuple[int, ...]

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
    def needs_copy(self) -> bool:
        """Whether the stacked phases are not the result itself."""
        return not all(axis.is_identity for axis in self.axes)


def phases_of(convolution: Convolution, attributes: Any, data: str, out: str) -> Phases | None:
    """A transposed convolution from layout ``data`` to ``out`` as phases.

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
    phases = Phases(stacked, layouts, axes, convolution.out_channels, tuple(dilation))
    if out == stacked.channels_first and phases.needs_copy:
        # The copy interleaves pixels in any case, and convolutions are faster with vectors of channels.
        blocked = fitting_layouts(stacked, data, f"{out}{LARGEST_BLOCK}c")
        return replace(phases, layouts=blocked)
    return phases


def _axis(kernel: int, stride: int, dilation: int, before: int, after: int) -> PhaseAxis:
    """``after`` is what the result leaves out there, negative where it is longer."""
    span = dilation * (kernel - 1)
    window = -(-kernel // stride)
    reach = dilation * (window - 1)
    # More padding than the window reaches would be a crop of the data; the copy leaves it out instead.
    front = max(0, reach - before // stride)
    back = max(0, (span - after) // stride)
    return PhaseAxis(
        stride,
        min(stride, kernel),
        window,
        front,
        back,
        skipped=before - stride * (reach - front),
        grown=front + back - reach,
        beyond=span + 1 - stride - before - after,
    )


def _is_tiled(stacked: Convolution, layout: str) -> bool:
    """Whether tiled kernels take data in ``layout``: channels first, last, or first in blocks."""
    block = Layout.parse(layout).block("C")
    first = f"{stacked.channels_first}{block}c" if block > 1 else stacked.channels_first
    return layout in (first, stacked.channels_last)
