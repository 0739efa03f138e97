"""What may be asked of layouts, and what contradicts itself."""

from typing import Any

import pytest

from relay_layout.errors import LayoutError
from relay_layout.request import LayoutRequest

RELAYS = {"nn.conv2d": ["NCHW16c", "default"]}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            {"desired_layout": "NHWC", "desired_layouts": RELAYS},
            "desired_layouts cannot be combined with desired_layout or desired_layout_ops; give one of them",
        ),
        (
            {"operators": ["nn.conv2d"], "desired_layouts": RELAYS},
            "desired_layouts cannot be combined with desired_layout or desired_layout_ops; give one of them",
        ),
        (
            {"operators": ["nn.conv2d"]},
            "desired_layout_ops needs a layout for them, but desired_layout is 'auto'; name one",
        ),
        (
            {"desired_layout": "NHWC", "operators": "nn.conv2d"},
            "desired_layout_ops is a list of operators, not 'nn.conv2d'",
        ),
        ({"desired_layout": None}, "desired_layout is one name, such as 'NHWC', not None"),
        ({"desired_layouts": ["NHWC"]}, "desired_layouts maps operators to layouts, but is ['NHWC']"),
        ({"skip_layers": 0}, "skip_layers is a list of positions of convolutions, not 0"),
        ({"skip_layers": ["conv"]}, "skip_layers is a list of positions of convolutions, not ['conv']"),
    ],
)
def test_contradictions_are_refused(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(LayoutError) as caught:
        LayoutRequest.parse(**asked)
    assert str(caught.value) == told


def test_a_layout_for_some_operators_is_relays_dictionary() -> None:
    request = LayoutRequest.parse("NHWC", ["relax.nn.conv2d"])
    assert request.desired_layouts == {"nn.conv2d": ["NHWC", "default"]}
    assert request.for_all is None
