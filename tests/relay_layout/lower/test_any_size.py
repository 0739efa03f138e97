"""Kernels for images of any size: ONNX Runtime's numbers at, below and beyond the usual size."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import relay_layout
from tests.relay_layout.lower.open_images import SIZES, WINDOWS, agree, model_of


@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window: str, tmp_path: Path) -> None:
    attributes, weight = WINDOWS[window]
    # ONNX Runtime takes no image that a window does not fit into.
    sizes = [size for size in SIZES if window != "uneven" or min(size[1:]) > 1]
    report = agree(model_of(attributes, weight, ("n", 8, "h", "w")), 8, tmp_path, sizes)
    functions = " ".join(call["function"] for call in report["calls"])
    assert "conv2d" in functions and "cut_tiles" not in functions


@pytest.mark.parametrize("image", [("n", 8, "h", 24), ("n", 8, 24, "w"), (2, 8, "h", "w")], ids=str)
def test_one_open_extent(image: tuple[Any, ...], tmp_path: Path) -> None:
    sizes = [(2, 24, 24)]
    if image[2] == "h":
        sizes += [(2, 7, 24), (2, 40, 24)]
    if image[3] == "w":
        sizes += [(2, 24, 7), (2, 24, 41)]
    agree(model_of("pads=[1,1,1,1]", (16, 8, 3, 3), image), 8, tmp_path, sizes)


@pytest.mark.parametrize("layout", ["none", "NCHW", "NHWC", "NCHW8c"])
def test_layouts(layout: str, tmp_path: Path) -> None:
    model = model_of("pads=[1,1,1,1]", (16, 8, 3, 3), ("n", 8, "h", "w"))
    agree(model, 8, tmp_path, SIZES, desired_layout=layout)


@pytest.mark.parametrize("strides", [1, 2])
def test_channels_that_fill_no_vector(strides: int, tmp_path: Path) -> None:
    attributes = f"pads=[1,1,1,1], strides=[{strides},{strides}], group=120"
    model = model_of(attributes, (120, 1, 3, 3), ("n", 120, "h", "w"))
    agree(model, 120, tmp_path, [*SIZES, (1, 56, 31)])


def test_images_that_end_small(tmp_path: Path) -> None:
    """Deep in a network images are small, and so are tiles."""
    after = "p = MaxPool <kernel_shape=[16,16], strides=[16,16]> (c)  y = Conv <pads=[1,1,1,1]> (p, v)"
    model = model_of("pads=[1,1,1,1]", (16, 8, 3, 3), ("n", 8, "h", "w"), after)
    weight = np.random.default_rng(2).standard_normal((16, 16, 3, 3)).astype("float32")
    model.graph.initializer.append(numpy_helper.from_array(weight, "v"))
    agree(model, 8, tmp_path, [(1, 224, 224), (2, 16, 40), (1, 321, 300)])


def test_channels_last_are_chosen(tmp_path: Path) -> None:
    conversion = relay_layout.convert(model_of("pads=[1,1,1,1]", (16, 8, 3, 3), ("n", 8, "h", "w")))
    assert set(conversion.report["layouts"].values()) == {"NHWC->NHWC"}


def test_winograds_kernel(tmp_path: Path) -> None:
    """Many channels are worth it; one kernel reads and writes the image."""
    model = model_of("pads=[1,1,1,1]", (64, 64, 3, 3), ("n", 64, "h", "w"))
    report = agree(model, 64, tmp_path, [(1, 56, 56), (2, 17, 40), (1, 3, 5)], target="x86-64-v3")
    (function,) = [call["function"] for call in report["calls"] if "conv2d" in call["function"]]
    assert "winograd" in function and "relu" in function


def test_without_winograd(tmp_path: Path) -> None:
    model = model_of("pads=[1,1,1,1]", (64, 64, 3, 3), ("n", 64, "h", "w"))
    report = agree(model, 64, tmp_path, [(1, 17, 40)], target="x86-64-v3", winograd=False)
    assert not any("winograd" in call["function"] for call in report["calls"])
