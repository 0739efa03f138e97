"""Grouped convolutions whose neighbouring groups are taken for one."""

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout.ops import ConvolutionLayouts
from relay_layout.targets.convolutions import Convolution, with_merged_groups
from tests.relax_modules import module_giving

LAYOUTS = ["auto", "NHWC", "NCHW16c", "none"]


def groups_of(inputs: int, outputs: int, groups: int, out: str) -> int:
    convolution = Convolution("nn.conv2d", 1, inputs, outputs, (9, 9), (3, 3), groups)
    return with_merged_groups(convolution, ConvolutionLayouts("NHWC", "HWIO", out))[0].groups


def test_groups_of_sequences() -> None:
    convolution = Convolution("nn.conv1d", 1, 384, 384, (49,), (128,), 16)
    whole, layouts = with_merged_groups(convolution, ConvolutionLayouts("NWC", "WIO", "NCW16c"))
    assert (whole.groups, layouts.kernel) == (8, "OWI16o")


@pytest.mark.parametrize(
    ("inputs", "outputs", "groups", "kernel_groups"),
    [
        (128, 128, 32, 8),
        (64, 64, 4, 4),
        (24, 96, 12, 6),
        (57, 432, 3, 3),
        (24, 48, 12, 3),
        (68, 272, 34, 17),
        (64, 64, 64, 64),
        (64, 128, 64, 64),
        (64, 64, 1, 1),
    ],
)
def test_groups_of_the_kernel(inputs: int, outputs: int, groups: int, kernel_groups: int) -> None:
    """Until outputs fill blocks of 16, which the last but three already do; not for depthwise ones."""
    assert groups_of(inputs, outputs, groups, "NCHW16c") == kernel_groups


def test_no_more_than_sixteen_groups_are_merged() -> None:
    assert groups_of(64, 32, 32, "NCHW32c") == 32


@pytest.mark.parametrize("out", ["NCHW", "NHWC"])
def test_channels_without_blocks_need_no_merging(out: str) -> None:
    assert groups_of(128, 128, 32, out) == 32


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("extents", [(9, 8), (11,)], ids=["images", "sequences"])
@pytest.mark.parametrize(
    ("inputs", "outputs", "groups", "kernel", "stride"),
    [(64, 64, 16, 3, 1), (21, 42, 3, 3, 2), (16, 48, 8, 1, 1), (24, 36, 12, 5, 1)],
)
def test_numbers(
    tmp_path: Path,
    inputs: int,
    outputs: int,
    groups: int,
    kernel: int,
    stride: int,
    extents: tuple[int, ...],
    layout: str,
) -> None:
    rng = np.random.default_rng(groups)
    window = (kernel,) * len(extents)
    weight = rng.standard_normal((outputs, inputs // groups, *window)).astype("float32")
    image = relax.Var("image", relax.TensorType((2, inputs, *extents), "float32"))
    convolve = relax.op.nn.conv2d if len(extents) == 2 else relax.op.nn.conv1d
    layout = layout if len(extents) == 2 else layout.replace("H", "")
    value = convolve(image, relax.const(weight), strides=stride, padding=kernel // 2, groups=groups)
    module = module_giving(value, image)
    data = rng.standard_normal((2, inputs, *extents)).astype("float32")
    untouched = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    expected = untouched["main"](tvm.runtime.tensor(data)).numpy()
    relay_layout.compile(module, desired_layout=layout, threads=1).save(tmp_path / "model.rla")
    (found,) = relay_layout.load(tmp_path / "model.rla", threads=1).run({"image": data}).values()
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5 * float(abs(expected).max()))
