"""Discrete Fourier transforms as matrices, whatever their length.

Signals in networks are short: a matrix takes more arithmetic than the fast transform, at many times its
speed.
"""

from typing import Any

import numpy as np

LARGEST_MATRIX = 1 << 24
"""Numbers in the matrix of a transform that is compiled."""


def matrix_shape(
    extent: int, parts: int, length: int, *, inverse: bool, onesided: bool
) -> tuple[int, int, int, int]:
    """The shape that :func:`transform_matrix` has for the same arguments."""
    results = length if inverse or not onesided else length // 2 + 1
    return extent, parts, results, 1 if inverse and onesided else 2


def transform_matrix(extent: int, parts: int, length: int, *, inverse: bool, onesided: bool) -> Any:
    """float64 [extent, parts, results, parts of results], of a transform of ``length`` places.

    The first ``extent`` of these are given, the others zeros; ``parts`` is 1 for real numbers and 2 for
    complex ones, whose real part is the first. The inverse is divided by ``length``.
    """
    unit = np.eye(extent)
    if inverse and onesided:
        return np.stack([np.fft.irfft(unit, length), np.fft.irfft(1j * unit, length)], 1)[..., None]
    transform = np.fft.ifft if inverse else np.fft.rfft if onesided else np.fft.fft
    of_real = transform(unit, length)
    columns = [of_real, 1j * of_real][:parts]
    return np.stack([np.stack([column.real, column.imag], -1) for column in columns], 1)
