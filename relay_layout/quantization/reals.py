"""Real numbers as quantized tensors stand for them: sums of scaled integers, apart from their arithmetic.

Scales and zero points are numpy arrays that broadcast to their tensor, so that a quantization axis is a
dimension like any other, which layouts may move and block.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax

from relay_layout.ir import (
    Constant,
    Emit,
    Expression,
    along_axis,
    constant,
    constant_array,
    dtype_of,
    shape_of,
)

SHIFT = 128
"""From int8 to uint8, in which integers are computed: kernels multiply bytes without signs by bytes with."""


_BYTE = np.iinfo("int8")


def fits_int8(array: np.ndarray) -> bool:
    """Are all elements numbers of int8? An array without elements has no others."""
    return bool(array.min(initial=0) >= _BYTE.min and array.max(initial=0) <= _BYTE.max)


@dataclass(frozen=True)
class Quantization:
    """``real = (integer - zero_point) * scale``, with arrays that broadcast to a tensor of ``dtype``."""

    scale: np.ndarray
    zero_point: np.ndarray
    dtype: str

    @property
    def is_per_tensor(self) -> bool:
        return self.scale.size == 1 and self.zero_point.size == 1

    @property
    def unsigned(self) -> "Quantization":
        """The quantization of the same numbers as uint8, for one of 8 bits."""
        if self.dtype != "int8":
            return self
        return replace(self, zero_point=self.zero_point + np.int32(SHIFT), dtype="uint8")

    def quantized(self, real: float) -> np.ndarray:
        """The integers for a number, not saturated; halves to even."""
        with np.errstate(over="ignore"):
            return np.rint(np.float32(real) / self.scale) + self.zero_point


def quantization_of(call: relax.Call) -> Quantization | None:
    """What a call of quantize or dequantize says; None where its scales are no positive constants."""
    data, scale, zero_point = call.args
    if not isinstance(scale, Constant) or not isinstance(zero_point, Constant):
        return None
    scales = constant_array(scale).astype("float32")
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        return None
    rank = len(shape_of(data) or ())
    axis = int(call.attrs.axis) % max(rank, 1)
    arrays = [along_axis(array, axis, rank) for array in (scales, constant_array(zero_point).astype("int32"))]
    integers = call if dtype_of(data).startswith("float") else data
    return Quantization(arrays[0], arrays[1], dtype_of(integers))


@dataclass(frozen=True)
class Term:
    """``(tensor - zero_point) * scale`` of an integer tensor, an expression or a constant array."""

    tensor: Expression
    scale: np.ndarray
    zero_point: np.ndarray

    @property
    def is_per_tensor(self) -> bool:
        return self.scale.size == 1 and self.zero_point.size == 1

    @property
    def array(self) -> np.ndarray | None:
        """The integers, where they are constant."""
        return constant_array(self.tensor) if isinstance(self.tensor, Constant) else None

    def centred(self, emit: Emit) -> Expression:
        """``tensor - zero_point`` as float32."""
        if dtype_of(self.tensor) == "int32":
            # Exact, where float32 might not hold the two sides.
            tensor = self.tensor
            if self.zero_point.any():
                tensor = emit(relax.op.subtract(tensor, constant(self.zero_point)))
            return emit(relax.op.astype(tensor, "float32"))
        value = emit(relax.op.astype(self.tensor, "float32"))
        if self.zero_point.any():
            value = emit(relax.op.subtract(value, constant(self.zero_point.astype("float32"))))
        return value


@dataclass(frozen=True)
class Real:
    """The sum of ``terms`` and of an ``addend``, held between ``low`` and ``high``."""

    terms: tuple[Term, ...]
    addend: np.ndarray | None = None
    low: float = -np.inf
    high: float = np.inf

    @property
    def is_bounded(self) -> bool:
        return self.low > -np.inf or self.high < np.inf

    @property
    def term(self) -> Term | None:
        """The one term that this is."""
        plain = len(self.terms) == 1 and self.addend is None and not self.is_bounded
        return self.terms[0] if plain else None

    def within(self, low: float, high: float) -> "Real":
        """The same, held between these numbers as well."""
        held = [min(max(bound, low), high) for bound in (self.low, self.high)]
        return replace(self, low=held[0], high=held[1])

    def plus(self, other: "Real") -> "Real | None":
        """The sum, of two without bounds."""
        if self.is_bounded or other.is_bounded:
            return None
        addends = [real.addend for real in (self, other) if real.addend is not None]
        return Real(self.terms + other.terms, sum(addends[1:], addends[0]) if addends else None)

    def value(self, emit: Emit) -> Expression:
        """The number in float32, as dequantizing the tensors gives it."""
        total = self._total(emit, np.float32(1))
        if self.low > -np.inf:
            total = emit(relax.op.maximum(total, constant(np.array(self.low, "float32"))))
        if self.high < np.inf:
            total = emit(relax.op.minimum(total, constant(np.array(self.high, "float32"))))
        return total

    def quantized(self, quantization: Quantization, emit: Emit) -> Expression:
        """The integers of ``quantization``, of which halves are rounded to even.

        Each term is multiplied by its scale over the result's, once. The sum of two tensors of uint8 starts
        from what their zero points come to, as ONNX Runtime's QLinearAdd does, and equals it to the bit
        where the processor multiplies and adds in one step.
        """
        limits = np.iinfo(quantization.dtype)
        low = np.clip(quantization.quantized(self.low), limits.min, limits.max)
        high = np.clip(quantization.quantized(self.high), limits.min, limits.max)
        term = self.terms[0]
        same = (
            len(self.terms) == 1
            and self.addend is None
            and dtype_of(term.tensor) == quantization.dtype
            and np.array_equal(term.scale, quantization.scale)
            and np.array_equal(term.zero_point, quantization.zero_point)
        )
        if same and (low == limits.min).all() and (high == limits.max).all():
            return term.tensor
        if self._is_sum_of_bytes and quantization.dtype == "uint8" and quantization.is_per_tensor:
            total = self._sum_of_bytes(emit, quantization)
            return from_steps(total, replace(quantization, zero_point=np.int32(0)), emit, low, high)
        total = self._total(emit, quantization.scale)
        return from_steps(total, quantization, emit, low, high)

    @property
    def _is_sum_of_bytes(self) -> bool:
        bytes_only = all(dtype_of(term.tensor) == "uint8" and term.is_per_tensor for term in self.terms)
        return len(self.terms) == 2 and self.addend is None and bytes_only

    def _sum_of_bytes(self, emit: Emit, quantization: Quantization) -> Expression:
        """The sum in steps of the result, its zero point included."""
        left, right = self.terms
        ratios = [_float32(term.scale / quantization.scale).reshape(()) for term in self.terms]
        points = [
            float(array.reshape(())) for array in (left.zero_point, right.zero_point, quantization.zero_point)
        ]
        # In float64 the product is exact, so that this is rounded once, as a fused multiply-add is.
        shift = np.float32(
            float(ratios[0]) * points[0] + float(np.float32(ratios[1] * np.float32(points[1])))
        )
        total: Expression = constant(_float32(np.float32(points[2]) - shift))
        for term, ratio in ((right, ratios[1]), (left, ratios[0])):
            value = emit(relax.op.astype(term.tensor, "float32"))
            total = emit(relax.op.add(emit(relax.op.multiply(value, constant(ratio))), total))
        return total

    def _total(self, emit: Emit, unit: np.ndarray) -> Expression:
        """The sum in multiples of ``unit``."""
        total = None
        for term in self.terms:
            scaled = emit(relax.op.multiply(term.centred(emit), constant(_float32(term.scale / unit))))
            total = scaled if total is None else emit(relax.op.add(total, scaled))
        if self.addend is not None:
            total = emit(relax.op.add(total, constant(_float32(self.addend / unit))))
        return total


def from_steps(
    steps: Expression, quantization: Quantization, emit: Emit, low: np.ndarray, high: np.ndarray
) -> Expression:
    """Integers from numbers of steps: held between the integers ``low`` and ``high``, and rounded."""
    zero_point = quantization.zero_point.astype("float32")
    bounds = [_float32(bound - quantization.zero_point) for bound in (low, high)]
    held = emit(relax.op.maximum(steps, constant(bounds[0])))
    held = emit(relax.op.minimum(held, constant(bounds[1])))
    rounded = emit(relax.op.round(held))
    if zero_point.any():
        rounded = emit(relax.op.add(rounded, constant(zero_point)))
    return emit(relax.op.astype(rounded, quantization.dtype))


def shifted(integers: Expression, emit: Emit) -> Expression:
    """int8 as uint8, each by SHIFT more."""
    return _moved(integers, relax.op.add, "uint8", emit)


def unshifted(integers: Expression, emit: Emit) -> Expression:
    """uint8 as int8, each by SHIFT less."""
    return _moved(integers, relax.op.subtract, "int8", emit)


def _moved(integers: Expression, move: Callable[..., Expression], dtype: str, emit: Emit) -> Expression:
    wide = emit(relax.op.astype(integers, "int16"))
    return relax.op.astype(emit(move(wide, constant(np.array(SHIFT, "int16")))), dtype)


def _float32(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, "float32")
