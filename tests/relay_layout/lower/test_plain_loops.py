"""A layout that was asked for and that no kernel takes is told of."""

import warnings

import pytest
import tvm

import relay_layout
from relay_layout import relay
from relay_layout.errors import RelayLayoutWarning

NETWORK = """
def @main(%x: Tensor[(1, 16, 6, 6), float32], %w: Tensor[(16, 16, 1, 1), float32]) {
    nn.relu(nn.conv2d(%x, %w, channels=16, kernel_size=[1, 1])) }"""
MESSAGE = (
    "target x86-64-v3 has no kernel for 1 of 3 functions, convolutions in NHCW: plain loops, many "
    "times slower; 'auto' chooses layouts with kernels"
)


def test_a_layout_without_kernels() -> None:
    with pytest.warns(RelayLayoutWarning) as told:
        relay_layout.compile(relay.fromtext(NETWORK), target="x86-64-v3", desired_layout="NHCW")
    assert [str(warning.message) for warning in told] == [MESSAGE]


@pytest.mark.parametrize("layout", ["auto", "none", "NHWC", "NCHW8c"])
def test_layouts_with_kernels(layout: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RelayLayoutWarning)
        relay_layout.compile(relay.fromtext(NETWORK), target="x86-64-v3", desired_layout=layout)


def test_a_module_that_was_converted_before() -> None:
    module = relay.transform.ConvertLayout({"nn.conv2d": ["NHCW", "default"]})(relay.fromtext(NETWORK))
    with pytest.warns(RelayLayoutWarning, match="convolutions in NHCW: plain loops"):
        relay.build(module, "llvm")
    with tvm.transform.PassContext(opt_level=3), warnings.catch_warnings():
        warnings.simplefilter("error", RelayLayoutWarning)
        relay.build(module, "llvm")
