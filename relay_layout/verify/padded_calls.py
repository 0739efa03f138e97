"""Original calls on padded operands, and which of them pass the padding on.

A call of the converted function on padded operands must mean the original call on the original operands
padded likewise; where that call gives zeros behind the original result, its result is the original result
padded. Of which calls this holds is decided here, apart from the rules of conversion.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isfinite

from tvm import relax

from relay_layout.errors import LayoutError
from relay_layout.graph import Node, Tree, Value, build_graph
from relay_layout.ir import constant_array, function_scope, with_operands
from relay_layout.layout import Layout
from relay_layout.verify.digits import shape_of_dims
from relay_layout.verify.meanings import reading_of
from relay_layout.verify.originals import Held, Originals
from relay_layout.verify.padding import Paddings
from relay_layout.verify.reading import Kind, Label, Name, Reading
from relay_layout.verify.symbols import Extent, Shape, extents

_ZERO_OF_ZEROS = frozenset(
    [
        "abs",
        "add",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "ceil",
        "concat",
        "divide",
        "erf",
        "expand_dims",
        "floor",
        "image.resize2d",
        "max",
        "maximum",
        "mean",
        "min",
        "minimum",
        "multiply",
        "negative",
        "nn.gelu",
        "nn.gelu_tanh",
        "nn.leakyrelu",
        "nn.relu",
        "nn.selu",
        "nn.silu",
        "round",
        "sign",
        "sin",
        "sinh",
        "split",
        "sqrt",
        "square",
        "std",
        "strided_slice",
        "subtract",
        "sum",
        "tan",
        "tanh",
        "trunc",
        "variance",
    ]
)
"""Operators that give zeros of zeros, along every dimension that they treat alike everywhere; a quotient by
what is not padded."""

_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")


@dataclass(frozen=True)
class Lifted:
    """An original call with operands padded: the call, and how its tensors lie over their padded roots."""

    node: Node
    operands: list[Held]
    results: list[Held]


def lifted(
    old: Node, new: Node, held: Sequence[Held], originals: Originals, paddings: Paddings
) -> Iterator[Lifted]:
    """``old`` on operands padded as those of ``new`` are, in every way that this can be; none where padding
    does not pass the call."""
    before = [originals.held(value) for value in old.operands]
    alike: list[list[Held | None]] = []
    for original, after in zip(before, held, strict=True):
        follows = original.root.constant is not None or original.root.is_empty
        alike.append([None] if follows else [*paddings.padded_alike(original, after.root)])
    for operands in product(*alike):
        found = _lifted(old, new, before, operands, originals, paddings)
        if found is not None:
            yield found


def _lifted(
    old: Node,
    new: Node,
    before: Sequence[Held],
    operands: Sequence[Held | None],
    originals: Originals,
    paddings: Paddings,
) -> Lifted | None:
    shapes = _passed(old, new, [_shape_of(entry) if entry is not None else None for entry in operands])
    if shapes is None:
        return None
    complete = []
    for entry, original, shape in zip(operands, before, shapes, strict=True):
        found = original if original.root.is_empty else entry or paddings.resized(original, shape)
        if found is None or (found.dims is not None and _shape_of(found) != shape):
            return None
        complete.append(found)
    try:
        node = _with_shapes(old, shapes)
    except Exception:
        # Type inference raises many kinds of exceptions.
        return None
    results = []
    for value, padded in zip(old.results, node.results, strict=True):
        result = paddings.resized(originals.held(value), extents(padded.shape or ()))
        if result is None:
            return None
        results.append(result)
    return Lifted(node, complete, results)


def _shape_of(held: Held) -> Shape:
    return shape_of_dims(held.dims or ())


def _passed(old: Node, new: Node, shapes: Sequence[Shape | None]) -> list[Shape] | None:
    """The padded shapes of all operands, also of constants (None); None where padding does not pass."""
    before = [extents(value.shape or ()) for value in old.operands]
    if old.operator in _CONVOLUTIONS:
        return _convolution_shapes(old, new, before, shapes)
    if "pool" in old.operator and shapes[0] is not None:
        return _by_layout(old, before[0], shapes[0])
    if old.operator == "image.resize2d" and shapes[0] is not None:
        data = _by_layout(old, before[0], shapes[0])
        return None if data is None else [*data, *before[1:]]
    if _keeps_zeros(old):
        return _shapes_along(old, before, shapes)
    return None


def _by_layout(old: Node, before: Shape, shape: Shape) -> list[Shape] | None:
    """Windows of zeros are zero: images and channels may be padded, pixels not."""
    text = str(old.attributes.layout)
    padded = [axis for axis, one, other in zip(text, before, shape, strict=True) if one != other]
    return [shape] if all(axis in "NC" for axis in padded) else None


def _keeps_zeros(old: Node) -> bool:
    """Whether all results are zero where all operands are, constants of one element as they are."""
    if old.operator == "clip":
        least, most = (_number(argument) for argument in old.expression.args[1:])
        return least is not None and most is not None and least <= 0 <= most
    if old.operator == "nn.pad":
        constant = str(old.attributes.pad_mode) == "constant"
        return len(old.operands) == 1 and (not constant or float(old.attributes.pad_value) == 0.0)
    return old.operator in _ZERO_OF_ZEROS


def _number(argument: object) -> float | None:
    value = getattr(argument, "value", argument)
    return float(value) if isinstance(value, int | float) else None


def _convolution_shapes(
    old: Node, new: Node, before: Sequence[Shape], shapes: Sequence[Shape | None]
) -> list[Shape] | None:
    """Channels may be padded, in data and kernel alike, and kernels with zeros give channels of zeros.

    Of several groups none may have more channels than the others. Images of zeros give images of zeros.
    """
    data_text, kernel_text = str(old.attributes.data_layout), str(old.attributes.kernel_layout)
    layout = Layout.parse(str(new.attributes.kernel_layout))
    shape = new.operands[1].shape
    if shape is None or shapes[0] is None or layout.rank != len(shape):
        return None
    if sorted(layout.primal) != sorted(kernel_text):
        return None
    try:
        whole = layout.logical_shape(shape, layout.primal_layout)
    except LayoutError:
        return None
    provided = dict(zip(layout.primal, extents(whole), strict=True))
    padded = "OI" if int(old.attributes.groups) == 1 else ""
    kernel = tuple(
        provided[axis] if axis in padded else extent
        for axis, extent in zip(kernel_text, before[1], strict=True)
    )
    changed = {axis for axis, one, other in zip(data_text, before[0], shapes[0], strict=True) if one != other}
    if changed - ({"C", "N"} if padded else {"N"}) or (shapes[1] is not None and shapes[1] != kernel):
        return None
    return [shapes[0], kernel]


def _shapes_along(old: Node, before: Sequence[Shape], shapes: Sequence[Shape | None]) -> list[Shape] | None:
    """All operands must be padded alike, along dimensions that the call treats alike everywhere."""
    reading = reading_of(old)
    padded = None if reading is None else _padded_dimensions(reading, before, shapes)
    if reading is None or padded is None:
        return None
    found = []
    for place, (labels, shape, known) in enumerate(zip(reading.operands, before, shapes, strict=True)):
        wanted = _padded_shape(old, place, labels, shape, padded)
        if wanted is None or known not in (None, wanted):
            return None
        found.append(wanted)
    return found


def _padded_dimensions(
    reading: Reading, before: Sequence[Shape], shapes: Sequence[Shape | None]
) -> dict[Name, Extent] | None:
    """The dimensions that operands are padded along, with their extents then, where all results have them.

    None where the call does not treat them alike everywhere, or operands are padded differently.
    """
    padded: dict[Name, Extent] = {}
    for labels, shape, known in zip(reading.operands, before, shapes, strict=True):
        for label, extent, other in zip(labels, shape, known or shape, strict=True):
            if extent == other:
                continue
            if label.name.kind is not Kind.FREE or label.name.group or label.unit != 1:
                return None
            if padded.setdefault(label.name, other) != other:
                return None
    for labels in reading.results:
        if not padded.keys() <= {label.name for label in labels}:
            return None
    return padded


def _padded_shape(
    old: Node, place: int, labels: Sequence[Label], shape: Shape, padded: Mapping[Name, Extent]
) -> Shape | None:
    """The shape of one operand that is padded along its dimensions among ``padded``.

    None for one that has a single element there, or none, and so is not zero behind it, as only factors may
    be and divisors must be.
    """
    own = {label.name for label, extent in zip(labels, shape, strict=True) if extent != 1} & padded.keys()
    if len(own) < len(padded) and (own or not _is_factor(old, place)):
        return None
    if own and old.operator == "divide" and place == 1:
        return None
    return tuple(
        padded[label.name] if label.name in own else extent
        for label, extent in zip(labels, shape, strict=True)
    )


def _is_factor(old: Node, place: int) -> bool:
    """Whether zero stays zero whatever an operand, a constant, is multiplied with it or divides it."""
    operand = old.operands[place]
    if operand.constant is None or not (old.operator == "multiply" or (old.operator == "divide" and place)):
        return False
    values = constant_array(operand.constant).reshape(-1)
    return all(isfinite(value) and (old.operator == "multiply" or value != 0) for value in values)


def _with_shapes(old: Node, shapes: Sequence[Shape]) -> Node:
    """The same call on tensors of other shapes."""
    builder = relax.BlockBuilder()
    parameters = [
        relax.Var(
            value.name,
            relax.TensorType(
                [extent if isinstance(extent, int) else extent.expression for extent in shape], value.dtype
            ),
        )
        for value, shape in zip(old.operands, shapes, strict=True)
    ]
    remaining = iter(parameters)

    def rebuilt(tree: Tree) -> object:
        if isinstance(tree, Value):
            return next(remaining)
        return relax.Tuple([rebuilt(branch) for branch in tree]) if isinstance(tree, tuple) else tree

    call = old.expression
    with function_scope(builder, "main", parameters):
        arguments = [rebuilt(branch) for branch in old.tree]
        result = builder.emit(with_operands(call, arguments))
        builder.emit_func_output(result)
    return build_graph(builder.finalize()["main"]).nodes[0]
