"""Relax expressions of what is known of a tensor while a model is read."""

from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.identifiers import identifier
from relay_layout.frontend.identity import ByIdentity
from relay_layout.frontend.values import Array, Extents, Unsupported, Value


class Expressions:
    """Makes Relax expressions of values; one constant per numpy array however often the array is read."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._constants: ByIdentity[Array, Any] = ByIdentity()
        self._scalars: dict[tuple[str, str], Any] = {}

    def __call__(self, value: Value, name: str) -> Any:
        """Any tensor value as a Relax expression; variables that it takes are named after ``name``."""
        if isinstance(value, np.ndarray):
            return self._constants.kept(value, lambda array: relax.const(array, str(array.dtype)))
        if isinstance(value, Extents):
            return self._computed(value, identifier(f"{name}_shape"))
        # A call has no type until the builder has taken it; every one made here gives a tensor.
        if not isinstance(value, relax.Call) and not isinstance(getattr(value, "ty", None), relax.TensorType):
            raise Unsupported("needs a tensor where it is given none")
        return value

    def scalar(self, number: float | bool, dtype: str) -> Any:
        """A constant without dimensions, one for all that read the same."""
        key = repr(number), dtype
        if key not in self._scalars:
            self._scalars[key] = relax.const(number, dtype)
        return self._scalars[key]

    def _computed(self, value: Extents, name: str) -> Any:
        flat = relax.op.shape_to_tensor(relax.ShapeExpr(list(value.array.reshape(-1))))
        result = self._builder.emit(flat, name_hint=name)
        if value.array.ndim != 1:
            result = self._builder.emit(relax.op.reshape(result, value.array.shape), name_hint=name)
        if value.dtype != "int64":
            result = self._builder.emit(relax.op.astype(result, value.dtype), name_hint=name)
        return result
