"""Elementwise operators, reductions and concatenation, in every layout their rules offer."""

import pytest
from tvm import relax

from tests.relay_layout.ops.every_signature import Case, check_case, image

op = relax.op
X = (image(2, 8, 4, 6),)

FOUR = "ACDB DCBA ABCD4b ABCD2b2b AB4bCD"
CASES: dict[str, Case] = {
    "unary": ("nn.relu", op.nn.relu, X, FOUR, ""),
    "clip": ("clip", lambda x: op.clip(x, -1, 1), X, FOUR, ""),
    "cast": ("astype", lambda x: op.astype(x, "float16"), X, FOUR, ""),
    "lower rank": ("add", lambda x: op.add(x, relax.const(image(8, 1, 1))), X, FOUR, ""),
    "constant on the left": (
        "subtract",
        lambda x: op.subtract(relax.const(image(2, 8, 4, 6)), x),
        X,
        FOUR,
        "",
    ),
    "scalar": ("multiply", lambda x: op.multiply(x, relax.const(0.5)), X, FOUR, ""),
    "block does not divide": ("abs", op.abs, (image(2, 6, 4, 6),), "ACDB ABCD2b", "ABCD4b"),
    "unit extent": ("add", lambda x, y: op.add(x, y), (X[0], image(2, 1, 4, 6)), FOUR, ""),
    "where": (
        "where",
        lambda x: op.where(op.greater(x, relax.const(0.0)), x, relax.const(image(4, 1))),
        X,
        FOUR,
        "",
    ),
    "filled alike": ("full_like", lambda x: op.full_like(x, relax.const(2.5)), X, FOUR, ""),
    "ones alike": ("ones_like", op.ones_like, X, FOUR, ""),
    "zeros alike": ("zeros_like", op.zeros_like, X, FOUR, ""),
    "softmax": ("nn.softmax", lambda x: op.nn.softmax(x, -3), X, "ACDB ABCD2d", "ABCD4b"),
    "log softmax": ("nn.log_softmax", lambda x: op.nn.log_softmax(x, 1), X, "ACDB ABCD2d", "ABCD4b"),
    "concat": (
        "concat",
        lambda x, y: op.concat([x, y, x], -3),
        (X[0], image(2, 4, 4, 6)),
        "ACDB ABCD4b",
        "",
    ),
    "concat of units": (
        "concat",
        lambda x, y: op.concat([x, y, x, y], 1),
        (image(2, 1, 4, 6), image(2, 1, 4, 6, seed=4)),
        "ACDB ABCD2d",
        "ABCD4b ABCD2b",
    ),
    "sum kept": ("sum", lambda x: op.sum(x, [1, -1], keepdims=True), X, FOUR, ""),
    "mean": ("mean", lambda x: op.mean(x, [2, 3]), X, FOUR, ""),
    "variance of channels": ("variance", lambda x: op.variance(x, [1]), X, FOUR, ""),
    "deviation kept": ("std", lambda x: op.std(x, [-3], keepdims=True), X, FOUR, ""),
    "all": ("prod", op.prod, X, FOUR, ""),
    "all kept": ("mean", lambda x: op.mean(x, None, keepdims=True), X, FOUR, ""),
    "no axes": ("max", lambda x: op.max(x, []), X, "ACDB", ""),
    "place kept": ("argmax", lambda x: op.argmax(x, -3, keepdims=True), X, "ACDB ABCD2d", "ABCD4b"),
    "place": ("argmin", lambda x: op.argmin(x, 2), X, "ACDB ABCD4b", "ABCD2c"),
    "place among all": ("argmax", op.argmax, X, "", "ACDB"),
    "median": ("median", lambda x: op.median(x, [1]), X, "ACDB ABCD2d", "ABCD4b"),
    "median kept": ("median", lambda x: op.median(x, [-3], keepdims=True), X, "ACDB", "ABCD4b"),
    "median of all": ("median", op.median, X, "", "ACDB"),
    "transpose": ("permute_dims", lambda x: op.permute_dims(x, [0, 2, -1, 1]), X, FOUR, ""),
    "reversed": ("permute_dims", op.permute_dims, X, FOUR, ""),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_layout_computes_the_same(case: Case) -> None:
    check_case(case)
