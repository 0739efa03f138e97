"""A sliding window whose padding is numbers, and the elements of an image under each of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tvm import relax

from relay_layout.ir import Emit, Expression, Extent, is_static, shape_of


@dataclass(frozen=True)
class SlidingWindow:
    """One number for each spatial dimension, which are a tensor's last.

    Padding is ``before`` and ``after``.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    dilation: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]

    def pads(self, extents: Sequence[Extent], counts: Sequence[Extent]) -> list[tuple[int, int]]:
        """Padding before and after, so that ``counts`` windows, or more if open, fit into ``extents``."""
        found = []
        for axis, (extent, count) in enumerate(zip(extents, counts, strict=True)):
            if not is_static((extent, count)):
                found.append((self.before[axis], self.most_after(axis)))
                continue
            last = (count - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1
            found.append((self.before[axis], max(0, last - extent - self.before[axis])))
        return found

    def most_after(self, axis: int) -> int:
        """Padding behind which no window begins, as a pooling has that rounds the number of windows up.

        Rounded up, they reach less than a stride beyond the padding there is, and each begins before it.
        """
        span = (self.kernel[axis] - 1) * self.dilation[axis] + 1
        return min(self.after[axis] + self.strides[axis], span) - 1

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


__all__ = ["SlidingWindow"]
