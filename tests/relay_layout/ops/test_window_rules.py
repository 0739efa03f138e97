"""Pools, resizing and regions of interest, in every layout their rules offer."""

import numpy as np
import pytest
from tvm import relax

from tests.relay_layout.ops.every_signature import Case, check_case, image

op = relax.op
X = (image(2, 8, 4, 6),)

X1, X3 = (image(2, 8, 6),), (image(2, 8, 4, 4, 6),)
REGIONS = relax.const(np.array([[0, 0, 0, 3, 3], [1, 1, 0, 5, 2], [0, 0, 1, 2, 2]], "float32"))
CASES: dict[str, Case] = {
    "max 1-D": ("nn.max_pool1d", lambda x: op.nn.max_pool1d(x, (3,), (2,), (1, 1)), X1, "ACB ABC4b", ""),
    "avg 1-D": ("nn.avg_pool1d", lambda x: op.nn.avg_pool1d(x, (3,), layout="NWC"), X1, "ACB", ""),
    "adaptive 1-D": (
        "nn.adaptive_avg_pool1d",
        lambda x: op.nn.adaptive_avg_pool1d(x, (2,)),
        X1,
        "ACB ABC4b",
        "ABC2c",
    ),
    "max 2-D": (
        "nn.max_pool2d",
        lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 0, 1, 0), ceil_mode=True),
        X,
        "ACDB DCBA ABCD4b",
        "ABCD2c ABCD2b2b",
    ),
    "avg 2-D channels last": (
        "nn.avg_pool2d",
        lambda x: op.nn.avg_pool2d(x, (2, 2), (1, 1), (1, 1, 0, 0), layout="NHWC"),
        X,
        "ADBC ABCD2d",
        "ABCD4b",
    ),
    "adaptive 2-D": (
        "nn.adaptive_avg_pool2d",
        lambda x: op.nn.adaptive_avg_pool2d(x, (2, 3)),
        X,
        "ACDB ABCD4b",
        "",
    ),
    "global": (
        "nn.adaptive_avg_pool2d",
        lambda x: op.nn.adaptive_avg_pool2d(x, (1, 1)),
        X,
        "ACDB ABCD4b",
        "",
    ),
    "max 3-D": (
        "nn.max_pool3d",
        lambda x: op.nn.max_pool3d(x, (2, 2, 2), (2, 2, 2)),
        X3,
        "ACDEB ABCDE4b",
        "",
    ),
    "avg 3-D": (
        "nn.avg_pool3d",
        lambda x: op.nn.avg_pool3d(x, (2, 2, 3), (2, 1, 1), (1, 0, 1, 0, 1, 1)),
        X3,
        "ACDEB ABCDE4b",
        "",
    ),
    "adaptive 3-D": (
        "nn.adaptive_avg_pool3d",
        lambda x: op.nn.adaptive_avg_pool3d(x, (2, 1, 3)),
        X3,
        "ACDEB ABCDE4b",
        "",
    ),
    "resize": ("image.resize2d", lambda x: op.image.resize2d(x, (5, 9)), X, "ACDB ABCD4b", "BACD"),
    "resize cubic": (
        "image.resize2d",
        lambda x: op.image.resize2d(x, (5, 9), layout="NHWC", method="cubic"),
        X,
        "ADBC",
        "ACDB",
    ),
    "resize 3-D": ("image.resize3d", lambda x: op.image.resize3d(x, (5, 3, 9)), X3, "ACDEB", "EDCBA"),
    "regions": (
        "vision.roi_align",
        lambda x: op.vision.roi_align(x, REGIONS, (2, 2), 1.0, 2),
        X,
        "ACDB",
        "ABCD4b",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_layout_computes_the_same(case: Case) -> None:
    check_case(case)
