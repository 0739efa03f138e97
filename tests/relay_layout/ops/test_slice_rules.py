"""Slices, in every layout their rule offers."""

import pytest
from tvm import relax

from tests.relay_layout.ops.every_signature import Case, check_case, image

op = relax.op
X = (image(2, 8, 4, 6),)

CASES: dict[str, Case] = {
    "whole blocks": ("strided_slice", lambda x: op.strided_slice(x, [1], [4], [9]), X, "ACDB ABCD4b", ""),
    "across blocks": ("strided_slice", lambda x: op.strided_slice(x, [1], [2], [6]), X, "ABCD2b", "ABCD4b"),
    "from the end": ("strided_slice", lambda x: op.strided_slice(x, [-3], [-4], [8]), X, "ACDB ABCD4b", ""),
    "strides": (
        "strided_slice",
        lambda x: op.strided_slice(x, [1, -1], [0, 0], [9, 6], [2, 1]),
        X,
        "ACDB",
        "ABCD4b",
    ),
    "backwards": (
        "strided_slice",
        lambda x: op.strided_slice(x, [2], [-1], [-5], [-1]),
        X,
        "ACDB ABCD4b",
        "ABCD2c",
    ),
    "one of them": ("strided_slice", lambda x: op.strided_slice(x, [1], [0], [1]), X, "ACDB", "ABCD4b"),
    "empty": ("strided_slice", lambda x: op.strided_slice(x, [1], [4], [4]), X, "ACDB", "ABCD4b"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_layout_computes_the_same(case: Case) -> None:
    check_case(case)
