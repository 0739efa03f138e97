"""Regions of an image averaged to bins of one size, as Mask R-CNN (He et al., 2017) aligns them."""

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, vectors, written


@dataclass(frozen=True)
class Bins:
    """How a region is divided: into ``size`` (rows, columns) bins of ``samples`` by ``samples`` places each.

    Corners are multiplied by ``scale``. Without ``samples`` (0 or less) a bin has one to a pixel of either
    side. Unless ``aligned``, a region is a pixel long and wide at least.
    """

    size: tuple[int, int]
    scale: float
    samples: int
    aligned: bool


def averaged_regions(pixels: te.Tensor, regions: te.Tensor, bins: Bins, *, channels_last: bool) -> te.Tensor:
    """The mean of each bin of each region, float32: (K, rows, columns, C), or (K, C, rows, columns).

    ``pixels`` is (N, H, W, C) of float32, ``regions`` (K, 5) of float32: the number of an image, then columns
    and rows of two corners. A place between pixels is interpolated between the four around it; further out
    than one pixel it is zero.

    All channels share what a place comes to, and vectors of channels read its pixels.
    """
    images, height, width, channels = pixels.shape
    rows, columns = bins.size
    count = regions.shape[0]
    shape = (count, rows, columns, channels) if channels_last else (count, channels, rows, columns)

    def average(pixels: Any, regions: Any, result: Any) -> None:
        with T.parallel(0, count) as region:
            image = variable()
            image[0] = te.max(te.min(regions[region, 0].astype("int32"), images - 1), 0)
            down = _Side(regions[region, 2], regions[region, 4], rows, height, bins)
            across = _Side(regions[region, 1], regions[region, 3], columns, width, bins)
            samples = te.max(down.samples[0] * across.samples[0], 1).astype("float32")
            with T.serial(0, rows) as row, T.serial(0, columns) as column:
                for begin, lanes in vectors(channels):
                    sums = variable("float32", lanes)
                    with T.vectorized(0, lanes) as lane:
                        sums[lane] = T.float32(0)
                    with T.serial(0, down.samples[0]) as sample:
                        down.find(row, sample)
                        with T.serial(0, across.samples[0]) as sample:
                            across.find(column, sample)
                            with T.vectorized(0, lanes) as lane:
                                sums[lane] = sums[lane] + sum(
                                    pixels[image[0], y, x, begin + lane] * (down_weight * across_weight)
                                    for y, down_weight in down.neighbours()
                                    for x, across_weight in across.neighbours()
                                )
                    with T.vectorized(0, lanes) as lane:
                        channel = begin + lane
                        inner = (row, column, channel) if channels_last else (channel, row, column)
                        place = (region, *inner)
                        result[place] = sums[lane] / samples

    return written("averaged_regions", [pixels, regions], [(shape, "float32")], average)


class _Side:
    """Rows or columns of one region: how many samples a bin has, and the pixels beside one of them."""

    def __init__(self, first: Any, last: Any, bins: int, extent: Any, options: Bins) -> None:
        self._extent = extent
        self._start, self._step = variable("float32"), variable("float32")
        self.samples = variable()
        """The samples of a bin, an array of one element."""
        self._place = variable()
        self._before, self._after = variable("float32"), variable("float32")
        self._start[0] = first * options.scale
        length = last * options.scale - self._start[0]
        if not options.aligned:
            length = te.max(length, T.float32(1))
        self._step[0] = length / T.float32(bins)
        if options.samples > 0:
            self.samples[0] = T.int32(options.samples)
        else:
            self.samples[0] = te.ceil(self._step[0]).astype("int32")

    def find(self, number: Any, sample: Any) -> None:
        """Go to a ``sample`` of the bin of that ``number``."""
        part = (sample.astype("float32") + 0.5) / self.samples[0].astype("float32")
        at, whole = variable("float32"), variable("float32")
        at[0] = self._start[0] + (number.astype("float32") + part) * self._step[0]
        extent = T.int32(self._extent) if isinstance(self._extent, int) else self._extent
        # Comparisons with a place that is no number are false: it is zero, and the pixel is one of the image.
        inside = tirx.all(at[0] >= -1, at[0] <= extent.astype("float32"))
        whole[0] = tirx.Select(inside, T.float32(1), T.float32(0))
        at[0] = te.max(te.min(at[0], (extent - 1).astype("float32")), T.float32(0))
        self._place[0] = te.floor(at[0]).astype("int32")
        self._after[0] = (at[0] - te.floor(at[0])) * whole[0]
        self._before[0] = whole[0] - self._after[0]

    def neighbours(self) -> list[tuple[Any, Any]]:
        """The pixels before and after the place, and the weight of each."""
        place = self._place[0]
        return [(place, self._before[0]), (te.min(place + 1, self._extent - 1), self._after[0])]
