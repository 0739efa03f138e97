"""Numbers and axes in attributes: checked, and counted from the front."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, tirx
from tvm.ir import prim

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, Extent
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.carried import call, register
from relay_layout.relay.operators.operator import Operator, Scope

MOST_DIMENSIONS = 64
"""How many dimensions a tensor may get."""

MOST_PARTS = 10_000
"""How many tensors an operator may give or take."""


def integer(value: Any, name: str) -> int:
    """A whole number, of the attribute ``name``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ModelError(f"{name} is a whole number, not {_shown(value)}")
    return value


def integers(value: Any, name: str) -> tuple[int, ...]:
    """A list of whole numbers; one number is a list of one."""
    entries = value if isinstance(value, tuple) else (value,)
    return tuple(integer(entry, f"every entry of {name}" if entries is value else name) for entry in entries)


def axis_of(value: Any, rank: int, name: str = "axis") -> int:
    """An axis of ``rank`` dimensions, counted from the front."""
    axis = integer(value, name)
    if not -rank <= axis < rank:
        raise ModelError(f"{name} {axis} is not one of {rank} dimensions")
    return axis % rank


def axes_of(value: Any, rank: int, name: str = "axis") -> tuple[int, ...]:
    """Different axes of ``rank`` dimensions, counted from the front, in the order given."""
    axes = tuple(axis_of(axis, rank, name) for axis in integers(value, name))
    if len(set(axes)) != len(axes):
        raise ModelError(f"{name} {_shown(list(axes))} names one dimension twice")
    return axes


def positive(value: Any, name: str, most: int = 2**31 - 1) -> int:
    """A whole number of at least 1."""
    number = integer(value, name)
    if not 1 <= number <= most:
        raise ModelError(f"{name} is {number}; it is from 1 to {most}")
    return number


def fields_of(value: Expression) -> list[Expression]:
    """The tensors of a tuple operand, of which there is at least one."""
    if isinstance(value, relax.Tuple):
        fields = list(value.fields)
    else:
        fields = [relax.TupleGetItem(value, index) for index in range(len(value.ty.fields))]
    if not 1 <= len(fields) <= MOST_PARTS:
        raise ModelError(f"takes from 1 to {MOST_PARTS} tensors, not {len(fields)}")
    return fields


def numbers_of(value: Expression) -> tuple[int, ...] | None:
    """The entries of a Relax tuple or shape that are all known; None otherwise."""
    entries = getattr(value, "fields", None)
    if entries is None:
        entries = getattr(value, "values", None)
    if entries is None or not all(isinstance(entry, tirx.IntImm) for entry in entries):
        return None
    return tuple(int(entry) for entry in entries)


def same_extent(left: Extent, right: Extent) -> bool:
    """Whether two extents are known to be equal."""
    if isinstance(left, int) or isinstance(right, int):
        return isinstance(left, int) and isinstance(right, int) and left == right
    return bool(prim.expr_deep_equal(left, right))


class CarriedForm:
    """An operator that Relax has, in a form that Relax lacks: carried, beside the row that has the rest.

    Called with operands and attributes, it gives the call that carries them.
    """

    def __init__(self, name: str, operands: str, attributes: str | None, build: Any) -> None:
        self.row = Operator(name, tuple(operands.split()), build, attributes, carried=True)
        register(self.row)

    def __call__(self, operands: Sequence[Expression], attributes: Mapping[str, Any]) -> relax.Call:
        return call(self.row, list(operands), attributes)


def topi_build(function: Any, *names: str) -> Any:
    """A build that computes with TE: ``function`` of the operands and of the attributes named."""

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        return scope.builder.call_te(function, *operands, *(given[name] for name in names))

    return build


def one_axis_to_list(**arguments: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of a Python function on ``data`` whose ``axis`` may be one number."""
    data = arguments.pop("data")
    if isinstance(arguments.get("axis"), int):
        arguments["axis"] = (arguments["axis"],)
    return [data], arguments


def _shown(value: Any) -> str:
    text = "a mapping" if isinstance(value, Mapping) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
