"""Reshapes, in every layout their rule offers."""

import pytest
import tvm
from tvm import relax

from relay_layout.graph import build_graph
from relay_layout.layout import Layout
from relay_layout.ops import Wanted
from relay_layout.ops.reshape_rule import ReshapeRule, matching_groups
from tests.relay_layout.ops.every_signature import Case, NoCosts, check_case, function_of, image

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


N, H, W = (tvm.tirx.Var(name, "int64") for name in "nhw")
GROUPS = {
    "kept": ((2, 3), (2, 3), [("A", "A"), ("B", "B")]),
    "merged": ((2, 3, 4), (2, 12), [("A", "A"), ("BC", "B")]),
    "split and merged": ((6, 4), (2, 12), [("AB", "AB")]),
    "left over units": ((2, 3, 1, 1), (2, 3), [("A", "A"), ("BCD", "B")]),
    "symbols": ((N, 8, H, W), (N, 2, 4, H, W), [("A", "A"), ("B", "BC"), ("C", "D"), ("D", "E")]),
    "merged symbols": ((N, 8, H, W), (N, 8, H * W), [("A", "A"), ("B", "B"), ("CD", "C")]),
    "merged in another order": ((N, H, W), (N, W * H), [("A", "A"), ("BC", "B")]),
    "hidden by a symbol": ((N, 8), (8, N), [("AB", "AB")]),
    "empty": ((2, 0), (0, 2), None),
}


@pytest.mark.parametrize("name", GROUPS)
def test_dimensions_fall_into_the_smallest_groups(name: str) -> None:
    source, target, expected = GROUPS[name]
    assert matching_groups(source, target) == expected


ALIGNED = {
    "kept": ((2, 20, 4, 6), (2, 20, 24), "ACDB[a=32]", "ACB[a=32]"),
    "split, zeros behind the first part": ((2, 20, 4, 6), (2, 4, 5, 4, 6), "ACDB[a=25]", "ADEB[a=5]C"),
    "split, zeros within a part": ((2, 20, 4, 6), (2, 4, 5, 4, 6), "ACDB[a=32]", None),
    "merged, zeros behind": ((2, 4, 5, 4, 6), (2, 20, 4, 6), "ADEB[a=3]C", "ACDB[a=15]"),
    "merged, zeros between": ((2, 4, 5, 4, 6), (2, 20, 4, 6), "ADEBC[a=8]", None),
    "one element": ((2, 1, 4, 6), (2, 1, 24), "ACDB[a=32]", None),
}


@pytest.mark.parametrize("name", ALIGNED)
def test_alignment_passes_where_zeros_stay_behind(name: str) -> None:
    source, target, before, after = ALIGNED[name]
    function = function_of(lambda x: op.reshape(x, target), image(*source))
    node = next(node for node in build_graph(function).nodes if node.operator == "reshape")
    wanted = Wanted(((Layout.parse(before),),), ((),))
    found = list(ReshapeRule().signatures(node, wanted, NoCosts()))
    assert [str(signature.results[0]) for signature in found] == ([] if after is None else [after])
