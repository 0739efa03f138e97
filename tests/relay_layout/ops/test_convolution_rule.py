"""Convolutions of every rank, plain and transposed: what they are offered, in the module's own letters."""

import numpy as np
import pytest
from tvm import relax

from relay_layout.ops import ConvolutionLayouts
from tests.relay_layout.ops.every_signature import Emit, check, function_of, image, signatures_of

op = relax.op


def weight(*shape: int) -> relax.Expr:
    return relax.const(image(*shape, seed=7))


def offers(*texts: str) -> list[ConvolutionLayouts]:
    return [ConvolutionLayouts(*text.split()) for text in texts]


OFFERED = {
    "nn.conv1d": (lambda x: op.nn.conv1d(x, weight(8, 4, 3)), (2, 4, 7), "NWC WIO NWC", "ACB CBA ACB"),
    "nn.conv2d": (
        lambda x: op.nn.conv2d(x, weight(8, 4, 3, 3)),
        (2, 4, 7, 6),
        "NCHW4c OHWI8o NHWC",
        "ABCD4b ACDB8a ACDB",
    ),
    "nn.conv3d": (
        lambda x: op.nn.conv3d(x, weight(8, 4, 3, 3, 3)),
        (2, 4, 7, 6, 5),
        "NDHWC DHWIO NDHWC",
        "ACDEB CDEBA ACDEB",
    ),
    "nn.conv1d_transpose": (
        lambda x: op.nn.conv1d_transpose(x, weight(4, 8, 3)),
        (2, 4, 7),
        "NWC WIO NWC",
        "ACB CAB ACB",
    ),
    "nn.conv2d_transpose": (
        lambda x: op.nn.conv2d_transpose(x, weight(4, 8, 3, 3)),
        (2, 4, 7, 6),
        "NHWC HWIO NCHW8c",
        "ACDB CDAB ABCD8b",
    ),
    "nn.conv3d_transpose": (
        lambda x: op.nn.conv3d_transpose(x, weight(4, 8, 3, 3, 3)),
        (2, 4, 7, 6, 5),
        "NDHWC IODHW4i NDHWC",
        "ACDEB ABCDE4a ACDEB",
    ),
}


@pytest.mark.parametrize("operator", OFFERED)
def test_an_offer_becomes_a_signature_over_the_original_dimensions(operator: str) -> None:
    emit, shape, offered, expected = OFFERED[operator]
    function = function_of(emit, image(*shape))
    (signature,) = signatures_of(function, operator, offers(offered))
    assert " ".join(map(str, (*signature.operands, *signature.results))) == expected
    assert [*signature.attributes.values()] == offered.split()


REFUSED = {
    "a block that does not divide": "NCHW8c OIHW NHWC",
    "other letters": "NCWX OIWX NCWX",
    "another rank": "NWC WIO NWC",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_an_offer_that_does_not_fit_is_refused(reason: str) -> None:
    function = function_of(lambda x: op.nn.conv2d(x, weight(8, 4, 3, 3)), image(2, 4, 7, 6))
    assert signatures_of(function, "nn.conv2d", offers(REFUSED[reason])) == []


def depthwise(x: relax.Var) -> relax.Expr:
    return op.nn.conv2d(x, weight(8, 1, 3, 3), padding=1, groups=8)


def channels_last(x: relax.Var) -> relax.Expr:
    return op.nn.conv2d(x, weight(3, 3, 6, 8), strides=2, data_layout="NHWC", kernel_layout="HWIO")


EXECUTED: dict[str, tuple[Emit, np.ndarray, list[ConvolutionLayouts]]] = {
    "pointwise": (
        lambda x: op.nn.conv2d(x, weight(4, 8, 1, 1)),
        image(2, 8, 4, 6),
        offers("NHWC HWIO NHWC", "NCHW4c OIHW4o NCHW4c", "NCHW8c OHWI4o NHWC"),
    ),
    "depthwise": (depthwise, image(2, 8, 4, 6), offers("NHWC HWOI NHWC", "NCHW4c OIHW4o NCHW4c")),
    "channels last": (
        channels_last,
        image(2, 8, 4, 6),
        offers("NCHW OIHW NCHW", "NCHW2c OIHW8o NCHW8c", "NHWC OHWI NCHW8c"),
    ),
}


@pytest.mark.parametrize("case", EXECUTED)
def test_every_offer_computes_the_same(case: str) -> None:
    emit, data, offered = EXECUTED[case]
    found = check("nn.conv2d", emit, data, convolutions=offered, tolerance=1e-4)
    assert len(found) >= 2
