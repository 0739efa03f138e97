"""One ONNX node as a converter sees it.

An input is a numpy array where it is known at compile time, and a Relax expression where it is not. What a
converter cannot do raises :class:`.Unsupported`, of which the importer makes an error that names the node.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.expressions import Expressions
from relay_layout.frontend.extents.arithmetic import greatest, product, same
from relay_layout.frontend.extents.counts import Counts
from relay_layout.frontend.identifiers import identifier
from relay_layout.frontend.onnx.limits import RowLimits
from relay_layout.frontend.onnx.narrow_types import NarrowTypes
from relay_layout.frontend.onnx.requirements import Requirements
from relay_layout.frontend.onnx.signs import Signs
from relay_layout.frontend.values import Array, Extents, Unsupported, Value, dtype_of, shape_of
from relay_layout.ir import Extent, is_empty


@dataclass(frozen=True)
class Node:
    """A node's operator, inputs and attributes, and the builder that takes its Relax expressions.

    ``opset`` is the version of the operator's domain. ``inputs`` holds None for an input left out.
    ``outputs`` are names, empty where an output is not wanted. ``counts``, ``signs``, ``limits`` and
    ``narrow_types`` are what is known of the graph, ``requirements`` what its nodes ask of sizes of inputs.
    """

    operator: str
    name: str
    opset: int
    inputs: tuple[Value, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    builder: Any
    expressions: Expressions
    counts: Counts
    signs: Signs
    limits: RowLimits
    narrow_types: NarrowTypes
    requirements: Requirements

    @property
    def label(self) -> str:
        """What bodies of the node are named after."""
        return self.outputs[0] or self.name

    def has(self, index: int) -> bool:
        """Whether the input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> Value:
        """An input that must be given."""
        if not self.has(index):
            raise Unsupported(f"lacks its input {index}")
        return self.inputs[index]

    def optional(self, index: int) -> Value:
        """An input, None where it is left out."""
        return self.inputs[index] if self.has(index) else None

    def tensor(self, index: int) -> Any:
        """An input as a Relax expression."""
        return self.expression(self.input(index))

    def constant(self, index: int) -> Array:
        """An input whose value must be known now."""
        value = self.input(index)
        if not isinstance(value, np.ndarray):
            raise _needs_constant(index)
        return value

    def extents(self, index: int) -> list[Extent]:
        """A shape-like input: a 1-D integer tensor known up to symbolic extents, or up to those of ranges."""
        value = self.input(index)
        found: list[Extent] = []
        for part in self.counts.parts.get(value) or [value]:
            known = [self.counts.known_end(part)] if isinstance(part, relax.Var) else _elements(part)
            if known is None or None in known:
                raise _needs_constant(index)
            found += known
        return found

    def counted_extents(self, index: int) -> list[Extent]:
        """A shape-like input that may be computed at run time, of elements whose number is known.

        Each such element is an extent that the data decide; what is less than 0 counts as 0.
        """
        value = self.input(index)
        if isinstance(value, np.ndarray | Extents):
            return self.extents(index)
        return [extent for part in self.counts.parts.get(value) or [value] for extent in self._counted(part)]

    def _counted(self, value: Value) -> list[Extent]:
        if isinstance(value, np.ndarray):
            return [max(int(extent), 0) for extent in value.reshape(-1)]
        if isinstance(value, Extents):
            return [greatest(extent, 0) for extent in value.array.reshape(-1)]
        number = product(shape_of(value))
        if not isinstance(number, int):
            raise Unsupported("needs a shape of a number of extents that is known")
        return self.numbers(self.cast(self.reshaped(value, [number]), "int64"), number)

    def numbers(self, tensor: Any, number: int) -> list[Extent]:
        """The elements of a vector of int64 as extents that the data decide; what is less than 0 is 0."""
        least = self.emit(relax.op.maximum(self.emit(tensor), relax.const(0, "int64")), "sizes")
        if number == 1:
            return [self.count(least, None)]
        parts = (relax.op.strided_slice(least, [0], [place], [place + 1]) for place in range(number))
        return [self.count(self.emit(part, "size"), None) for part in parts]

    def expression(self, value: Value) -> Any:
        """Any tensor value as a Relax expression."""
        return self.expressions(value, self.outputs[0])

    def cast(self, value: Value, dtype: str) -> Any:
        """Any tensor value as a Relax expression of an element type."""
        if isinstance(value, np.ndarray):
            return self.expression(value.astype(dtype, copy=False))
        expression = self.expression(value)
        return expression if dtype_of(value) == dtype else relax.op.astype(expression, dtype)

    def element_type(self, index: int) -> str:
        """The element type that an input has in the file, which wider ones may hold here."""
        return self.narrow_types.of(self.input(index))

    def dtype_given(self, name: str, default: str) -> str:
        """The element type that the attribute ``name`` asks for; none, or 0, asks for ``default``."""
        from onnx.helper import tensor_dtype_to_np_dtype

        code = self.attributes.get(name, 0)
        return str(tensor_dtype_to_np_dtype(code)) if code else default

    def held(self, expression: Any, dtype: str) -> Any:
        """A variable for a result whose elements are those of a narrow ``dtype``."""
        variable = self.emit(self.expression(expression), "held")
        self.narrow_types.keep(variable, dtype)
        return variable

    def like(self, number: float | bool, value: Value) -> Any:
        """A scalar constant of the element type of ``value``."""
        return self.expressions.scalar(number, dtype_of(value))

    def emit(self, expression: Any, part: str = "") -> Any:
        """Bind an intermediate expression to a variable named after the node's first output."""
        return self.builder.emit(expression, name_hint=identifier(f"{self.outputs[0]}_{part or 'part'}"))

    def count(self, tensor: Any, most: Extent | None) -> Any:
        """An extent for the number that ``tensor``, one int64, holds, at most ``most`` where known."""
        return self.counts.count(tensor, most, identifier(f"{self.outputs[0]}_number"))

    def plain(self, extent: Extent) -> Extent:
        """An extent that operators may be given: a number or, if it depends on the data, a variable."""
        return self.counts.plain(extent, identifier(f"{self.outputs[0]}_extent"))

    def places(self, extent: Extent, dtype: str = "int64") -> Any:
        """The numbers from 0 on that are below an extent, which may depend on the data."""
        return self.emit(relax.op.arange(0, self.plain(extent), 1, dtype), "places")

    def is_natural(self, index: int) -> bool:
        """Whether an input is known to hold no negative numbers."""
        return self.signs.is_natural(self.input(index))

    def is_read(self, place: int) -> bool:
        """Whether an output is in use."""
        return any(self.limits.is_read(name) for name in self.outputs[place : place + 1] if name)

    def rows_read(self) -> int | None:
        """How many first rows of the first output are read; None where it may be all."""
        return self.limits.rows(self.outputs[0])

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front."""
        if not -rank <= axis < rank:
            raise Unsupported(f"has axis {axis} where there are {rank} dimensions")
        return axis % rank

    def axis_given(self, rank: int, *, default: int) -> int:
        """The attribute ``axis``, counted from the front."""
        return self.axis(int(self.attributes.get("axis", default)), rank)

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Distinct axes, ascending, counted from the front."""
        normalized = sorted(self.axis(int(axis), rank) for axis in axes)
        if len(set(normalized)) != len(normalized):
            raise Unsupported(f"names an axis twice: {list(axes)}")
        return normalized

    def reshaped(self, value: Value, shape: Sequence[Extent]) -> Value:
        """``value`` in another shape; a constant stays one, and nothing is done for nothing."""
        if isinstance(value, np.ndarray):
            return value.reshape([int(extent) for extent in shape])
        present = shape_of(value)
        if len(present) == len(shape) and all(map(same, present, shape)):
            return value
        if is_empty(shape):
            # What has no elements needs no source.
            return relax.op.zeros(relax.ShapeExpr(list(shape)), dtype_of(value))
        return relax.op.reshape(self.expression(value), relax.ShapeExpr(list(shape)))


def _elements(value: Value) -> list[Extent] | None:
    """The elements of a tensor of extents; None of another."""
    array = value.array if isinstance(value, Extents) else value
    if not isinstance(array, np.ndarray):
        return None
    return [int(extent) if isinstance(extent, np.integer) else extent for extent in array.reshape(-1)]


def _needs_constant(index: int) -> Unsupported:
    return Unsupported(
        f"needs a constant for its input {index}, not a tensor computed at run time: "
        "export the model with a number there, or fixed shapes"
    )


Converter = Callable[[Node], Value]
"""Turns a node into the value of its output, or into a list of one value per output."""
