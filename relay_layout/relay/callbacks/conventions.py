"""Relay's usual layouts: which operators ConvertLayout converts, and the kernel layout for "default".

Where Relay's own conversion gives wrong numbers, this differs: a block that does not divide the channels of
a group is refused here, where Relay computed on lanes of the next group.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from relay_layout.errors import LayoutError
from relay_layout.layout import Layout
from relay_layout.relay.callbacks import CONVERT
from relay_layout.relay.callbacks.node_view import NodeView
from relay_layout.relay.operators import TABLE, did_you_mean
from relay_layout.relay.syntax import relay_types, tree
from relay_layout.targets.convolutions import USUAL_KERNELS

_CONV2D = USUAL_KERNELS["nn.conv2d"]

CONVERTED: Mapping[str, Mapping[str, str]] = {
    **USUAL_KERNELS,
    "nn.deformable_conv2d": _CONV2D,
    "nn.conv2d_backward_weight": _CONV2D,
    "nn.max_pool1d": {},
    "nn.max_pool2d": {},
    "nn.max_pool3d": {},
    "nn.avg_pool1d": {},
    "nn.avg_pool2d": {},
    "nn.avg_pool3d": {},
    "nn.global_max_pool2d": {},
    "nn.global_avg_pool2d": {},
    "image.resize1d": {},
    "image.resize2d": {},
    "image.resize3d": {},
    "vision.roi_align": {},
    "vision.roi_pool": {},
    "qnn.conv2d": _CONV2D,
    "qnn.conv2d_transpose": USUAL_KERNELS["nn.conv2d_transpose"],
    "qnn.avg_pool2d": {},
}
"""Operators that ConvertLayout takes entries for, with the kernel layout that goes with a data layout.

nn.depthwise_conv2d stands for the depthwise ones among nn.conv2d, which otherwise go by the entry of that.
"""


def convert_by_convention(seen: NodeView, desired: Sequence[str]) -> tree.Expression | None:
    """The call with the layouts of an entry. LayoutError where no kernel layout is usual for the data's."""
    name, kernels = seen.row.name, CONVERTED[seen.row.name]
    attributes: dict[str, Any] = dict(seen.attributes)
    data = str(Layout.parse(desired[0]))
    if not kernels:
        attributes["layout"] = data
        if attributes.get("out_layout"):
            attributes["out_layout"] = data
        return tree.Call(name, tuple(seen.operands), attributes)
    kernel = desired[1] if len(desired) > 1 else "default"
    if kernel == "default":
        kernel = kernels.get(data, "")
        if not kernel:
            raise LayoutError(
                f"{name}: no kernel layout is usual for data in {data}; name one instead of 'default'"
            )
        if kernel == "HWIO" and "transpose" not in name and _is_depthwise(seen):
            kernel = "HWOI"
    attributes["data_layout"] = data
    attributes["kernel_layout"] = kernel
    if attributes.get("out_layout"):
        attributes["out_layout"] = data
    return tree.Call(name, tuple(seen.operands), attributes)


def names_carried(desired: Mapping[str, Sequence[str]] | None) -> bool:
    """Whether an operator that is carried in Relax under Relay's name has an entry."""
    return any(TABLE[name].carried for name in desired or () if name in TABLE)


def check_desired(desired: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """A dictionary of desired layouts, checked: operators that can be converted, layouts that can be read.

    LayoutError for what cannot be meant.
    """
    if not isinstance(desired, Mapping):
        raise LayoutError(
            'desired layouts: a dictionary such as {"nn.conv2d": ["NHWC", "default"]} is needed, '
            f"not {desired!r}"
        )
    checked: dict[str, list[str]] = {}
    for name, layouts in desired.items():
        if name not in CONVERTED and CONVERT.get(name) is None:
            if name not in TABLE:
                raise LayoutError(
                    f"desired layouts of '{name}': Relay has no such operator{did_you_mean(name)}"
                )
            raise LayoutError(
                f"desired layouts of {name}: it takes the layouts of its neighbours; operators that choose "
                f"are {', '.join(CONVERTED)}, and those with a callback of register_convert_op_layout"
            )
        if isinstance(layouts, str) or not layouts:
            raise LayoutError(f"desired layouts of {name}: a list of layouts is needed, not {layouts!r}")
        checked[name] = [str(layout) for layout in layouts]
        if checked[name][0] == "default":
            raise LayoutError(
                f"desired layouts of {name}: 'default' stands for the kernel layout that goes with the "
                "data's; name the data's, such as 'NHWC'"
            )
        for layout in checked[name]:
            _check_text(name, layout)
        if CONVERT.get(name) is None:
            _check_count(name, checked[name])
            _check_blocks(name, checked[name])
    return checked


def _check_text(name: str, layout: str) -> None:
    if layout == "default":
        return
    try:
        Layout.parse(layout)
    except LayoutError as error:
        raise LayoutError(f"desired layouts of {name}: {error}") from None


def _check_count(name: str, desired: Sequence[str]) -> None:
    """Operators of one layout take a second "default" too, as Relay has it for vision.roi_align."""
    kernels = CONVERTED[name]
    alone = len(desired) == 1 or list(desired[1:]) == ["default"]
    fits = len(desired) == 2 if kernels else alone
    if not fits:
        wanted = "two (data, kernel)" if kernels else "one"
        raise LayoutError(f"desired layouts of {name}: {len(desired)} given, expected {wanted}")


def _check_blocks(name: str, desired: Sequence[str]) -> None:
    """TVM's layouts have one block of each axis at most."""
    for text in desired:
        layout = Layout.parse(text) if text != "default" else None
        blocks = [axis.name for axis in layout.axes if axis.factor is not None] if layout else []
        twice = next((axis for axis in blocks if blocks.count(axis) > 1), None)
        if layout is not None and twice is not None:
            raise LayoutError(
                f"desired layouts of {name}: {text} divides {twice} twice, and one block of an axis is what "
                f"there are kernels for; use {layout.block(twice)}{twice.lower()} alone"
            )


def _is_depthwise(seen: NodeView) -> bool:
    groups = int(seen.attributes["groups"])
    data = seen.types[0]
    if groups == 1 or not isinstance(data, relay_types.TensorType):
        return False
    layout = seen.attributes["data_layout"]
    return layout.isupper() and data.shape[layout.index("C")] == groups
