"""Sliding windows: kernel, strides, dilation and padding, and what each element of one reads of an image."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from tvm import relax

from relay_layout.frontend.extents.arithmetic import simplify
from relay_layout.ir import Emit, Expression, Extent, is_static, shape_of


@dataclass(frozen=True)
class Window:
    """One entry per spatial dimension; padding before and after it, which open extents may decide."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[Extent, ...]
    after: tuple[Extent, ...]

    @property
    def padding(self) -> list[Extent]:
        """Padding as Relax and ONNX write it: all that comes before, then all that comes after."""
        return [*self.before, *self.after]

    @property
    def reach(self) -> tuple[int, ...]:
        """The extent of the dilated kernel."""
        return tuple(
            dilation * (kernel - 1) + 1 for kernel, dilation in zip(self.kernel, self.dilation, strict=True)
        )

    def reaching_up(self) -> "Window":
        """This window with padding after that gives it, rounded down, as many places as it has rounded up.

        The last of them begins before that padding does.
        """
        sides = zip(self.after, self.strides, self.reach, strict=True)
        return replace(
            self, after=tuple(min(after + stride - 1, reach - 1) for after, stride, reach in sides)
        )

    def counts(self, spatial: Sequence[Extent]) -> tuple[Extent, ...]:
        """How many places the window has along each dimension of an image."""
        sides = zip(self.before, self.after, self.strides, strict=True)
        return tuple(
            (extent + before + after - reach) // stride + 1
            for extent, reach, (before, after, stride) in zip(spatial, self.reach, sides, strict=True)
        )

    def padded(self, totals: Sequence[Extent], mode: str) -> "Window":
        """This window padded by ``totals``, half on each side; the odd one comes after in SAME_UPPER only."""
        less = tuple(simplify(total // 2) for total in totals)
        more = tuple(simplify(total - half) for total, half in zip(totals, less, strict=True))
        before, after = (less, more) if mode == "SAME_UPPER" else (more, less)
        return replace(self, before=before, after=after)

    def pads(self, extents: Sequence[Extent], counts: Sequence[Extent]) -> list[tuple[int, int]]:
        """Padding before and after, so that ``counts`` windows, or more if open, fit into ``extents``.

        For a window whose padding is numbers.
        """
        found, most_after = [], self.reaching_up().after
        for axis, (extent, count) in enumerate(zip(extents, counts, strict=True)):
            if not is_static((extent, count)):
                found.append((self.before[axis], most_after[axis]))
                continue
            last = (count - 1) * self.strides[axis] + self.reach[axis]
            found.append((self.before[axis], max(0, last - extent - self.before[axis])))
        return found

    def elements(
        self, emit: Emit, image: Expression, counts: Sequence[Extent]
    ) -> tuple[list[list[int]], list[Expression]]:
        """For each element of the window, rows first: where it is, and what it reads in ``counts`` windows.

        Where it is counts from the window's corner, along each spatial dimension. ``image``, padded already,
        is (..., spatial dimensions), and so is what an element reads, with ``counts`` in their place.
        """
        rank = len(shape_of(image) or ())
        axes = list(range(rank - len(self.kernel), rank))
        offsets, parts = [], []
        for element in product(*map(range, self.kernel)):
            begin = [place * step for place, step in zip(element, self.dilation, strict=True)]
            spans = zip(begin, counts, self.strides, strict=True)
            end = [first + (count - 1) * stride + 1 for first, count, stride in spans]
            read = relax.op.strided_slice(
                image, axes, begin, end, list(self.strides), assume_inbound=not is_static(counts)
            )
            offsets.append(begin)
            parts.append(emit(read))
        return offsets, parts
