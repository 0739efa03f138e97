"""Kernels for images of any size: ONNX Runtime's numbers at, below and beyond the usual size."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import relay_layout
from tests.relay_layout.lower.open_images import SIZES, WINDOWS, agree, model_of
from topi_ext.rules import convolution
from topi_ext.schedule.cpu import direct
from topi_ext.schedule.padding_skips import skip_padding


@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window: str, tmp_path: Path) -> None:
    attributes, weight = WINDOWS[window]
    # ONNX Runtime takes no image that a window does not fit into.
    sizes = [size for size in SIZES if window != "uneven" or min(size[1:]) > 1]
    report = agree(model_of(attributes, weight, ("n", 8, "h", "w")), 8, tmp_path, sizes)
    functions = " ".join(call["function"] for call in report["calls"])
    assert "conv2d" in functions and "cut_tiles" not in functions


@pytest.mark.parametrize("width", ["w", 42, 41])
@pytest.mark.parametrize("groups", [1, 32])
def test_rows_of_whole_tiles(
    groups: int, width: str | int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """7 and 21 results of a row are whole tiles of 7; 24, 2 and 1 are not."""
    monkeypatch.setattr(
        convolution, "whole_tile_knobs", lambda workload, processor, knobs: replace(knobs, tile_pixels=7)
    )
    attributes = f"pads=[1,1,1,1], strides=[2,2], group={groups}"
    model = model_of(attributes, (32, 32 // groups, 3, 3), ("n", 32, "h", width))
    widths = [14, 42, 47, 3, 1] if width == "w" else [width]
    agree(model, 32, tmp_path, [(batch, 9 * batch, each) for batch in (1, 2) for each in widths])


def test_products_of_whole_tiles(tmp_path: Path) -> None:
    """49, 63 and 35 pixels are whole tiles of 7 but not of 14; 56 and 196 are both, 64 and 5 neither."""
    model = model_of("group=1", (512, 128, 1, 1), ("n", 128, "h", "w"))
    sizes = [(1, 7, 7), (1, 7, 9), (1, 5, 7), (1, 7, 8), (2, 14, 14), (1, 8, 8), (1, 5, 1), (3, 7, 7)]
    agree(model, 128, tmp_path, sizes)


def test_runs_of_every_length(tmp_path: Path) -> None:
    """Pixels of all rows are one run; the shorter ones have tiles of their own, by tables of lengths."""
    model = model_of("group=1", (80, 48, 1, 1), (1, 48, "h", 1))
    agree(model, 48, tmp_path, [(1, length, 1) for length in (*range(1, 70), 127, 128, 500)])


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


def agree_where_images_are_small(attributes: str, tmp_path: Path) -> None:
    """Of a second convolution, of images with a sixteenth of the first one's pixels along each side."""
    after = f"p = MaxPool <kernel_shape=[16,16], strides=[16,16]> (c)  y = Conv <{attributes}> (p, v)"
    model = model_of("pads=[1,1,1,1]", (16, 8, 3, 3), ("n", 8, "h", "w"), after)
    weight = np.random.default_rng(2).standard_normal((16, 16, 3, 3)).astype("float32")
    model.graph.initializer.append(numpy_helper.from_array(weight, "v"))
    agree(model, 8, tmp_path, [(1, 224, 224), (2, 16, 40), (1, 321, 300)])


def test_images_that_end_small(tmp_path: Path) -> None:
    """Deep in a network images are small, and so are tiles."""
    agree_where_images_are_small("pads=[1,1,1,1]", tmp_path)


def test_taps_that_meet_only_padding_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[int] = []

    def noted(sch: Any, loop: Any, axis: int, workload: Any, side: int, pixels: int) -> None:
        marked.append(side)
        skip_padding(sch, loop, axis, workload, side, pixels)

    monkeypatch.setattr(direct, "skip_padding", noted)
    agree_where_images_are_small("pads=[12,12,12,12], dilations=[12,12]", tmp_path)
    assert set(marked) == {0, 1}


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


