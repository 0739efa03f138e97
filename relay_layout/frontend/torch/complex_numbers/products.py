"""PyTorch's matrix products and convolutions of complex numbers, by those of their parts."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.complex_numbers.arithmetic import add, multiply
from relay_layout.frontend.torch.complex_numbers.pair import Operand, Pair, as_pair, paired, parts
from relay_layout.frontend.torch.rules.rule import aten

Bilinear = Callable[[Tensor, Tensor], Tensor]


def bilinear(operation: Bilinear, left: Operand, right: Operand) -> Pair:
    """A product of complex tensors by that of real ones, four of them where both are complex."""
    (a, b), (c, d) = parts(left), parts(right)
    if d is None:
        return Pair(operation(a, c), operation(b, c))
    if b is None:
        return Pair(operation(a, c), operation(a, d))
    return Pair(operation(a, c) - operation(b, d), operation(a, d) + operation(b, c))


def _product(operation: Bilinear) -> Callable[[Operand, Operand], Pair]:
    return lambda left, right: bilinear(operation, left, right)


def _sum_with_product(operation: Bilinear) -> Callable[..., Pair]:
    def rule(
        addend: Operand, left: Operand, right: Operand, *, beta: complex = 1, alpha: complex = 1
    ) -> Pair:
        found = bilinear(operation, left, right) if _is_complex(left, right) else operation(left, right)
        found = found if alpha == 1 else multiply(found, alpha)
        # Of beta 0 the addend is ignored, whatever it is.
        return add(found, addend, alpha=beta) if beta != 0 else as_pair(found)

    return rule


def _is_complex(*values: Operand) -> bool:
    return any(isinstance(value, Pair) for value in values)


def _convolution(
    data: Operand, weight: Operand, bias: Operand | None, stride: Sequence[int], *further: Any
) -> Pair:
    def convolve(image: Tensor, kernel: Tensor) -> Tensor:
        return aten.convolution.default(image, kernel, None, stride, *further)

    found = (
        bilinear(convolve, data, weight)
        if _is_complex(data, weight)
        else paired(convolve(data, weight), None)
    )
    if bias is None:
        return found
    shape = (1, -1, *[1] * (found.ndim - 2))
    real, imaginary = parts(bias)
    shaped = real.reshape(shape) if imaginary is None else Pair(real.reshape(shape), imaginary.reshape(shape))
    return add(found, shaped)


RULES: dict[Any, Callable[..., Any]] = {
    aten.addmm.default: _sum_with_product(torch.mm),
    aten.baddbmm.default: _sum_with_product(torch.bmm),
    aten.bmm.default: _product(torch.bmm),
    aten.convolution.default: _convolution,
    aten.mm.default: _product(torch.mm),
}
"""By operation: functions of its arguments, with a Pair for every complex tensor."""
