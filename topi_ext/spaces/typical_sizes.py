"""How much work tiles of a static size repeat on images of dynamic size, on average."""

from math import ceil

SCALES = (1, 1, 8 / 7, 9 / 7, 10 / 7, 12 / 7, 2)
"""Image sizes averaged over, relative to the typical one: for 224 these are 224 twice, 256, 288, ... 448."""


def overrun(extent: int, tile: int) -> float:
    """The average, over sizes around ``extent``, of computed over existing elements, in tiles of ``tile``.

    Relative to the same ratio at ``extent`` itself.
    """
    sizes = [max(1, round(extent * scale)) for scale in SCALES]
    ratios = [_computed_ratio(size, tile) for size in sizes]
    return sum(ratios) / len(ratios) / _computed_ratio(extent, tile)


def _computed_ratio(extent: int, tile: int) -> float:
    """Elements that tiles compute, over ``extent``; at least 1, as the last tile overlaps the one before."""
    return ceil(extent / tile) * tile / extent
