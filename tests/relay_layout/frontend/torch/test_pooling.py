"""Poolings of images of which the size is open, at several sizes, beside PyTorch's numbers."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.relay_layout.frontend.torch.harness import Every, Functions, assert_agrees, session_of  # noqa: E402

SIZES = [(2, 6, 9, 7), (1, 6, 13, 21), (3, 6, 31, 19)]
"""Odd, as PyTorch assumes where it rounds the number of windows up of an odd example."""

POOLINGS: Functions = {
    "rounded up": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    "rounded up beside padding": lambda x: F.max_pool2d(x, 2, 2, 1, ceil_mode=True),
    "places": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
    "places rounded up": lambda x: F.max_pool2d(x, 2, 2, 1, 2, ceil_mode=True, return_indices=True)[1],
    "unpooled": lambda x: F.max_unpool2d(
        *F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape[2:]
    ).contiguous(),
    "divisor": lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=4),
    "divisor rounded up": lambda x: F.avg_pool2d(x, (2, 3), 2, 1, ceil_mode=True, divisor_override=4),
    "means rounded up": lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True) + x[:, :, ::2, ::2],
    "means rounded up with padding": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "means rounded up beside padding": lambda x: F.avg_pool2d(x, 3, 3, 1, True, count_include_pad=False),
    "means of volumes rounded up": lambda x: F.avg_pool3d(x, (2, 3, 2), 2, (0, 1, 1), ceil_mode=True),
    "largest of parts": lambda x: F.adaptive_max_pool2d(x, (3, 4)),
    "largest of rows": lambda x: F.adaptive_max_pool1d(x[:, :, 1], 3),
    "places in parts": lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True)[1],
    "places of equal ones": lambda x: F.adaptive_max_pool2d(x.round(), (4, 2), return_indices=True)[1],
    "places in rows": lambda x: F.adaptive_max_pool1d(x[:, :, 1], 3, return_indices=True)[1],
    "places in images": lambda x: F.adaptive_max_pool2d(x, 1, return_indices=True)[1],
    "places in volumes": lambda x: F.adaptive_max_pool3d(x, (4, 3, 2), return_indices=True)[1],
    "means of rows": lambda x: F.adaptive_avg_pool2d(x, (None, 1)),
    "means of halves": lambda x: F.adaptive_avg_pool2d(x, (x.shape[2] // 2, x.shape[3] // 2)),
    "means of parts of volumes": lambda x: F.adaptive_avg_pool3d(x, (2, None, x.shape[3] // 2)).contiguous(),
}


def test_poolings_agree(tmp_path: Path) -> None:
    model = Every(POOLINGS).eval()
    axes = {axis: Dim.AUTO for axis in (0, 2, 3)}
    session = session_of(model, tmp_path, (torch.randn(SIZES[0]),), dynamic_shapes=((axes,),))
    for size in SIZES:
        assert_agrees(session, model, (torch.randn(size),), str(size))
