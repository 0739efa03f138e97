"""Relay's types and those of Relax, both ways."""

from typing import Any

from tvm import relax, tirx

from relay_layout.errors import ModelError
from relay_layout.ir import as_extent
from relay_layout.relay.operators.axis_arguments import MOST_DIMENSIONS
from relay_layout.relay.syntax.relay_types import FuncType, RelayType, TensorType, TupleType

MOST_BYTES = 2**46
"""The largest tensor that is accepted, 64 TiB: sizes beyond it overflow rather than fail."""


def to_relax(relay_type: RelayType, what: str) -> Any:
    """The Relax type; an unknown extent is a symbol of its own. ModelError names ``what`` it is of."""
    if isinstance(relay_type, TensorType):
        check_size(relay_type, what)
        shape = [
            tirx.Var(f"{what.strip('%')}_{position}".replace(".", "_"), "int64") if extent is None else extent
            for position, extent in enumerate(relay_type.shape)
        ]
        return relax.TensorType(shape, relay_type.dtype)
    if isinstance(relay_type, TupleType):
        return relax.TupleType([to_relax(entry, what) for entry in relay_type.fields])
    raise ModelError(f"{what} is a function; only tensors and tuples of them can be inputs")


def to_relay(relax_type: Any, what: str = "a value") -> RelayType:
    """The Relay type; a symbolic extent is unknown."""
    if isinstance(relax_type, relax.TupleType):
        return TupleType(tuple(to_relay(entry, what) for entry in relax_type.fields))
    if isinstance(relax_type, relax.TensorType) and relax_type.shape is not None and relax_type.dtype:
        extents = [as_extent(extent) for extent in relax_type.shape.values]
        return TensorType(
            tuple(extent if isinstance(extent, int) else None for extent in extents), str(relax_type.dtype)
        )
    if isinstance(relax_type, relax.TensorType) and relax_type.ndim >= 0 and relax_type.dtype:
        return TensorType((None,) * int(relax_type.ndim), str(relax_type.dtype))
    raise ModelError(f"{what} has no type that Relay knows: {str(relax_type).splitlines()[0]}")


def check_size(relay_type: RelayType, what: str) -> None:
    """Refuse tensors that no machine holds."""
    if isinstance(relay_type, TupleType):
        for entry in relay_type.fields:
            check_size(entry, what)
    elif isinstance(relay_type, TensorType):
        count = 8
        for extent in relay_type.shape:
            if extent is not None and extent < 0:
                raise ModelError(f"{what} has a negative extent: {show(relay_type)}")
            count *= 1 if extent is None else max(extent, 1)
        if count > MOST_BYTES:
            raise ModelError(f"{what} of shape {show(relay_type)} is larger than any memory")
        if len(relay_type.shape) > MOST_DIMENSIONS:
            raise ModelError(f"{what} has {len(relay_type.shape)} dimensions; {MOST_DIMENSIONS} is the most")


def show(relay_type: RelayType) -> str:
    """A type as Relay text has it, shortened where it is long."""
    if isinstance(relay_type, TensorType):
        dims = ", ".join(relay_type.written_shape)
        return f"({dims[:60]}{'...' if len(dims) > 60 else ''}) {relay_type.dtype}"
    if isinstance(relay_type, TupleType):
        return f"a tuple of {len(relay_type.fields)}"
    assert isinstance(relay_type, FuncType)
    return "a function"
