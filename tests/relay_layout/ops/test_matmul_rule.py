"""Matrix products, in every layout their rule offers."""

import pytest
from tvm import relax

from tests.relay_layout.ops.every_signature import Case, check_case, image

op = relax.op
X = (image(2, 8, 4, 6),)

CASES: dict[str, Case] = {
    "one matrix": (
        "matmul",
        lambda x: op.matmul(x, relax.const(image(6, 5))),
        X,
        "BACD AB4bCD",
        "ACDB ABCD4b",
    ),
    "a batch of them": ("matmul", op.matmul, (X[0], image(2, 8, 6, 4)), "BACD AB4bCD", "ACDB ABCD2c"),
    "broadcast": ("matmul", op.matmul, (X[0], image(1, 1, 6, 4)), "BACD AB4bCD", "ACDB"),
    "rows broadcast": ("matmul", op.matmul, (image(4, 6), image(2, 8, 6, 4)), "AB", "BA"),
    "vector": ("matmul", lambda x: op.matmul(x, relax.const(image(6))), X, "", "BACD"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_layout_computes_the_same(case: Case) -> None:
    check_case(case)
