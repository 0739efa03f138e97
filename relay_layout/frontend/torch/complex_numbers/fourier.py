"""PyTorch's discrete Fourier transforms: products with the matrices of the transforms, one axis at a time."""

from collections.abc import Callable, Sequence
from math import isqrt, pi
from typing import Any

import torch
from torch import Tensor

from relay_layout.errors import ModelError
from relay_layout.frontend.operators.fourier import LARGEST_MATRIX, matrix_shape, transform_matrix
from relay_layout.frontend.torch.complex_numbers.arithmetic import conjugate, multiply, polar
from relay_layout.frontend.torch.complex_numbers.pair import Operand, Pair, as_pair, parts
from relay_layout.frontend.torch.rules.rule import aten

_LIBRARY = torch.library.Library("relay_layout_fourier", "FRAGMENT")
_LIBRARY.define("matrix(int extent, int parts, int length, bool inverse, bool onesided) -> Tensor")


def _computed(extent: int, parts: int, length: int, inverse: bool, onesided: bool) -> Tensor:
    return torch.from_numpy(transform_matrix(extent, parts, length, inverse=inverse, onesided=onesided))


_LIBRARY.impl("matrix", _computed, "CompositeExplicitAutograd")


def _shape(extent: int, parts: int, length: int, inverse: bool, onesided: bool) -> Tensor:
    shape = matrix_shape(extent, parts, length, inverse=inverse, onesided=onesided)
    return torch.empty(shape, dtype=torch.float64)


torch.library.register_fake("relay_layout_fourier::matrix", _shape)


def matrix(extent: int, parts: int, length: int, *, inverse: bool, onesided: bool) -> Tensor:
    """:func:`.transform_matrix` as a constant that folding computes; not divided by the length.

    float64 [parts of results, results, parts, extent].
    """
    found = torch.ops.relay_layout_fourier.matrix(extent, parts, length, inverse, onesided)
    return (found * length if inverse else found).permute(3, 2, 1, 0)


def _along(
    value: Operand, dim: int, length: int, scale: float, *, inverse: bool = False, onesided: bool = False
) -> Operand:
    """The transform along one axis; real where it is inverse and one-sided."""
    real, imaginary = parts(value)
    extent = real.shape[dim]
    if not isinstance(extent, int):
        raise ModelError(
            f"a Fourier transform along axis {dim}, which is open, is not supported; give it a length"
        )
    count = 1 if imaginary is None else 2
    ends, results, *_ = (*matrix_shape(extent, count, length, inverse=inverse, onesided=onesided)[:1:-1],)
    if extent * count * results * ends > LARGEST_MATRIX:
        return _split(as_pair(value), dim, length, scale, inverse=inverse, onesided=onesided)
    rows = [part.movedim(dim, -1) for part in (real, imaginary)[:count]]
    weight = matrix(extent, count, length, inverse=inverse, onesided=onesided) * scale
    weight = weight.reshape(ends * results, count * extent).to(real.dtype)
    product = torch.matmul(torch.cat(rows, -1) if count > 1 else rows[0], weight.transpose(0, 1))
    found = [part.movedim(-1, dim) for part in product.split(results, -1)]
    return found[0] if ends == 1 else Pair(*found)


def _split(value: Pair, dim: int, length: int, scale: float, *, inverse: bool, onesided: bool) -> Operand:
    """A long transform by those of two factors of its length, with roots of unity between them."""
    extent = value.shape[dim]
    rows = Pair(value.real.movedim(dim, -1), value.imaginary.movedim(dim, -1))
    if inverse and onesided:
        # The other half mirrors this one, whose ends are real.
        inner = _each(rows, lambda part: part.narrow(-1, 1, (length - 1) // 2).flip(-1))
        ends = torch.ones(extent, dtype=rows.real.dtype)
        ends = torch.where((torch.arange(extent) * 2) % length == 0, 0.0, ends)
        whole = Pair(rows.real, rows.imaginary * ends)
        mirrored = conjugate(inner)
        rows = Pair(
            torch.cat([whole.real, mirrored.real], -1), torch.cat([whole.imaginary, mirrored.imaginary], -1)
        )
    first = next(factor for factor in range(isqrt(length), 0, -1) if length % factor == 0)
    second = length // first
    if first == 1:
        raise ModelError(
            f"a Fourier transform of {length} elements, a prime number of them, is not supported; give it "
            "another length"
        )
    outer = tuple(rows.shape[:-1])
    folded = _each(rows, lambda part: part.reshape(*outer, first, second))
    turns = torch.outer(torch.arange(first), torch.arange(second)).to(torch.float64)
    root = polar(torch.ones_like(turns), turns * ((2 if inverse else -2) * pi / length))
    root = _each(root, lambda part: part.to(rows.real.dtype))
    columns = as_pair(_along(folded, folded.ndim - 2, first, scale, inverse=inverse))
    turned = multiply(columns, root)
    found = as_pair(_along(turned, turned.ndim - 1, second, 1.0, inverse=inverse))
    found = _each(found, lambda part: part.transpose(-1, -2).reshape(*outer, length))
    if onesided and not inverse:
        found = _each(found, lambda part: part.narrow(-1, 0, length // 2 + 1))
    found = _each(found, lambda part: part.movedim(-1, dim))
    return found.real if onesided and inverse else found


def _each(value: Pair, operation: Callable[[Tensor], Tensor]) -> Pair:
    return Pair(operation(value.real), operation(value.imaginary))


def _scale(length: int, normalization: int) -> float:
    """What results along an axis are multiplied by: 1 is by the root of the length, 2 by the length."""
    return float(length) ** {0: 0.0, 1: -0.5, 2: -1.0}[normalization]


def _complex(value: Pair, dims: Sequence[int], normalization: int, forward: bool) -> Pair:
    """``_fft_c2c``."""
    for dim in dims:
        length = value.shape[dim]
        scale = _scale(_known(length, dim), normalization)
        value = as_pair(_along(value, dim % value.ndim, length, scale, inverse=not forward))
    return value


def _of_real(value: Tensor, dims: Sequence[int], normalization: int, onesided: bool) -> Pair:
    """``_fft_r2c``."""
    *others, last = dims
    scale = _scale(_known(value.shape[last], last), normalization)
    found = as_pair(_along(value, last % value.ndim, value.shape[last], scale, onesided=onesided))
    return _complex(found, others, normalization, forward=True)


def _to_real(value: Operand, dims: Sequence[int], normalization: int, length: int) -> Tensor:
    """``_fft_c2r``."""
    *others, last = dims
    found = _complex(as_pair(value), others, normalization, forward=False)
    scale = _scale(_known(length, last), normalization)
    result = _along(found, last % found.ndim, length, scale, inverse=True, onesided=True)
    assert isinstance(result, Tensor)
    return result


def _known(length: Any, dim: int) -> int:
    if not isinstance(length, int):
        raise ModelError(
            f"a Fourier transform along axis {dim}, which is open, is not supported; give it a length"
        )
    return length


RULES: dict[Any, Callable[..., Any]] = {
    aten._fft_c2c.default: _complex,
    aten._fft_c2r.default: _to_real,
    aten._fft_r2c.default: _of_real,
}
"""By operation: functions of its arguments, with a Pair for every complex tensor."""
