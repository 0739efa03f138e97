"""Convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.direct import DTYPE, OUT_LAYOUT, direct
from relay_layout.relay.syntax.tree import RelayType, TensorType


def _weight_type(types: Sequence[RelayType | None], attributes: Attributes) -> Mapping[int, RelayType]:
    """The weight, from the data's channels and the attributes ``channels`` and ``kernel_size``."""
    data = types[0]
    if not isinstance(data, TensorType) or attributes.channels is None or attributes.kernel_size is None:
        return {}
    layout = attributes.data_layout
    if len(layout) != len(data.shape):
        return {}
    channels = data.shape[layout.index("C")]
    if channels is None:
        return {}
    extents: dict[str, int] = {"O": attributes.channels, "I": channels // attributes.groups}
    spatial = [axis for axis in attributes.kernel_layout if axis not in "OI"]
    extents.update(zip(sorted(spatial, key="DHW".index), attributes.kernel_size, strict=True))
    return {1: TensorType(tuple(extents[axis] for axis in attributes.kernel_layout), data.dtype)}


ROWS = (
    direct(
        "nn.conv2d",
        "data weight",
        "Conv2DAttrs",
        fields={
            "strides": "strides",
            "padding": "padding",
            "dilation": "dilation",
            "groups": "groups",
            "data_layout": "data_layout",
            "kernel_layout": "kernel_layout",
            "out_layout": OUT_LAYOUT,
            "out_dtype": DTYPE,
        },
        signature=(
            "data, weight, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels=None, "
            "kernel_size=None, data_layout='NCHW', kernel_layout='', out_layout='', out_dtype=''"
        ),
        operand_types=_weight_type,
    ),
)
