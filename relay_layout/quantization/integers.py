"""From operators between dequantize and quantize to operators on integers.

What a dequantized tensor stands for is kept as a scaled integer (:class:`.Real`) through convolutions, matrix
products, sums, bounds, means and movements, until something quantizes it or needs it as float32. Convolutions
and products accumulate int32; their zero points and biases become one constant per output channel. Quantizing
multiplies by the scales over the result's scale, once, and rounds halves to even, as ONNX Runtime does. What
other operators make of one tensor of bytes, element by element, is looked up (:class:`.ByteFunction`).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    dtype_of,
    is_static,
    operator_name,
    shape_of,
    value_of,
    with_attributes,
    with_operands,
)
from relay_layout.quantization.byte_functions import EVERY_BYTE, ByteFunction, ByteTable, applied
from relay_layout.quantization.expansions import expanded_dequantize, expanded_quantize
from relay_layout.quantization.movements import MOVEMENTS, REARRANGEMENTS, moved_constant, picks_pixels
from relay_layout.quantization.products import convolved, multiplied
from relay_layout.quantization.reals import (
    Quantization,
    Real,
    Term,
    from_steps,
    quantization_of,
    shifted,
    unshifted,
)
from topi_ext.workloads.convolution import BYTES

_MOST_BYTES = np.iinfo("int32").max // 255
"""How many bytes have a sum in int32, whatever they are."""


@mutator
class Integers(PyExprMutator):
    """Goes through the bindings in order and remembers what each real number is made of."""

    def __init__(self) -> None:
        super().__init__()
        self._reals: dict[int, Real] = {}
        self._functions: dict[int, ByteFunction] = {}
        self._tables: dict[int, ByteTable] = {}
        self._unsigned: dict[int, Expression] = {}
        self._kept: list[Expression] = []
        self._steps: dict[str, Callable[[relax.Call], Real | None]] = {
            "add": self._add,
            "clip": self._clip,
            "dequantize": self._dequantize,
            "matmul": lambda call: multiplied(
                call, self._real(call.args[0]), self._real(call.args[1]), self._emit
            ),
            "maximum": self._maximum,
            "mean": self._mean,
            "minimum": self._minimum,
            "nn.conv2d": lambda call: convolved(
                call, self._real(call.args[0]), self._real(call.args[1]), self._emit
            ),
            "nn.pad": self._pad,
            "nn.relu": lambda call: self._bounded(call, 0.0, np.inf),
            **dict.fromkeys(MOVEMENTS, self._moved),
        }

    def visit_call_(self, call: relax.Call) -> Expression:
        """The float32 value of what is made of integers, the integers of what is quantized."""
        call = self.builder_.normalize(super().visit_call_(call))
        name = operator_name(call)
        if name == "quantize":
            return self._quantize(call)
        step = self._steps.get(name)
        # Types of new calls are inferred when they are bound.
        real = None if step is None else step(call)
        if real is None and name == "dequantize":
            return expanded_dequantize(call, self._emit)
        function = self._function(call, real)
        if real is None and function is None:
            return call
        value = call if real is None else self._value(real)
        if not isinstance(value, relax.Var):
            value = self.builder_.emit(value)
        return self._remember(value, real, function)

    def _value(self, real: Real) -> Expression:
        """The float32 of a number; a constant where its integers are one."""
        array = None if real.term is None else real.term.array
        return real.value(self._emit) if array is None else constant(_dequantized(real.terms[0], array))

    def _remember(self, value: Expression, real: Real | None, function: ByteFunction | None) -> Expression:
        self._kept.append(value)
        if real is not None:
            self._reals[value.__chandle__()] = real
        if function is not None:
            self._functions[value.__chandle__()] = function
        return value

    def _function(self, call: relax.Call, real: Real | None) -> ByteFunction | None:
        """The result as one of a tensor of bytes, if it depends on one alone, element by element."""
        if operator_name(call) in REARRANGEMENTS:
            function = self._functions.get(self._origin(call.args[0]).__chandle__())
            return None if function is None else function.moved(call)
        if operator_name(call) != "dequantize":
            operands = [self._function_or_number(argument) for argument in call.args]
            found = applied(call, operands)
            return found if found is not None and self._keeps_shape(call, operands) else None
        term = None if real is None else real.term
        if term is None or term.array is not None or not term.is_per_tensor:
            return None
        if dtype_of(term.tensor) != "uint8":
            return None
        data, moves = self._before_moves(term.tensor)
        table = self._tables.get(data.__chandle__(), ByteTable(data, EVERY_BYTE))
        values = _dequantized(term, table.integers).reshape(-1)
        return ByteFunction(table.data, values, (*table.moves, *moves))

    def _before_moves(self, tensor: Expression) -> tuple[Expression, list[relax.Call]]:
        """What a tensor is a rearrangement of, and how."""
        moves: list[relax.Call] = []
        while True:
            tensor = self._origin(tensor)
            bound = value_of(self, tensor)
            if bound is None or operator_name(bound) not in REARRANGEMENTS:
                return tensor, moves
            moves.insert(0, bound)
            tensor = bound.args[0]

    @staticmethod
    def _keeps_shape(call: relax.Call, operands: Sequence[ByteFunction | float | None]) -> bool:
        pairs = zip(call.args, operands, strict=True)
        shapes = [shape_of(argument) for argument, operand in pairs if isinstance(operand, ByteFunction)]
        return all(shape == shape_of(call) for shape in shapes)

    def _function_or_number(self, argument: Expression) -> ByteFunction | float | None:
        found = self._functions.get(self._origin(argument).__chandle__())
        return _number(argument) if found is None else found

    def _emit(self, expression: Expression) -> Expression:
        return self.builder_.emit(expression)

    def _origin(self, value: Expression) -> Expression:
        """The variable that others were bound to."""
        while isinstance(value, relax.Var):
            bound = self.lookup_binding(value)
            if not isinstance(bound, relax.Var):
                return value
            value = bound
        return value

    def _real(self, value: Expression) -> Real | None:
        real = self._reals.get(self._origin(value).__chandle__())
        if real is None and isinstance(value, Constant) and dtype_of(value) == "float32":
            return Real((), constant_array(value))
        return real

    def _quantize(self, call: relax.Call) -> Expression:
        quantization = quantization_of(call)
        if quantization is None:
            return expanded_quantize(call, self._emit)
        kind = quantization.unsigned if quantization.dtype in BYTES else quantization
        table = self._table(call.args[0], kind)
        if table is None:
            integers = self._emit(self._integers(call.args[0], kind))
        else:
            integers = table.looked_up(self._emit)
            self._kept.append(integers)
            self._tables[integers.__chandle__()] = table
        if kind is quantization:
            return integers
        signed = self._emit(unshifted(integers, self._emit))
        self._kept.append(signed)
        self._unsigned[signed.__chandle__()] = integers
        return signed

    def _table(self, value: Expression, quantization: Quantization) -> ByteTable | None:
        """The bytes of a number that depends on others alone, and not as scaled integers do."""
        real, function = self._real(value), self._functions.get(self._origin(value).__chandle__())
        if function is None or (real is not None and real.terms):
            return None
        if quantization.dtype != "uint8" or not quantization.is_per_tensor:
            return None
        return function.quantized(quantization)

    def _integers(self, value: Expression, quantization: Quantization) -> Expression:
        real = self._real(value)
        if real is not None and real.terms:
            return real.quantized(quantization, self._emit)
        origin = self._origin(value)
        bound = value_of(self, origin)
        if bound is not None and operator_name(bound) == "concat" and quantization.is_per_tensor:
            operands = bound.args[0]
            if isinstance(operands, relax.Var):
                operands = self.lookup_binding(operands)
            if isinstance(operands, relax.Tuple) and any(self._real(field) for field in operands.fields):
                parts = [self._emit(self._integers(field, quantization)) for field in operands.fields]
                return with_operands(bound, [relax.Tuple(parts)])
        steps = self._emit(relax.op.divide(value, constant(quantization.scale)))
        limits = np.iinfo(quantization.dtype)
        return from_steps(steps, quantization, self._emit, np.array(limits.min), np.array(limits.max))

    def _dequantize(self, call: relax.Call) -> Real | None:
        quantization = quantization_of(call)
        if quantization is None:
            return None
        data = call.args[0]
        if quantization.dtype == "int8" and not isinstance(data, Constant):
            unsigned = self._unsigned.get(self._origin(data).__chandle__())
            data = unsigned if unsigned is not None else self._emit(shifted(data, self._emit))
            quantization = quantization.unsigned
        return Real((Term(data, quantization.scale, quantization.zero_point),))

    def _add(self, call: relax.Call) -> Real | None:
        left, right = (self._real(argument) for argument in call.args)
        if left is None or right is None or not (left.terms or right.terms):
            return None
        if shape_of(call.args[0]) != shape_of(call) and shape_of(call.args[1]) != shape_of(call):
            return None
        for real, bias in ((left, right), (right, left)):
            merged = _with_bias(real, bias)
            if merged is not None:
                return merged
        return left.plus(right)

    def _bounded(self, call: relax.Call, low: float, high: float) -> Real | None:
        real = self._real(call.args[0])
        return None if real is None or not real.terms else real.within(low, high)

    def _clip(self, call: relax.Call) -> Real | None:
        bounds = [_number(argument) for argument in call.args[1:]]
        if bounds[0] is None or bounds[1] is None:
            return None
        return self._bounded(call, bounds[0], bounds[1])

    def _maximum(self, call: relax.Call) -> Real | None:
        bound = _number(call.args[1])
        return None if bound is None else self._bounded(call, bound, np.inf)

    def _minimum(self, call: relax.Call) -> Real | None:
        bound = _number(call.args[1])
        return None if bound is None else self._bounded(call, -np.inf, bound)

    def _mean(self, call: relax.Call) -> Real | None:
        """A sum of integers, with the scale divided by how many they are."""
        term = self._one_term(call.args[0])
        shape, axes = shape_of(call.args[0]), call.attrs.axis
        if term is None or not term.is_per_tensor or shape is None or axes is None:
            return None
        extents = [shape[int(axis) % len(shape)] for axis in axes]
        if not is_static(extents) or dtype_of(term.tensor) not in BYTES:
            return None
        count = math.prod(extents)
        if not 0 < count <= _MOST_BYTES:
            return None
        wide = self._emit(relax.op.astype(term.tensor, "int32"))
        total = relax.op.sum(wide, [int(axis) for axis in axes], bool(call.attrs.keepdims))
        scale = np.asarray(term.scale / np.float32(count), "float32")
        return Real((Term(self._emit(total), scale, term.zero_point * np.int32(count)),))

    def _moved(self, call: relax.Call) -> Real | None:
        """The same movement of the integers, where one number quantizes them all."""
        term = self._one_term(call.args[0])
        if term is None or (operator_name(call) == "image.resize2d" and not picks_pixels(call)):
            return None
        if term.array is not None:
            return moved_constant(call, term)
        if not term.is_per_tensor or dtype_of(term.tensor) not in (*BYTES, "int32"):
            return None
        moved = with_attributes(call, [term.tensor, *call.args[1:]])
        return Real((Term(self._emit(moved), term.scale, term.zero_point),))

    def _pad(self, call: relax.Call) -> Real | None:
        """Zeros become zero points."""
        term = self._one_term(call.args[0])
        if (
            term is None
            or not term.is_per_tensor
            or dtype_of(term.tensor) != "uint8"
            or str(call.attrs.pad_mode) != "constant"
            or float(call.attrs.pad_value) != 0.0
        ):
            return None
        moved = with_attributes(call, [term.tensor], pad_value=float(term.zero_point))
        return Real((Term(self._emit(moved), term.scale, term.zero_point),))

    def _one_term(self, value: Expression) -> Term | None:
        real = self._real(value)
        return None if real is None or not real.terms else real.term


def _with_bias(real: Real, bias: Real) -> Real | None:
    """The sum where it only moves a zero point: of int32 and a constant of the same scale."""
    term, added = real.term, bias.term
    if term is None or added is None or added.array is None or dtype_of(term.tensor) != "int32":
        return None
    try:
        scale = np.broadcast_to(added.scale, np.broadcast_shapes(added.scale.shape, term.scale.shape))
    except ValueError:
        return None
    if not np.allclose(scale, term.scale, rtol=1e-5, atol=0.0):
        return None
    integers = added.array.astype("int64") - added.zero_point
    moved = (term.zero_point.astype("int64") - integers).astype("int32")
    return Real((Term(term.tensor, term.scale, moved),))


def _dequantized(term: Term, array: np.ndarray) -> np.ndarray:
    return np.asarray((array.astype("int32") - term.zero_point).astype("float32") * term.scale, "float32")


def _number(value: Expression) -> float | None:
    """A number, given as a constant or in Relax's own way of writing one."""
    if isinstance(value, Constant):
        array = constant_array(value)
        return float(array.reshape(-1)[0]) if array.size == 1 else None
    if isinstance(value, (tvm.tirx.FloatImm, tvm.tirx.IntImm)):
        return float(value.value)
    inner = getattr(value, "value", None)
    return float(inner.value) if isinstance(inner, (tvm.tirx.FloatImm, tvm.tirx.IntImm)) else None