SIGNALS = [(1, 40), (2, 7), (3, 129), (1, 1)]
"""Batch and length."""

VOLUMES = [(1, 9, 8, 20), (2, 3, 5, 33), (1, 1, 1, 1)]
"""Batch, planes, rows and columns."""

LENGTHS = {
    "3": ("pads=[1,1]", (24, 8, 3)),
    "strided": ("pads=[2,1], strides=[3]", (16, 8, 5)),
    "dilated": ("pads=[4,4], dilations=[4]", (7, 8, 3)),
    "pointwise": ("pads=[0,0]", (40, 8, 1)),
    "depthwise": ("pads=[8,8], group=8", (8, 1, 17)),
    "groups": ("pads=[1,1], group=2", (12, 4, 3)),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_signals_of_any_length(name: str, tmp_path: Path) -> None:
    attributes, weight = LENGTHS[name]
    model = model_of(attributes, weight, ("n", 8, "t"))
    # ONNX Runtime takes no signal that a window does not fit into.
    sizes = [size for size in SIGNALS if name != "strided" or size[1] > 1]
    report = agree(model, 8, tmp_path, sizes)
    assert report["kernels"]["default"] == 1


def test_a_first_layer_reads_signals_as_they_come(tmp_path: Path) -> None:
    report = agree(model_of("pads=[4,3], strides=[2]", (16, 2, 8), ("n", 2, "t")), 2, tmp_path, SIGNALS)
    assert report["kernels"]["default"] == 1


@pytest.mark.parametrize(
    ("attributes", "weight"),
    [
        ("pads=[1,1,1,1,1,1]", (24, 8, 3, 3, 3)),
        ("pads=[0,0,2,1,0,0], strides=[2,1,2]", (16, 8, 2, 1, 3)),
        ("strides=[1,1,1]", (40, 8, 1, 1, 1)),
        ("strides=[2,1,2]", (40, 8, 1, 1, 1)),
    ],
    ids=["3x3x3", "uneven", "pointwise", "pointwise, strided"],
)
def test_volumes_of_any_size(attributes: str, weight: tuple[int, ...], tmp_path: Path) -> None:
    model = model_of(attributes, weight, ("n", 8, "d", "h", "w"))
    report = agree(model, 8, tmp_path, VOLUMES)
    assert report["kernels"]["default"] == 1


@pytest.mark.parametrize(
    ("attributes", "weight", "sizes"),
    [
        ("strides=[2,2], pads=[1,1,1,1]", (8, 24, 4, 4), SIZES),
        ("strides=[3,2], pads=[0,1,1,0], output_padding=[2,1]", (8, 7, 3, 3), SIZES),
        ("strides=[1,1], pads=[1,1,1,1]", (8, 16, 3, 3), SIZES),
        ("strides=[4], pads=[2,2]", (8, 16, 8), SIGNALS),
        ("strides=[2,2,2]", (8, 16, 2, 2, 2), VOLUMES),
    ],
    ids=["doubled", "uneven", "stride of one", "signals", "volumes"],
)
def test_transposed_convolutions_of_any_size(
    attributes: str, weight: tuple[int, ...], sizes: Sequence[tuple[int, ...]], tmp_path: Path
) -> None:
    image = ("n", 8, *"dhw"[-len(sizes[0]) + 1 :])
    report = agree(model_of(attributes, weight, image, operator="ConvTranspose"), 8, tmp_path, sizes)
    assert report["kernels"]["default"] == 1


@pytest.mark.parametrize("sizes", [SIGNALS, VOLUMES], ids=["signals", "volumes"])
def test_pointwise_with_what_follows_is_one_kernel(sizes: Sequence[tuple[int, ...]], tmp_path: Path) -> None:
    rank = len(sizes[0]) - 1
    model = model_of("group=1", (16, 8, *(1,) * rank), ("n", 8, *"dhw"[-rank:]))
    report = agree(model, 8, tmp_path, sizes)
    (kernel,) = [call["function"] for call in report["calls"] if "conv" in call["function"]]
    assert "add" in kernel and "relu" in kernel
