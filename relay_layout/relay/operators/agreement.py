"""Unknown extents of operands that have to be equal, such as the batches of two inputs.

Relay takes each ``?`` for an extent of its own, and leaves it to the running network whether operands fit one
another. Here they are declared to be equal, which is checked when the network runs: unlike in Relay, one of
unknown extents that are paired cannot turn out to be 1 and be repeated.
"""

from collections.abc import Callable, Iterable, Sequence

from tvm import relax, tirx
from tvm_ffi import structural_map

from relay_layout.ir import Expression, Extent, dtype_of, is_one, same_extent, shape_of
from relay_layout.relay.operators.attributes import Attributes

Shapes = Sequence[Sequence[Extent]]

Place = tuple[int, int]
"""An operand, or a field of the tuple that is the only operand, and one of its axes."""

Agreement = Callable[[Shapes, Attributes], Iterable[Sequence[Place]]]
"""Places whose extents are equal, in groups, from the shapes of the operands."""


def broadcast(shapes: Shapes, given: Attributes) -> Iterable[Sequence[Place]]:
    """Axes at the same place counted from the last, apart from those of extent 1."""
    for back in range(1, max(map(len, shapes), default=0) + 1):
        yield [
            (operand, len(shape) - back)
            for operand, shape in enumerate(shapes)
            if back <= len(shape) and not is_one(shape[-back])
        ]


def alike(shapes: Shapes, given: Attributes) -> Iterable[Sequence[Place]]:
    """All axes, those at the same place counted from the first."""
    for axis in range(min(map(len, shapes), default=0)):
        yield [(operand, axis) for operand in range(len(shapes))]


def alike_but_for_axis(shapes: Shapes, given: Attributes) -> Iterable[Sequence[Place]]:
    """All axes apart from that of the attributes."""
    rank = min(map(len, shapes), default=0)
    for axis, group in enumerate(alike(shapes, given)):
        if axis not in (given.axis, given.axis + rank):
            yield group


def matrices(shapes: Shapes, given: Attributes) -> Iterable[Sequence[Place]]:
    """Batches of two stacks of matrices where neither is one, and what their product sums over.

    The second matrix is transposed, as in nn.dense, unless an attribute says that it is not.
    """
    if len(shapes) != 2 or min(map(len, shapes)) < 2:
        return
    left, right = shapes
    summed = (-2 if given.get("transpose_a") else -1, -1 if given.get("transpose_b", True) else -2)
    yield [(0, len(left) + summed[0]), (1, len(right) + summed[1])]
    if len(left) == len(right) == 3 and not is_one(left[0]) and not is_one(right[0]):
        yield [(0, 0), (1, 0)]


def vector_along_axis(shapes: Shapes, given: Attributes) -> Iterable[Sequence[Place]]:
    """The axis of the attributes, and a vector of more than one element."""
    data, vector = shapes
    if len(vector) == 1 and not is_one(vector[0]) and -len(data) <= given.axis < len(data):
        yield [(0, given.axis % len(data)), (1, 0)]


def scattered(shapes: Shapes, given: Attributes) -> Iterable[Sequence[Place]]:
    """The dimensions of indices behind the first, and those of the updates that they are for."""
    if len(shapes) == 3:
        for axis in range(min(len(shapes[1]) - 1, len(shapes[2]))):
            yield [(1, 1 + axis), (2, axis)]


class Equalities:
    """Extents of parameters that are found to be equal, or to be a number, while a function is made."""

    def __init__(self) -> None:
        self._same: dict[tirx.Var, Extent] = {}
        self._numbers: dict[tirx.Var, int] = {}
        self.counts: set[tirx.Var] = set()
        """Variables that are no extents of parameters: what they are is computed when the network runs."""

    def joined(self, old: Extent, new: Extent) -> bool:
        """Whether an extent of a parameter is a number, or another one, from now on."""
        variable, other = self._first(old), self._first(new)
        if not self._is_of_parameter(variable):
            return False
        if isinstance(other, int):
            return self._numbers.setdefault(variable, other) == other
        if not self._is_of_parameter(other):
            return False
        if not variable.same_as(other):
            self._same[variable] = other
        return True

    def applied(self, function: relax.Function) -> relax.Function:
        """The function with one variable for those that are equal."""
        if not self._same:
            return function
        first = {variable: self._first(variable) for variable in self._same}
        return structural_map(function, (tirx.Var, lambda variable: first.get(variable, variable)))

    def conditions(self, function: relax.Function) -> list[str]:
        """What the extents of the function's parameters have to be."""
        numbers = {self._first(variable): number for variable, number in self._numbers.items()}
        places = named_extents(function)
        return [
            f"{next(name for extent, name in places if extent.same_as(variable))} == {number}"
            for variable, number in numbers.items()
        ]

    def _first(self, extent: Extent) -> Extent:
        while isinstance(extent, tirx.Var) and extent in self._same:
            extent = self._same[extent]
        return extent

    def _is_of_parameter(self, extent: Extent) -> bool:
        return isinstance(extent, tirx.Var) and extent not in self.counts


def named_extents(function: relax.Function) -> list[tuple[Extent, str]]:
    """The unknown extents of a function's parameters, as conditions on them write them."""
    return [
        (extent, f"{parameter.name}.shape[{axis}]")
        for parameter in function.params
        if isinstance(parameter.ty, relax.TensorType)
        for axis, extent in enumerate(shape_of(parameter) or ())
        if not isinstance(extent, int)
    ]


def agreed(
    builder: relax.BlockBuilder,
    operands: Sequence[Expression],
    agreement: Agreement,
    given: Attributes,
    equalities: Equalities,
) -> list[Expression]:
    """The operands with one extent where several have to be equal, numbers before those that are unknown."""
    tensors = _tensors(operands)
    shapes = [shape_of(tensor) for tensor in tensors]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or all(isinstance(extent, int) for shape in known for extent in shape):
        return list(operands)
    result = [list(shape) for shape in known]
    for group in agreement(known, given):
        found = [known[operand][axis] for operand, axis in group]
        goal = next((extent for extent in found if isinstance(extent, int)), found[0] if found else 1)
        for operand, axis in group:
            result[operand][axis] = goal
    cast = [
        _with_extents(builder, tensor, shape, wanted, equalities)
        for tensor, shape, wanted in zip(tensors, known, result, strict=True)
    ]
    if len(operands) == 1 and isinstance(operands[0].ty, relax.TupleType):
        return [builder.normalize(relax.Tuple(cast))]
    return cast


def _tensors(operands: Sequence[Expression]) -> list[Expression]:
    if len(operands) != 1 or not isinstance(operands[0].ty, relax.TupleType):
        return list(operands)
    tuple_value = operands[0]
    return list(tuple_value.fields) if isinstance(tuple_value, relax.Tuple) else []


def _with_extents(
    builder: relax.BlockBuilder,
    tensor: Expression,
    shape: Sequence[Extent],
    wanted: Sequence[Extent],
    equalities: Equalities,
) -> Expression:
    pairs = [
        (old, new)
        for old, new in zip(shape, wanted, strict=True)
        if old is not new and not (isinstance(old, int) or same_extent(old, new))
    ]
    if not pairs or not all([equalities.joined(old, new) for old, new in pairs]):
        return tensor
    if any(isinstance(new, int) for _, new in pairs):
        # TVM would take what is cast to a number for one of that number before the cast.
        return builder.emit(relax.op.reshape(tensor, relax.ShapeExpr(wanted)))
    return builder.match_cast(tensor, relax.TensorType(wanted, dtype_of(tensor)))
