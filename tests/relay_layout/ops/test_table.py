"""The operator table as a whole: every operator of Relax is decided about, once."""

from collections.abc import Callable

import pytest
from tvm import relax
from tvm.ir import Op

import relay_layout.lower.passes  # noqa: F401 (makes our own operators known)
from relay_layout import convert
from relay_layout.graph import MATCH_CAST
from relay_layout.ops import KEEPS, TABLE
from tests.relax_modules import module_giving

RELAX = {str(name).removeprefix("relax.") for name in Op.list_op_names() if str(name).startswith("relax.")}


def test_every_operator_has_a_row_or_a_reason() -> None:
    assert sorted(RELAX - set(TABLE) - set(KEEPS)) == []


def test_no_operator_has_both() -> None:
    assert sorted(set(TABLE) & set(KEEPS)) == []


def test_every_reason_is_for_an_operator_that_exists() -> None:
    assert sorted(set(KEEPS) - RELAX) == []


def test_every_row_is_for_an_operator_that_exists() -> None:
    rows = {name for name in TABLE if not name.startswith("relay.")}
    assert sorted(rows - RELAX) == [MATCH_CAST]


@pytest.mark.parametrize(
    ("tensor", "operator"),
    [
        (relax.TensorType([], "float32"), relax.op.sort),
        (relax.TensorType([], "float32"), relax.op.argsort),
        (relax.TensorType([], "float32"), lambda x: relax.op.cumsum(x, axis=0)),
        (relax.TensorType(dtype="float32", ndim=2), lambda x: relax.op.strided_slice(x, [0], [0], [1])),
        (relax.TensorType(dtype="float32"), lambda x: relax.op.strided_slice(x, [0], [0], [1])),
    ],
    ids=["sort a number", "argsort a number", "add up a number", "slice", "slice of any rank"],
)
def test_a_tensor_without_known_dimensions_has_no_axis(
    tensor: relax.TensorType, operator: Callable[[relax.Var], relax.Expr]
) -> None:
    variable = relax.Var("x", tensor)
    assert convert(module_giving(operator(variable), variable)).report["layout_transforms"] == 0


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_rule_says_in_one_line_what_it_does(name: str) -> None:
    summary = TABLE[name].summary  # type: ignore[attr-defined]
    assert summary.endswith(".") and "\n" not in summary
