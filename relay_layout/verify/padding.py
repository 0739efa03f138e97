"""Tensors padded with zeros for alignment, and calls that pass the padding on.

A padded tensor is a value of its own, :meth:`Paddings.padded` of the original one, and lies as any other
does. A call on padded operands must mean the original call on the original operands padded likewise; where
that call gives zeros behind the original result, its result is the original result padded. Of which calls
this holds is decided here, apart from the rules of conversion.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_layout.graph import Node, Tree, Value, build_graph
from relay_layout.ir import constant, constant_array
from relay_layout.layout import Layout
from relay_layout.verify.arrangement_meanings import bounds_of
from relay_layout.verify.comparing import Mismatch
from relay_layout.verify.digits import Digit, shape_of_dims
from relay_layout.verify.originals import Held
from relay_layout.verify.reading import integers
from relay_layout.verify.symbols import Shape, extents

_ZERO_OF_ZERO = frozenset(
    (
        "abs",
        "ceil",
        "floor",
        "negative",
        "nn.gelu",
        "nn.leakyrelu",
        "nn.relu",
        "nn.silu",
        "round",
        "sign",
        "sin",
        "sqrt",
        "square",
        "tanh",
        "trunc",
    )
)
"""Elementwise operators of one tensor that give zero for zero."""

_ZERO_OF_ZEROS = ("add", "maximum", "minimum", "multiply", "subtract")
"""Elementwise operators that give zero where all operands are zero."""

_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")


@dataclass(frozen=True)
class Lifted:
    """An original call with operands padded: the call, and how these lie over their padded roots."""

    node: Node
    operands: list[Held]
    results: list[Value]


class Paddings:
    """Values of the original function with zeros behind the last element of some dimensions."""

    def __init__(self) -> None:
        self._padded: dict[tuple[Value, Shape], Value] = {}
        self._original: dict[Value, Value] = {}

    def padded(self, value: Value, shape: Shape) -> Value:
        """``value`` with zeros up to ``shape``."""
        value = self.original(value)
        if shape == extents(value.shape or ()):
            return value
        if (value, shape) not in self._padded:
            plain = tuple(extent if isinstance(extent, int) else extent.expression for extent in shape)
            found = Value(value.name, plain, value.dtype, value.expression)
            if value.constant is not None and all(isinstance(extent, int) for extent in plain):
                array = constant_array(value.constant)
                widths = [(0, new - old) for new, old in zip(plain, array.shape, strict=True)]
                found.constant = found.expression = constant(np.pad(array, widths))
            self._padded[value, shape] = found
            self._original[found] = value
        return self._padded[value, shape]

    def original(self, value: Value) -> Value:
        """What a padded value was made of; any other value itself."""
        return self._original.get(value, value)

    def adjusted(self, node: Node, held: Held) -> Held | None:
        """The result of a pad or a slice that only adds or drops padding; None for any other call."""
        if held.dims is None or held.frame is not None:
            return None
        if node.operator == "nn.pad":
            shape = self._after_pad(node)
        elif node.operator == "strided_slice":
            shape = self._after_slice(node)
        else:
            return None
        if shape is None:
            return None
        return self._resized(held, shape)

    def _after_pad(self, node: Node) -> Shape | None:
        attributes = node.attributes
        widths = integers(attributes.pad_width)
        zeros = str(attributes.pad_mode) == "constant" and float(attributes.pad_value) == 0.0
        if not zeros or any(widths[::2]) or len(node.operands) != 1 or node.results[0].shape is None:
            return None
        return extents(node.results[0].shape)

    def _after_slice(self, node: Node) -> Shape | None:
        bounds = bounds_of(node)
        if bounds is None or any((begin, stride) != (0, 1) for begin, _, stride in bounds.values()):
            return None
        return extents(node.results[0].shape) if node.results[0].shape is not None else None

    def _resized(self, held: Held, shape: Shape) -> Held | None:
        """The same elements where dimensions have other extents; None where one is not a whole dimension."""
        root = extents(held.root.shape or ())
        dims, wanted = list(held.dims or ()), list(root)
        ones = [axis for axis, extent in enumerate(root) if extent == 1]
        seen = 0
        for place, (dim, extent) in enumerate(zip(dims, shape, strict=True)):
            whole = len(dim) == 1 and dim[0].unit == 1 and dim[0].extent == root[dim[0].axis]
            axis = dim[0].axis if whole else None
            if not dim:
                axis = ones[seen] if seen < len(ones) else None
                seen += 1
            if shape_of_dims((dim,)) == (extent,):
                continue
            if axis is None:
                return None
            least = extents(self.original(held.root).shape or ())[axis]
            if isinstance(extent, int) and isinstance(least, int) and extent < least:
                return None
            wanted[axis] = extent
            dims[place] = (Digit(axis, 1, extent),) if extent != 1 else ()
        return Held(self.padded(held.root, tuple(wanted)), tuple(dims), (*held.origin,))

    def lifted(self, old: Node, originals: Sequence[Held], new: Node, held: Sequence[Held]) -> Lifted | None:
        """``old`` on operands padded as those of ``new`` are; None where padding does not pass the call."""
        if any(before.dims is None for before in originals):
            return None
        operands: list[Held | None] = []
        for before, after in zip(originals, held, strict=True):
            if before.root.constant is not None:
                operands.append(None)
            else:
                operands.append(self._padded_alike(before, after.root))
        shapes = _passed(old, new, [_shape_of(entry) if entry is not None else None for entry in operands])
        if shapes is None:
            return None
        complete = []
        for entry, before, shape in zip(operands, originals, shapes, strict=True):
            found = entry or self._resized(before, shape)
            if found is None or _shape_of(found) != shape:
                return None
            complete.append(found)
        node = _with_shapes(old, shapes)
        results = [
            self.padded(value, extents(lifted.shape or ()))
            for value, lifted in zip(old.results, node.results, strict=True)
        ]
        return Lifted(node, complete, results)

    def _padded_alike(self, original: Held, root: Value) -> Held | None:
        """An original operand, its root padded as ``root`` is."""
        if (
            original.dims is None
            or original.frame is not None
            or self.original(root) is not self.original(original.root)
        ):
            return None
        before, after = extents(original.root.shape or ()), extents(root.shape or ())
        dims = []
        for dim in original.dims:
            changed = []
            for digit in dim:
                if before[digit.axis] != after[digit.axis]:
                    if len(dim) > 1 or digit.unit != 1 or digit.extent != before[digit.axis]:
                        return None
                    digit = Digit(digit.axis, 1, after[digit.axis])
                changed.append(digit)
            dims.append(tuple(changed))
        return Held(root, tuple(dims), original.origin)


def _shape_of(held: Held) -> Shape:
    return shape_of_dims(held.dims or ())


def _passed(old: Node, new: Node, shapes: Sequence[Shape | None]) -> list[Shape] | None:
    """The padded shapes of all operands, also of constants (None); None where padding does not pass."""
    before = [extents(value.shape or ()) for value in old.operands]
    if old.operator in _CONVOLUTIONS:
        return _convolution_shapes(old, new, before, shapes)
    if old.operator in _ZERO_OF_ZERO and shapes[0] is not None:
        return [shapes[0]]
    if "pool" in old.operator and shapes[0] is not None:
        text = str(old.attributes.layout)
        padded = [axis for axis, one, other in zip(text, before[0], shapes[0], strict=True) if one != other]
        return [shapes[0]] if all(axis in "NC" for axis in padded) else None
    if old.operator in _ZERO_OF_ZEROS:
        return _elementwise_shapes(old, before, shapes)
    return None


def _convolution_shapes(
    old: Node, new: Node, before: Sequence[Shape], shapes: Sequence[Shape | None]
) -> list[Shape] | None:
    """Channels may be padded, in data and kernel alike, and kernels with zeros give channels of zeros."""
    data_text, kernel_text = str(old.attributes.data_layout), str(old.attributes.kernel_layout)
    new_text = str(new.attributes.kernel_layout)
    shape = new.operands[1].shape
    if int(old.attributes.groups) != 1 or shape is None or not new_text.isupper() or shapes[0] is None:
        return None
    if Layout.parse(new_text).rank != len(shape) or sorted(new_text) != sorted(kernel_text):
        return None
    provided = dict(zip(new_text, extents(shape), strict=True))
    kernel = tuple(
        provided[axis] if axis in "OI" else extent
        for axis, extent in zip(kernel_text, before[1], strict=True)
    )
    changed = {axis for axis, one, other in zip(data_text, before[0], shapes[0], strict=True) if one != other}
    if changed - {"C"} or (shapes[1] is not None and shapes[1] != kernel):
        return None
    return [shapes[0], kernel]


def _elementwise_shapes(
    old: Node, before: Sequence[Shape], shapes: Sequence[Shape | None]
) -> list[Shape] | None:
    """All operands must be padded alike; one that has a single element there is not zero behind it."""
    rank = max(len(shape) for shape in before)
    padded = {
        place + rank - len(shape): extent
        for shape, known in zip(before, shapes, strict=True)
        if known is not None
        for place, extent in enumerate(known)
        if extent != shape[place]
    }
    found = []
    for shape, known in zip(before, shapes, strict=True):
        whole = (*[1] * (rank - len(shape)), *shape)
        if any(whole[place] == 1 for place in padded):
            return None
        wanted = tuple(padded.get(place, extent) for place, extent in enumerate(whole))[rank - len(shape) :]
        if known is not None and known != wanted:
            return None
        found.append(wanted)
    return found


def _with_shapes(old: Node, shapes: Sequence[Shape]) -> Node:
    """The same call on tensors of other shapes."""
    builder = relax.BlockBuilder()
    parameters = [
        relax.Var(
            f"operand_{place}",
            relax.TensorType(
                [extent if isinstance(extent, int) else extent.expression for extent in shape], value.dtype
            ),
        )
        for place, (value, shape) in enumerate(zip(old.operands, shapes, strict=True))
    ]
    remaining = iter(parameters)

    def rebuilt(tree: Tree) -> object:
        if isinstance(tree, Value):
            return next(remaining)
        return relax.Tuple([rebuilt(branch) for branch in tree]) if isinstance(tree, tuple) else tree

    call = old.expression
    try:
        with builder.function("main", parameters):
            arguments = [rebuilt(branch) for branch in old.tree]
            result = builder.emit(relax.Call(call.op, arguments, call.attrs, call.ty_args))
            builder.emit_func_output(result)
    except Exception as error:
        # Type inference raises many kinds of exceptions.
        raise Mismatch(f"it does not take padded operands: {error}") from error
    return build_graph(builder.finalize()["main"]).nodes[0]
