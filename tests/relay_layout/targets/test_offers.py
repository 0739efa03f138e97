"""What operators are estimated to cost in the layouts around them."""

import pytest
import tvm
from tvm import relax

from relay_layout.graph import build_graph
from relay_layout.layout import Layout
from relay_layout.ops.table import TABLE
from relay_layout.targets import resolve_target
from relay_layout.targets.offers import POOLINGS, TargetOffers
from tests.relax_modules import module_giving

TARGET = resolve_target("x86-64-v3", threads=2, shipped_records=False)


def pooling(name: str) -> tvm.IRModule:
    """A module of the pooling ``name`` over images with channels first."""
    kind, rank = name.removeprefix("nn.")[:-2], int(name[-2])
    data = relax.Var("data", relax.TensorType((1, 16, *(8,) * rank), "float32"))
    build = getattr(relax.op.nn, f"{kind}{rank}d")
    return module_giving(build(data, 2 if kind.startswith("adaptive") else (2,) * rank), data)


def test_poolings_are_those_of_the_table() -> None:
    rule = TABLE["nn.max_pool2d"]
    assert set(POOLINGS) == {name for name, other in TABLE.items() if other is rule}


@pytest.mark.parametrize("name", POOLINGS)
def test_windows_along_vectors_cost_more(name: str) -> None:
    (node,) = build_graph(pooling(name)["main"]).nodes
    letters = "ABCDE"[: node.operands[0].rank]
    first, last = Layout.parse(letters), Layout.parse(letters[0] + letters[2:] + "B")
    costs = [TargetOffers(TARGET).operator_cost(node, (layout,), (layout,)) for layout in (first, last)]
    assert costs[0] > costs[1] > 0
