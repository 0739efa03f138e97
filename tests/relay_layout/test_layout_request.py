"""What may be asked of layouts, and what contradicts itself."""

from typing import Any

import pytest

from relay_layout.errors import LayoutError
from relay_layout.layout_request import LayoutRequest

RELAYS = {"nn.conv2d": ["NCHW16c", "default"]}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            {"desired_layout": "NHWC", "desired_layouts": RELAYS},
            "desired_layouts cannot be combined with desired_layout or desired_layout_ops; give one of them",
        ),
        (
            {"desired_layout_ops": ["nn.conv2d"], "desired_layouts": RELAYS},
            "desired_layouts cannot be combined with desired_layout or desired_layout_ops; give one of them",
        ),
        (
            {"desired_layout_ops": ["nn.conv2d"]},
            "desired_layout_ops needs a layout for them, but desired_layout is 'auto'; name one",
        ),
        (
            {"desired_layout": "NHWC", "desired_layout_ops": "nn.conv2d"},
            "desired_layout_ops is a list of operators, not 'nn.conv2d'",
        ),
        ({"desired_layout": None}, "desired_layout is one name, such as 'NHWC', not None"),
        ({"desired_layouts": ["NHWC"]}, "desired_layouts maps operators to layouts, but is ['NHWC']"),
        ({"skip_layers": 0}, "skip_layers is a list of positions of convolutions, not 0"),
        (
            {"desired_layout": "NHWC", "desired_layout_ops": []},
            "desired_layout_ops is a list of operators, not []",
        ),
        (
            {"desired_layouts": {1: ["NHWC"]}},
            "desired_layouts maps operators to layouts, but is {1: ['NHWC']}",
        ),
        ({"skip_layers": None}, "skip_layers is a list of positions of convolutions, not None"),
        (
            {"input_layouts": "NHWC"},
            "input_layouts maps names to layouts, such as {'input': 'NHWC'}, but is 'NHWC'",
        ),
        (
            {"output_layouts": {"y": 1}},
            "output_layouts maps names to layouts, such as {'input': 'NHWC'}, but is {'y': 1}",
        ),
        (
            {"input_dim_orders": {"input": 5}},
            "input_dim_orders maps names to orders of dimensions, such as {'input': (0, 2, 3, 1)}, "
            "but is {'input': 5}",
        ),
        (
            {"output_dim_orders": {"y": (0, 1.0)}},
            "output_dim_orders maps names to orders of dimensions, such as {'input': (0, 2, 3, 1)}, "
            "but is {'y': (0, 1.0)}",
        ),
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
