"""Operators that move, repeat or drop elements, in every layout their rules offer."""

import numpy as np
import pytest
from tvm import relax

from tests.relay_layout.ops.every_signature import Case, check_case, image, integers

op = relax.op
X = (image(2, 8, 4, 6),)

ONE = (image(2, 1, 4, 6),)
PLACES = np.random.default_rng(5)
CASES: dict[str, Case] = {
    "pad": (
        "nn.pad",
        lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 2, 0, 0], "constant", 0.5),
        X,
        "ACDB ABCD4b",
        "ABCD2c",
    ),
    "pad by blocks": ("nn.pad", lambda x: op.nn.pad(x, [0, 0, 4, 4, 0, 0, 0, 0]), X, "ACDB ABCD4b", ""),
    "pad of one channel": ("nn.pad", lambda x: op.nn.pad(x, [0, 0, 3, 0, 0, 0, 0, 0]), ONE, "ACDB", "ABCD4b"),
    "reflect": (
        "nn.pad",
        lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 2, 1, 1], "reflect"),
        X,
        "ACDB ABCD4b",
        "ABCD2d",
    ),
    "replicate": (
        "nn.pad",
        lambda x: op.nn.pad(x, [0, 0, 4, 0, 1, 2, 1, 1], "replicate"),
        X,
        "ACDB",
        "ABCD4b",
    ),
    "circular": (
        "nn.pad",
        lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 2, 1, 1], "circular"),
        X,
        "ACDB ABCD4b",
        "",
    ),
    "split": ("split", lambda x: op.split(x, 2, -3), X, "ACDB ABCD4b", ""),
    "split by index": ("split", lambda x: op.split(x, [2, 6], 1), X, "ACDB ABCD2b", "ABCD4b"),
    "stack": ("stack", lambda x: op.stack([x, op.abs(x)], -1), X, "ACDB ABCD4b", ""),
    "expand": ("expand_dims", lambda x: op.expand_dims(x, [1, -1]), X, "ACDB ABCD4b", ""),
    "squeeze": ("squeeze", lambda x: op.squeeze(x, [-2]), (image(2, 8, 1, 6),), "ACDB ABCD4b", ""),
    "squeeze of several": ("squeeze", lambda x: op.squeeze(x, [1]), X, "ABCD4b ACDB", ""),
    "squeeze all": ("squeeze", op.squeeze, (image(1, 8, 1, 6),), "ACDB ABCD4b", ""),
    "tile": ("tile", lambda x: op.tile(x, [1, 2, 1, 3]), X, "ACDB ABCD4b DCBA", ""),
    "tile of lower rank": ("tile", lambda x: op.tile(x, [2]), X, "ACDB ABCD2d", ""),
    "tile of higher rank": ("tile", lambda x: op.tile(x, [2, 1, 2, 1, 3]), X, "ACDB ABCD4b", ""),
    "tile of one channel": ("tile", lambda x: op.tile(x, [1, 4, 1, 1]), ONE, "ACDB", "ABCD4b"),
    "repeat": ("repeat", lambda x: op.repeat(x, 2, 1), X, "ACDB ABCD2d", "ABCD4b"),
    "repeat of all": ("repeat", lambda x: op.repeat(x, 2), X, "", "ACDB"),
    "flip": ("flip", lambda x: op.flip(x, -3), X, "ACDB", "ABCD4b"),
    "sort": ("sort", lambda x: op.sort(x, 1), X, "ACDB", "ABCD4b"),
    "argsort": ("argsort", lambda x: op.argsort(x, -3), X, "ACDB", "ABCD4b"),
    "topk": ("topk", lambda x: op.topk(x, 3, 1), X, "ACDB", "ABCD4b"),
    "cumulative sum": ("cumsum", lambda x: op.cumsum(x, -3, exclusive=True), X, "ACDB", "ABCD4b"),
    "cumulative product of all": ("cumprod", op.cumprod, X, "", "ACDB"),
    "gather elements": (
        "gather_elements",
        lambda x: op.gather_elements(x, integers(*PLACES.integers(0, 8, (2, 3, 4, 6))), 1),
        X,
        "ACDB ABCD2d",
        "ABCD4b",
    ),
    "scatter elements": (
        "scatter_elements",
        lambda x: op.scatter_elements(x, op.argsort(x, 1, dtype="int64"), op.abs(x), 1),
        X,
        "ACDB ABCD2d",
        "ABCD4b",
    ),
    "slice scatter": (
        "slice_scatter",
        lambda x, y: op.slice_scatter(x, y, 2, 6, 1, 1),
        (X[0], image(2, 4, 4, 6, seed=3)),
        "ACDB ABCD2d",
        "ABCD4b",
    ),
    "reverse sequence": (
        "reverse_sequence",
        lambda x: op.reverse_sequence(x, integers(2, 5), 1, 0),
        X,
        "ACDB BACD",
        "ABCD4b ABCD2a",
    ),
    "lower triangle": ("tril", lambda x: op.tril(x, 1), X, "BACD AB4bCD", "ACDB ABCD4b"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_layout_computes_the_same(case: Case) -> None:
    check_case(case)
