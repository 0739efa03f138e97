"""Convolutions in layouts without kernels of any size: tiles of a known size, cut and joined."""

from pathlib import Path

import pytest

from tests.relay_layout.lower.open_images import SIZES, WINDOWS, agree, model_of


@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window: str, tmp_path: Path) -> None:
    attributes, weight = WINDOWS[window]
    # ONNX Runtime takes no image that a window does not fit into.
    sizes = [size for size in SIZES if window != "uneven" or min(size[1:]) > 1]
    model = model_of(attributes, weight, ("n", 8, "h", "w"))
    report = agree(model, 8, tmp_path, sizes, desired_layout="NCHW")
    functions = " ".join(call["function"] for call in report["calls"])
    assert "cut_tiles" in functions and "join_tiles" in functions
