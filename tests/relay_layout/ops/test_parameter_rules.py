"""Normalisations, prelu and quantisation, in every layout their rules offer."""

import numpy as np
import pytest
from tvm import relax

from tests.relay_layout.ops.every_signature import Case, check_case, image, vector

op = relax.op
X = (image(2, 8, 4, 6),)

STATISTICS = [vector(8, seed) for seed in range(4)]
ZEROS = relax.const(np.arange(8, dtype="int8"), "int8")
CASES: dict[str, Case] = {
    "layer norm": (
        "nn.layer_norm",
        lambda x: op.nn.layer_norm(x, vector(8), vector(8, 2), axes=[-3]),
        X,
        "ACDB ABCD4b DCBA",
        "",
    ),
    "layer norm over two axes": (
        "nn.layer_norm",
        lambda x: op.nn.layer_norm(
            x, relax.const(image(8, 4)), relax.const(image(8, 4, seed=2)), axes=[1, 2]
        ),
        X,
        "ACDB ABCD4b DCBA ABCD2b2b",
        "",
    ),
    "rms norm": (
        "nn.rms_norm",
        lambda x: op.nn.rms_norm(x, relax.const(image(4, 6)), axes=[-2, -1]),
        X,
        "BACD ABCD2d ACDB ABCD4c",
        "",
    ),
    "instance norm": (
        "nn.instance_norm",
        lambda x: op.nn.instance_norm(x, vector(8), vector(8, 2), channel_axis=1, axes=[2, -1]),
        X,
        "ACDB ABCD4b ABCD2b2b ABCD2d AB4bCD",
        "",
    ),
    "group norm": (
        "nn.group_norm",
        lambda x: op.nn.group_norm(x, vector(8), vector(8, 2), num_groups=4, channel_axis=1, axes=[2, 3]),
        X,
        "ACDB ABCD4b ABCD2b ABCD2d",
        "ABCD2b2b",
    ),
    "batch norm": (
        "nn.batch_norm",
        lambda x: op.nn.batch_norm(x, *STATISTICS, axis=1, training=False),
        X,
        "ACDB ABCD4b ABCD2b2b",
        "",
    ),
    "batch norm without scale": (
        "nn.batch_norm",
        lambda x: op.nn.batch_norm(x, *STATISTICS, axis=1, scale=False, center=False, training=False),
        X,
        "ABCD4b",
        "",
    ),
    "batch norm in training": (
        "nn.batch_norm",
        lambda x: op.nn.batch_norm(x, *STATISTICS, axis=1, training=True),
        X,
        "ACDB",
        "ABCD4b",
    ),
    "prelu": ("nn.prelu", lambda x: op.nn.prelu(x, vector(8), 1), X, "ACDB ABCD4b DCBA", ""),
    "prelu of one slope": ("nn.prelu", lambda x: op.nn.prelu(x, vector(1), 1), X, "ACDB ABCD4b", ""),
    "quantize": ("quantize", lambda x: op.quantize(x, vector(8), ZEROS, 1), X, "ACDB ABCD2d", "ABCD4b"),
    "quantize alike": (
        "quantize",
        lambda x: op.quantize(x, relax.const(0.1), relax.const(3, "int8"), 1),
        X,
        "ACDB ABCD4b",
        "",
    ),
    "dequantize": (
        "dequantize",
        lambda x: op.dequantize(op.astype(x, "int8"), vector(8), ZEROS, -3),
        (image(2, 8, 4, 6) * 50,),
        "ACDB",
        "ABCD4b",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_layout_computes_the_same(case: Case) -> None:
    check_case(case)
