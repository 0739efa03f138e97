"""Elements by index, in every layout their rules offer."""

import numpy as np
import pytest
from tvm import relax

from tests.relay_layout.ops.every_signature import Case, check_case, image, integers

op = relax.op
X = (image(2, 8, 4, 6),)

INDICES = integers([0, 3, 1], [2, 2, 0])
UPDATES = relax.const(image(2, 4, 6, seed=3))
CASES: dict[str, Case] = {
    "vector": ("take", lambda x: op.take(x, integers(0, 3, 1), 1), X, "ACDB ABCD2d", "ABCD4b"),
    "matrix": ("take", lambda x: op.take(x, INDICES, -3), X, "ACDB ABCD2d", "ABCD4b"),
    "scalar": ("take", lambda x: op.take(x, relax.const(3, "int64"), 1), X, "ACDB ABCD2d", "ABCD4b"),
    "number": ("take", lambda x: op.take(x, relax.prim_value(2), 2), X, "ACDB ABCD4b", "ABCD2c"),
    "embedding": (
        "take",
        lambda table, places: op.take(table, places, 0),
        (image(5, 8), np.random.default_rng(0).integers(0, 5, (2, 4, 6))),
        "AB BA AB4b",
        "AB2a",
    ),
    "gather pairs": (
        "gather_nd",
        lambda x: op.gather_nd(x, integers([0, 1], [1, 7])),
        X,
        "ABCD2d",
        "ACDB ABCD4b",
    ),
    "gather in a batch": ("gather_nd", lambda x: op.gather_nd(x, integers([1], [7]), 1), X, "ABCD2d", "BACD"),
    "scatter pairs": (
        "scatter_nd",
        lambda x: op.scatter_nd(x, integers([1, 3], [0, 2]), UPDATES),
        X,
        "ABCD2d",
        "ACDB ABCD4b",
    ),
    "scatter images": (
        "scatter_nd",
        lambda x: op.scatter_nd(x, integers([1], [0]), relax.const(image(2, 8, 4, 6, seed=3)), "add"),
        X,
        "ACDB ABCD4b ADBC",
        "BACD",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_layout_computes_the_same(case: Case) -> None:
    check_case(case)
