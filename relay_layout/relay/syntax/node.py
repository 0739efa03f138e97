"""What the expressions of the syntax tree have in common, and how scripts read and combine them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tree import AttributeValue, Call, RelayType


class OperatorName(str):
    """The name of an operator, which scripts also read as ``call.op.name``."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name as plain text."""
        return str(self)


class CallAttributes(dict[str, "AttributeValue"]):
    """The attributes that a call names; ``attrs["strides"]`` and ``attrs.strides`` tell defaults as well."""

    __slots__ = ("_operator",)

    def __init__(self, operator: str, given: Mapping[str, AttributeValue]) -> None:
        super().__init__(given)
        self._operator = operator

    def __missing__(self, name: str) -> AttributeValue:
        # The operators know their defaults, and need TVM.
        from relay_layout.relay.expression import default_of

        return default_of(self._operator, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{self._operator} has no attribute '{name}'") from None

    def get_int(self, name: str) -> int:
        """One number."""
        value: Any = self[name]
        return int(value)

    def get_int_tuple(self, name: str) -> tuple[int, ...]:
        """A list of numbers."""
        values: Any = self[name]
        return tuple(int(value) for value in values)

    def get_str(self, name: str) -> str:
        """A text."""
        return str(self[name])


class Node:
    """What expressions have in common: how they show, and the operators that build new ones.

    The representation is short and does not descend into operands. ``==`` compares identity.
    """

    __slots__ = ("__weakref__",)

    # Arrays on the left side leave the operators to the expression on the right.
    __array_ufunc__ = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _binary(self, operator: str, other: Any, *, swapped: bool = False) -> Call:
        from .tree import EXPRESSIONS, Call

        expression: Any = self
        if not isinstance(other, EXPRESSIONS):
            # How a number becomes a constant depends on types, which need TVM.
            from relay_layout.relay.expression import operand_beside

            other = operand_beside(expression, other)
            if other is NotImplemented:
                return NotImplemented
        return Call(operator, (other, expression) if swapped else (expression, other))

    def __add__(self, other: Any) -> Call:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Call:
        return self._binary("add", other, swapped=True)

    def __sub__(self, other: Any) -> Call:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Call:
        return self._binary("subtract", other, swapped=True)

    def __mul__(self, other: Any) -> Call:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Call:
        return self._binary("multiply", other, swapped=True)

    def __truediv__(self, other: Any) -> Call:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Call:
        return self._binary("divide", other, swapped=True)

    def __lt__(self, other: Any) -> Call:
        return self._binary("less", other)

    def __gt__(self, other: Any) -> Call:
        return self._binary("greater", other)

    def __le__(self, other: Any) -> Call:
        return self._binary("less_equal", other)

    def __ge__(self, other: Any) -> Call:
        return self._binary("greater_equal", other)

    def __neg__(self) -> Call:
        from .tree import Call

        expression: Any = self
        return Call("negative", (expression,))

    def __call__(self, *args: Any) -> Call:
        """A call of a function, with expressions for its parameters."""
        from .tree import Call

        expression: Any = self
        return Call(expression, args)

    def astype(self, dtype: Any) -> Call:
        """The same values in another data type."""
        from .tree import Call

        expression: Any = self
        return Call("cast", (expression,), {"dtype": str(dtype)})

    def astext(self, show_meta_data: bool = True) -> str:
        """Relay text of the expression, free variables as parameters of a function."""
        from relay_layout.relay.expression import astext

        expression: Any = self
        return astext(expression, show_meta_data)

    @property
    def checked_type(self) -> RelayType:
        """The type; ModelError where there is none. Every access asks for what is not known yet."""
        from relay_layout.relay.inference import type_of

        expression: Any = self
        return type_of(expression)

    def __tvm_ffi_object__(self) -> Any:
        """TVM's functions take an expression as the Relax function of its free variables."""
        from relay_layout.relay.expression import to_relax_function

        expression: Any = self
        return to_relax_function(expression)
