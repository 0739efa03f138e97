"""Products of integers that are wider than need be: of bytes less a zero point, by constants of bytes.

Operators of Relay's qnn are such products once they are taken apart.
"""

import numpy as np
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import Constant, Expression, constant, constant_array, dtype_of, operator_name
from relay_layout.quantization.products import convolved, multiplied
from relay_layout.quantization.reals import SHIFT, Real, Term, shifted

_PRODUCTS = {"nn.conv2d": convolved, "matmul": multiplied}
_WIDE = ("int16", "int32")
_ONE = np.array(1, "float32")


def is_wide_product(call: Expression) -> bool:
    """Whether a call may become a product of bytes."""
    return (
        operator_name(call) in _PRODUCTS
        and dtype_of(call) == "int32"
        and dtype_of(call.args[0]) in _WIDE
        and isinstance(call.args[1], Constant)
    )


@mutator
class Narrowing(PyExprMutator):
    """Replaces products of what was cast from bytes, with the same integers for results."""

    def visit_call_(self, call: relax.Call) -> Expression:
        """The product of bytes less what their zero point adds to it; other calls as they are."""
        call = self.builder_.normalize(super().visit_call_(call))
        if not is_wide_product(call):
            return call
        data = self._bytes(call.args[0], 0)
        weight = Real((Term(call.args[1], _ONE, np.array(0, "int32")),))
        found = (
            None if data is None else _PRODUCTS[operator_name(call)](call, Real((data,)), weight, self._emit)
        )
        if found is None or found.term is None:
            return call
        term = found.term
        if not term.zero_point.any():
            return term.tensor
        return relax.op.subtract(term.tensor, constant(term.zero_point))

    def _bytes(self, value: Expression, zero_point: int) -> Term | None:
        """The bytes that ``value - zero_point`` was cast from, and all that was subtracted from them."""
        while isinstance(value, relax.Var):
            bound = self.lookup_binding(value)
            if bound is None:
                return None
            value = bound
        name = operator_name(value)
        if name == "subtract" and isinstance(value.args[1], Constant):
            number = constant_array(value.args[1])
            return (
                self._bytes(value.args[0], zero_point + int(number.reshape(-1)[0]))
                if number.size == 1
                else None
            )
        if name != "astype":
            return None
        data = value.args[0]
        if dtype_of(data) in _WIDE:
            return self._bytes(data, zero_point)
        if dtype_of(data) == "int8":
            return Term(self._emit(shifted(data, self._emit)), _ONE, np.array(zero_point + SHIFT, "int32"))
        return Term(data, _ONE, np.array(zero_point, "int32")) if dtype_of(data) == "uint8" else None

    def _emit(self, expression: Expression) -> Expression:
        return self.builder_.emit(expression)
