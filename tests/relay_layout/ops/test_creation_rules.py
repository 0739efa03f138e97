"""Operators that make a tensor, in every layout their rules offer."""

import pytest
from tvm import relax

from tests.relay_layout.ops.every_signature import Case, check_case, image

op = relax.op
X = (image(2, 8, 4, 6),)

CASES: dict[str, Case] = {
    "zeros": ("zeros", lambda: op.zeros((2, 8, 4, 6), "float32"), (), "ACDB ABCD4b", ""),
    "ones": ("ones", lambda: op.ones((2, 1, 4, 6), "float32"), (), "ACDB", ""),
    "broadcast": ("broadcast_to", lambda x: op.broadcast_to(x, (2, 8, 4, 6)), (image(8, 1, 6),), "", ""),
    "one hot": (
        "one_hot",
        lambda x: op.one_hot(op.astype(op.abs(x), "int64"), 1.0, 0.0, 4, 1),
        (image(2, 8, 6),),
        "ACB ABC4b",
        "",
    ),
    "buckets": (
        "bucketize",
        lambda x: op.bucketize(x, relax.const([-1.0, 0.0, 1.0], "float32")),
        X,
        "ACDB ABCD4b",
        "",
    ),
    "einsum": (
        "einsum",
        lambda x, y: op.einsum([x, y], "nchw,ck->nkhw"),
        (X[0], image(8, 4)),
        "ACDB",
        "ABCD4b",
    ),
    "einsum of a diagonal": ("einsum", lambda x: op.einsum([x], "ii->i"), (image(4, 4),), "", "BA"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_layout_computes_the_same(case: Case) -> None:
    check_case(case)
