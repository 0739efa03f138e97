"""What a convolution's operands and attributes say together, checked before Relax sees them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay_layout.errors import LayoutError, ModelError
from relay_layout.ir import Expression, Extent, dtype_of, is_static
from relay_layout.layout import Layout
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.operator import OperandTypes, extents
from relay_layout.relay.operators.windows import (
    SPATIAL,
    count,
    full_padding,
    logical_extents,
    parsed_layout,
    per_axis,
    physical_shape,
    positive,
    python_padding,
    windows,
)
from relay_layout.relay.syntax.relay_types import RelayType, TensorType


@dataclass(frozen=True)
class Geometry:
    """A convolution over 1, 2 or 3 axes. ``weight`` has the extents of the axes O and I as they are in
    memory: for a transposed convolution I is all input channels and O those outputs that a group has."""

    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    groups: int
    data_layout: Layout
    kernel_layout: Layout
    out_layout: Layout
    data: Mapping[str, Extent]
    weight: Mapping[str, Extent]
    out_dtype: str | None

    @property
    def has_multiplier(self) -> bool:
        """Whether the weight is that of a depthwise convolution in Relay's other form.

        There O counts the input channels and I the results of each one, while the usual form has all
        results on O and an I of one.
        """
        return bool(
            self.groups > 1
            and self.groups == self.data["C"] == self.weight["O"]
            and self.weight["I"] != 1
            and self.kernel_layout.is_plain
        )

    @property
    def kernel_size(self) -> tuple[Extent, ...]:
        return tuple(self.weight[axis] for axis in SPATIAL[len(self.strides)])


def geometry(
    rank: int,
    data: Expression,
    weight: Expression,
    attributes: Attributes,
    *,
    transposed: bool = False,
    blocked: bool = False,
) -> Geometry:
    """The geometry of a call; ModelError where attributes are wrong or contradict the operands."""
    spatial = SPATIAL[rank]
    data_layout = parsed_layout("data_layout", attributes.data_layout, f"NC{spatial}", "C" * blocked)
    kernel_layout = parsed_layout("kernel_layout", attributes.kernel_layout, f"OI{spatial}", "OI" * blocked)
    out = attributes.out_layout or attributes.data_layout
    found = Geometry(
        strides=positive("strides", attributes.strides, rank),
        dilation=positive("dilation", attributes.dilation, rank),
        padding=full_padding(attributes.padding, rank),
        groups=count("groups", attributes.groups),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=parsed_layout("out_layout", out, f"NC{spatial}", "C" * blocked),
        data=logical_extents(data_layout, extents(data), "the data"),
        weight=logical_extents(kernel_layout, extents(weight), "the weight"),
        out_dtype=attributes.out_dtype or (dtype_of(data) if dtype_of(weight) != dtype_of(data) else None),
    )
    if attributes.kernel_size is not None:
        wanted = positive("kernel_size", attributes.kernel_size, rank)
        if _differ(wanted, found.kernel_size):
            raise ModelError(f"kernel_size is {list(wanted)}; the weight has {_listed(found.kernel_size)}")
    _check_groups(found, transposed)
    for axis, window in zip(
        spatial, windows(found.kernel_size, found.strides, found.dilation, found.padding), strict=True
    ):
        if not isinstance(window.size, int) or window.size < 1:
            raise ModelError(f"the weight has {window.size} elements along axis {axis}")
        if not transposed:
            window.check_fits(axis, found.data[axis])
    return found


def _check_groups(found: Geometry, transposed: bool) -> None:
    channels, inputs, outputs = found.data["C"], found.weight["I"], found.weight["O"]
    if not is_static((channels, inputs, outputs)) or found.has_multiplier:
        return
    if transposed:
        fits = inputs == channels and channels % found.groups == 0
    else:
        fits = inputs * found.groups == channels and outputs % found.groups == 0
    if not fits:
        raise ModelError(
            f"{channels} input channels in {found.groups} groups do not fit a weight with {inputs} inputs "
            f"and {outputs} outputs"
        )


def check_channels(attributes: Attributes, outputs: Extent, block: int = 1) -> None:
    """ModelError where ``channels`` is given and is not the number of outputs that the weight has.

    The last of the weight's blocks may have more outputs than there are channels.
    """
    if attributes.channels is None:
        return
    channels = count("channels", attributes.channels)
    if isinstance(outputs, int) and outputs != -(-channels // block) * block:
        raise ModelError(f"channels is {channels}; the weight has {outputs} outputs")


def _differ(wanted: Sequence[Any], found: Sequence[Extent]) -> bool:
    return any(
        isinstance(extent, int) and number != extent for number, extent in zip(wanted, found, strict=True)
    )


def _listed(values: Sequence[Extent]) -> str:
    return f"[{', '.join(str(value) for value in values)}]"


def weight_type(rank: int, *, transposed: bool = False, position: int = 1) -> OperandTypes:
    """The weight's type from the data's channels and the attributes ``channels`` and ``kernel_size``."""
    spatial = SPATIAL[rank]

    def types(known: Sequence[RelayType | None], attributes: Attributes) -> Mapping[int, RelayType]:
        data = known[0]
        if not isinstance(data, TensorType) or attributes.channels is None or attributes.kernel_size is None:
            return {}
        layout = parsed_layout("data_layout", attributes.data_layout, f"NC{spatial}", "C")
        kernel = parsed_layout("kernel_layout", attributes.kernel_layout, f"OI{spatial}", "OI")
        if len(layout.axes) != len(data.shape):
            return {}
        channels = data.shape[layout.axes.index(next(axis for axis in layout.axes if axis.name == "C"))]
        if channels is None:
            return {}
        groups = count("groups", attributes.groups)
        outputs = count("channels", attributes.channels)
        inputs = channels * layout.block("C")
        sizes: dict[str, int | None] = {"O": outputs, "I": inputs // groups}
        if transposed:
            sizes = {"O": outputs // groups, "I": inputs}
        sizes.update(zip(spatial, positive("kernel_size", attributes.kernel_size, rank), strict=True))
        return {position: TensorType(physical_shape(kernel, sizes), data.dtype)}

    return types


def prepare(
    rank: int, operands: Sequence[str], kernel: str
) -> Callable[..., tuple[list[Any], dict[str, Any]]]:
    """Relay's Python arguments as operands and attributes; ``kernel`` is the weight layout of NC and so on.

    A kernel layout of "" is the usual one for the data: channels last there, last here.
    """
    spatial = SPATIAL[rank]

    def arguments(**given: Any) -> tuple[list[Any], dict[str, Any]]:
        values = [given.pop(name) for name in operands]
        given["padding"] = python_padding(given["padding"], rank)
        for name in ("strides", "dilation", "kernel_size", "output_padding"):
            if name in given:
                given[name] = per_axis(given[name], rank)
        if given.get("kernel_layout") == "":
            last = given["data_layout"] == f"N{spatial}C"
            given["kernel_layout"] = f"{spatial}{kernel.replace(spatial, '')[::-1]}" if last else kernel
        return values, given

    return arguments


def shape_attributes(
    rank: int, kernel_layout: str, weight: Expression, groups: int, *, transposed: bool = False
) -> dict[str, Any]:
    """``channels`` and ``kernel_size`` as the weight has them; nothing where they are not known."""
    try:
        sizes = logical_extents(Layout.parse(kernel_layout), extents(weight), "the weight")
    except (LayoutError, ModelError, ValueError):
        return {}
    kernel_size = tuple(sizes[axis] for axis in SPATIAL[rank])
    outputs = sizes["O"] * groups if transposed else sizes["O"]
    if not is_static((*kernel_size, outputs)):
        return {}
    return {"channels": outputs, "kernel_size": kernel_size}
