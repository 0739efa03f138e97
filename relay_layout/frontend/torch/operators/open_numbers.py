"""Numbers that a program computes of open extents: integers are extents, floats become them by rounding.

``int(h * 1.5)`` is in the program as ``trunc(sym_float(h) * 1.5)``, in double precision. TVM's extents are
integers, so that of such a float it is kept which fraction of which extent it is.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from tvm import sym, te, tirx
from tvm.ir import Range

from relay_layout.errors import ModelError
from relay_layout.frontend.extents.arithmetic import as_expression, product
from relay_layout.frontend.extents.factors import without_shared
from relay_layout.frontend.torch.node import Converter, value_of
from relay_layout.ir import Expression, Extent

_LARGEST_DENOMINATOR = 64
_MOST = 1 << 14
"""Up to which extent rounding a float is checked to be what dividing integers gives."""

_ROUNDINGS = {"down": np.floor, "up": np.ceil, "to zero": np.trunc}


@dataclass(frozen=True)
class OpenFloat:
    """A float that is ``expression``: ``factor * extent + addend``, where it is linear in an extent.

    ``samples`` is what it is, rounded as double precision rounds, for extents of ``sizes``: 1, 2 and so on,
    and as many below where the extent may be below zero.
    """

    expression: Any
    extent: Extent | None = None
    factor: Fraction = Fraction(1)
    addend: Fraction = Fraction(0)
    samples: Any = None
    sizes: Any = None

    def __str__(self) -> str:
        known = self.extent is not None
        return f"a multiple of {float(self.factor):g}" if known else "no multiple of another"

    def rounded(self, rounding: str = "down") -> Extent:
        """The integer next to it; ValueError where it is no quotient of an extent."""
        if self.extent is None:
            raise ValueError
        factor, addend = (
            number.limit_denominator(_LARGEST_DENOMINATOR) for number in (self.factor, self.addend)
        )
        divisor = math.lcm(factor.denominator, addend.denominator)
        times, more = int(factor * divisor), int(addend * divisor)
        numerators = self.sizes * times + more
        below, above = numerators // divisor, (numerators + (divisor - 1)) // divisor
        wanted = {"down": below, "up": above, "to zero": np.where(numerators < 0, above, below)}[rounding]
        if not np.array_equal(_ROUNDINGS[rounding](self.samples), wanted):
            raise ValueError
        numerator = self.extent * times + more
        floor = tirx.floordiv(numerator, divisor)
        ceiling = tirx.floordiv(numerator + (divisor - 1), divisor)
        if rounding == "up" or (rounding == "to zero" and _is_natural(-numerator)):
            return ceiling
        if rounding == "down" or _is_natural(numerator):
            return floor
        zero = tirx.const(0, "int64")
        return tirx.max(floor, zero) + tirx.min(ceiling, zero)


def _is_natural(extent: Extent) -> bool:
    """Whether an extent is never below zero, where the sizes that it is computed of are at least one."""
    analyzer = sym.Analyzer()
    for size in tirx.analysis.undefined_vars(extent):
        analyzer.bind(size, Range(1, _MOST))
    return bool(analyzer.can_prove(extent >= 0))


def as_scalar(importer: Any, number: OpenFloat, dtype: str) -> Expression:
    """The number as a tensor without dimensions."""

    def compute(expression: Any) -> te.Tensor:
        return te.compute((), lambda: tirx.Cast(dtype, expression), name="number")

    return importer.block_builder.emit_te(compute, number.expression, primfunc_name_hint="number")


def _real(value: Any) -> Any:
    """A float, of an integer or an extent as well."""
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, OpenFloat):
        return value
    sizes = np.arange(1 if _is_natural(value) else -_MOST, _MOST)
    return OpenFloat(tirx.Cast("float64", value), value, samples=sizes.astype("float64"), sizes=sizes)


def _combined(compute: Callable[[Any, Any], Any], left: Any, right: Any) -> OpenFloat:
    """What two floats are together, one of them open."""
    expression = compute(*(one.expression if isinstance(one, OpenFloat) else one for one in (left, right)))
    number = right if isinstance(left, OpenFloat) else left
    held = left if isinstance(left, OpenFloat) else right
    if isinstance(number, OpenFloat) or held.extent is None or not math.isfinite(number):
        return OpenFloat(expression)
    known = Fraction(number)
    match compute:
        case operator.mul:
            factor, addend = held.factor * known, held.addend * known
        case operator.truediv if held is left and known:
            factor, addend = held.factor / known, held.addend / known
        case operator.add:
            factor, addend = held.factor, held.addend + known
        case operator.sub if held is left:
            factor, addend = held.factor, held.addend - known
        case operator.sub:
            factor, addend = -held.factor, known - held.addend
        case _:
            return OpenFloat(expression)
    samples = compute(held.samples, number) if held is left else compute(number, held.samples)
    return OpenFloat(expression, held.extent, factor, addend, samples, held.sizes)


def _operands(node: Any, importer: Any) -> list[Any]:
    return [value_of(importer, value) for value in node.args]


def _quotient(left: Extent, right: Extent) -> Extent:
    """Rounded down, without what both multiply, of which TVM's analyzer may find no end."""
    dividend, divisor = map(product, without_shared([left], [right]))
    if isinstance(divisor, int) and divisor == 1:
        return dividend
    return tirx.floordiv(as_expression(dividend), as_expression(divisor))


