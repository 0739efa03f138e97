"""A complex tensor as two real ones."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor


@dataclass(frozen=True)
class Pair:
    """The real and the imaginary part of a complex tensor, of one shape and type.

    While rules are computed they are tensors; in a program that has been rewritten they are its nodes.
    """

    real: Any
    imaginary: Any

    @property
    def shape(self) -> Any:
        """The shape of either part."""
        return self.real.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.real.shape)


Operand: TypeAlias = Pair | Tensor | complex
"""What an operation of complex numbers is given; numbers of Python may be real."""

REAL_TYPES = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}
"""The type of both parts, by that of complex tensors."""


def parts(value: Operand) -> tuple[Any, Any]:
    """The real and the imaginary part; None is an imaginary part of zero."""
    if isinstance(value, Pair):
        return value.real, value.imaginary
    if isinstance(value, complex):
        return value.real, value.imag or None
    return value, None


def paired(real: Tensor, imaginary: Tensor | None) -> Pair:
    """A pair of parts that broadcast against one another; None is an imaginary part of zeros."""
    if not real.is_floating_point():
        real = real.to(torch.get_default_dtype() if imaginary is None else imaginary.dtype)
    if imaginary is None:
        return Pair(real, torch.zeros_like(real))
    if [*map(str, real.shape)] != [*map(str, imaginary.shape)]:
        real, imaginary = torch.broadcast_tensors(real, imaginary)
    return Pair(real, imaginary)


def as_pair(value: Operand) -> Pair:
    """Complex numbers of a tensor, or of a number, which becomes a tensor without dimensions."""
    if isinstance(value, Pair):
        return value
    if isinstance(value, Tensor):
        return paired(value, None)
    number = complex(value)
    real, imaginary = (
        torch.full((), part, dtype=torch.get_default_dtype()) for part in (number.real, number.imag)
    )
    return Pair(real, imaginary)
