"""What convolutions are estimated to take, where their weights decide it."""

import numpy as np
import pytest
from tvm import relax

from relay_layout.graph import Node, build_graph
from relay_layout.ir import constant
from relay_layout.targets import resolve_target
from relay_layout.targets.offers import TargetOffers
from tests.relax_modules import module_giving


def _first_layer(largest: int) -> Node:
    """Three channels of bytes by weights of up to ``largest``."""
    weight = np.random.default_rng(0).integers(-largest, largest + 1, (64, 3, 7, 7)).astype("int8")
    data = relax.Var("data", relax.TensorType([1, 3, 224, 224], "uint8"))
    sums = relax.op.nn.conv2d(data, constant(weight), strides=(2, 2), padding=(3, 3, 3, 3), out_dtype="int32")
    (node,) = build_graph(module_giving(sums, data)["main"]).nodes
    return node


def _microseconds(cpu: str, largest: int) -> dict[str, float]:
    """Of each layout of the data, the least."""
    offers = TargetOffers(resolve_target(cpu, threads=2))
    found: dict[str, float] = {}
    for layouts in offers.convolution_layouts(_first_layer(largest)):
        found[layouts.data] = min(layouts.cost, found.get(layouts.data, layouts.cost))
    return found


def test_words_of_a_row_are_worth_it_without_instructions_for_words() -> None:
    """Of bytes where pairs of products fit 16 bits, and of bytes that are widened."""
    seven, eight = _microseconds("x86-64-v3", 63), _microseconds("x86-64-v3", 127)
    assert seven["NCHW"] <= eight["NCHW"] < 0.7 * eight["NHWC"]
    assert seven["NHWC"] == eight["NHWC"]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_bits_of_weights_are_nothing_to_instructions_for_words(layout: str) -> None:
    assert _microseconds("znver4", 63)[layout] == _microseconds("znver4", 127)[layout]
