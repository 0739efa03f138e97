"""What tiles of a fixed size waste on images of any size."""

from math import ceil

SCALES = (1, 1, 8 / 7, 9 / 7, 10 / 7, 12 / 7, 2)
"""Sizes of images over the usual one, which counts twice: of 224 pixels 256, 288, 320, 384 and 448."""


def overrun(extent: int, tile: int) -> float:
    """Elements that tiles of ``tile`` compute, over those that there are, at sizes around ``extent``.

    It is over what the tiles compute of ``extent`` itself.
    """
    sizes = [max(1, round(extent * scale)) for scale in SCALES]
    shares = [_share(size, tile) for size in sizes]
    return sum(shares) / len(shares) / _share(extent, tile)


def _share(extent: int, tile: int) -> float:
    return ceil(extent / tile) * tile / extent


__all__ = ["overrun"]
