"""Functions of one byte: what operators element by element make of a quantized tensor.

A byte has 256 values, and so have its sigmoid, and all that is computed of both. Where such a chain is
quantized again, however long, its integers are looked up in a table that is computed when compiling.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special
from tvm import relax

from relay_layout.constant_arithmetic import ELEMENTWISE, Compute, in_double, plain
from relay_layout.ir import Emit, Expression, operator_name, with_attributes
from relay_layout.quantization.lookup import VALUES, lookup
from relay_layout.quantization.reals import Quantization

EVERY_BYTE = np.arange(VALUES, dtype="uint8")


@dataclass(frozen=True)
class ByteTable:
    """``integers`` of uint8 for the 256 values of ``data``, a tensor of uint8, rearranged by ``moves``.

    Each of these is applied to the result of the one before: looks into tables come first, where they join
    what computes the bytes.
    """

    data: Expression
    integers: np.ndarray
    moves: tuple[relax.Call, ...] = ()

    def looked_up(self, emit: Emit) -> Expression:
        """The integers, of the shape that the moves give."""
        result = emit(lookup(self.data, self.integers))
        for move in self.moves:
            result = emit(with_attributes(move, [result, *move.args[1:]]))
        return result


@dataclass(frozen=True)
class ByteFunction:
    """``values`` of float32 for the 256 values of ``data``; see :class:`ByteTable`."""

    data: Expression
    values: np.ndarray
    moves: tuple[relax.Call, ...] = ()

    def moved(self, call: relax.Call) -> "ByteFunction":
        """The same, rearranged."""
        return replace(self, moves=(*self.moves, call))

    def is_of(self, other: "ByteFunction") -> bool:
        """Are both of the same bytes, in the same places?"""
        same = self.data.same_as(other.data) and len(self.moves) == len(other.moves)
        return same and all(map(relax.Call.same_as, self.moves, other.moves))

    def quantized(self, quantization: Quantization) -> ByteTable:
        """The integers of the values: held, and halves rounded to even; the least for what is no number."""
        limits = np.iinfo(quantization.dtype)
        point = quantization.zero_point.reshape(())
        with np.errstate(over="ignore", invalid="ignore"):
            steps = self.values / quantization.scale.reshape(())
        held = np.fmin(np.fmax(steps, np.float32(limits.min - point)), np.float32(limits.max - point))
        integers = np.asarray(np.rint(held) + point, quantization.dtype)
        return ByteTable(self.data, integers, self.moves)


def applied(call: relax.Call, operands: Sequence[ByteFunction | float | None]) -> ByteFunction | None:
    """What an operator makes of functions of the same bytes and of numbers; None where that is no such.

    ``operands`` are those of the call, which reads bounds that are no tensors itself.
    """
    compute = _FUNCTIONS.get(operator_name(call))
    functions = [operand for operand in operands if isinstance(operand, ByteFunction)]
    if compute is None or not functions or None in operands:
        return None
    if not all(function.is_of(functions[0]) for function in functions):
        return None
    given = [
        operand.values if isinstance(operand, ByteFunction) else np.float32(operand)
        for argument, operand in zip(call.args, operands, strict=True)
        if operand is not None and isinstance(argument.ty, relax.TensorType)
    ]
    with np.errstate(all="ignore"):
        values = compute(call, *given)
    return replace(functions[0], values=np.asarray(values, "float32"))


def _leaky(call: relax.Call, value: np.ndarray) -> np.ndarray:
    return np.where(value > 0, value, value * np.float32(call.attrs.alpha))


def _gelu(value: np.ndarray) -> np.ndarray:
    return value * special.ndtr(value)


def _gelu_tanh(value: np.ndarray) -> np.ndarray:
    return 0.5 * value * (1 + np.tanh(np.sqrt(2 / np.pi) * (value + 0.044715 * value**3)))


_FUNCTIONS: dict[str, Compute] = {
    **ELEMENTWISE,
    "ceil": plain(np.ceil),
    "cos": in_double(np.cos),
    "erf": in_double(special.erf),
    "floor": plain(np.floor),
    "log": in_double(np.log),
    "nn.gelu": in_double(_gelu),
    "nn.gelu_tanh": in_double(_gelu_tanh),
    "nn.leakyrelu": _leaky,
    "nn.silu": in_double(lambda value: value * special.expit(value)),
    "round": plain(np.rint),
    "sin": in_double(np.sin),
}
"""Operators of Relax, on numbers of float32."""
