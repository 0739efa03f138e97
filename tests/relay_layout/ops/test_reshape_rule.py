"""Reshapes, in every layout their rule offers."""

import pytest
from tvm import relax

from tests.relay_layout.ops.every_signature import Case, check_case, image

op = relax.op
X = (image(2, 8, 4, 6),)

CASES: dict[str, Case] = {
    "split channels": ("reshape", lambda x: op.reshape(x, (2, 2, 4, 4, 6)), X, "ACDB ABCD4b", "ABCD8b"),
    "split within a block": ("reshape", lambda x: op.reshape(x, (2, 4, 2, 4, 6)), X, "ACDB ABCD2b", "ABCD4b"),
    "merge pixels": ("reshape", lambda x: op.reshape(x, (2, 8, 24)), X, "ACDB ABCD4b ABCD2d", "ADBC"),
    "merge channels": (
        "reshape",
        lambda x: op.reshape(x, (2, 16, 4, 6)),
        (image(2, 4, 4, 4, 6),),
        "ABCDE4c",
        "EDCBA",
    ),
    "without the batch": (
        "reshape",
        lambda x: op.reshape(x, (8, 4, 6)),
        (image(1, 8, 4, 6),),
        "ACDB ABCD4b",
        "",
    ),
    "leading unit": ("reshape", lambda x: op.reshape(x, (1, 2, 8, 4, 6)), X, "ACDB ABCD4b", ""),
    "trailing units": ("reshape", lambda x: op.reshape(x, (2, 8)), (image(2, 8, 1, 1),), "BACD", ""),
    "flatten": ("flatten", op.flatten, X, "ABCD2d", "ACDB"),
    "batch flatten": ("nn.batch_flatten", op.nn.batch_flatten, X, "ABCD2d", "ACDB ABCD4b"),
    "nothing alike": ("reshape", lambda x: op.reshape(x, (3, 128)), X, "ABCD2d", "ACDB"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_layout_computes_the_same(case: Case) -> None:
    check_case(case)