def _arithmetic(
    compute: Callable[[Any, Any], Any],
    of_tvm: Callable[[Any, Any], Any] | None = None,
    of_extents: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """Arithmetic of integers as extents have it, of floats in double precision."""

    def convert(node: Any, importer: Any) -> Any:
        left, right = _operands(node, importer)
        if all(isinstance(one, int | float) for one in (left, right)):
            return compute(left, right)
        floats = any(isinstance(one, float | OpenFloat) for one in (left, right))
        if not floats and compute is not operator.truediv:
            return (of_extents or of_tvm or compute)(left, right)
        if of_tvm is not None:
            return OpenFloat(of_tvm(*(_expression(one) for one in (left, right))))
        return _combined(compute, _real(left), _real(right))

    return convert


def _comparison(compute: Callable[[Any, Any], Any]) -> Any:
    """Whether a comparison of extents or of floats holds: a bool, or an expression."""

    def convert(node: Any, importer: Any) -> Any:
        left, right = _operands(node, importer)
        if any(isinstance(one, float | OpenFloat) for one in (left, right)):
            left, right = (_expression(one) for one in (left, right))
        return compute(left, right)

    return convert


def _opposite(node: Any, importer: Any) -> Any:
    (value,) = _operands(node, importer)
    return not value if isinstance(value, bool) else tirx.Not(value)


def _power(node: Any, importer: Any) -> Any:
    """An integer to a constant power as a product, floats in double precision."""
    base, exponent = _operands(node, importer)
    if isinstance(base, int | float) and isinstance(exponent, int | float):
        return base**exponent
    is_real = isinstance(base, float | OpenFloat)
    if not is_real and isinstance(exponent, int) and exponent >= 0:
        return math.prod([base] * exponent)
    if not is_real and not isinstance(exponent, float | OpenFloat):
        raise ModelError(
            f"node '{node.name}': an open power of an integer is not supported; give the input a fixed size"
        )
    return OpenFloat(tirx.pow(_expression(base), _expression(exponent)))


def _expression(value: Any) -> Any:
    real = _real(value)
    return real.expression if isinstance(real, OpenFloat) else tirx.const(real, "float64")


def _rounded(rounding: str) -> Any:
    def convert(node: Any, importer: Any) -> Any:
        (value,) = _operands(node, importer)
        if isinstance(value, float):
            return int(_ROUNDINGS[rounding](value))
        if not isinstance(value, OpenFloat):
            return value
        try:
            return value.rounded(rounding)
        except ValueError:
            raise ModelError(
                f"node '{node.name}': an extent that is {value}, rounded, is not supported; divide integers "
                "by // or give the input a fixed size"
            ) from None

    return convert


def _float(node: Any, importer: Any) -> Any:
    return _real(*_operands(node, importer))


def _root(node: Any, importer: Any) -> Any:
    return OpenFloat(tirx.sqrt(_expression(*_operands(node, importer))))


def _negative(node: Any, importer: Any) -> Any:
    (value,) = _operands(node, importer)
    return _combined(operator.mul, value, -1.0) if isinstance(value, OpenFloat) else -value


CONVERTERS: dict[str, Converter] = {
    "add": _arithmetic(operator.add),
    "sub": _arithmetic(operator.sub),
    "mul": _arithmetic(operator.mul),
    "floordiv": _arithmetic(operator.floordiv, tirx.floordiv, _quotient),
    "mod": _arithmetic(operator.mod, tirx.floormod),
    "pow": _power,
    "truediv": _arithmetic(operator.truediv),
    "lt": _comparison(operator.lt),
    "le": _comparison(operator.le),
    "gt": _comparison(operator.gt),
    "ge": _comparison(operator.ge),
    "eq": _comparison(tirx.EQ),
    "ne": _comparison(tirx.NE),
    "and_": _comparison(tirx.And),
    "or_": _comparison(tirx.Or),
    "sym_not": _opposite,
    "neg": _negative,
    "sym_float": _float,
    "_sym_sqrt": _root,
    "sym_max": _arithmetic(max, tirx.max),
    "sym_min": _arithmetic(min, tirx.min),
    "floor": _rounded("down"),
    "ceil": _rounded("up"),
    **dict.fromkeys(("sym_int", "trunc"), _rounded("to zero")),
}
"""By the names that TVM's importer has for functions of Python and for PyTorch's own of numbers."""
