"""What a check of a shape lies between is not one function: FuseOps would make one that needs itself."""

import tvm
from tvm import relax, te, tirx, topi

from relay_layout.lower.fusion.checked_shapes import prevent_fusion_across_checks
from relay_layout.lower.fusion.patterns import INJECTIVE, OPAQUE, PATTERN
from tests.relax_modules import main_of


def module(*, other: str) -> tvm.IRModule:
    """Rows turned over and checked to be square, plus a square of the first column of them or of "data"."""
    rows, columns = (tirx.Var(name, "int64") for name in "nm")
    data = relax.Var("data", relax.TensorType([rows, columns], "float32"))

    def turned(source: te.Tensor) -> te.Tensor:
        return te.compute([rows, columns], lambda i, j: source[rows - 1 - i, j], "turned")

    def longer(source: te.Tensor) -> te.Tensor:
        return te.compute([rows, rows], lambda i, j: source[i, 0 * j], "longer")

    with main_of(data) as builder:
        over = builder.emit_te(turned, data)
        second = builder.emit_te(longer, over if other == "turned" else data)
        checked = builder.match_cast(over, relax.TensorType([rows, rows], "float32"))
        builder.result = builder.call_te(topi.add, checked, second)
    return relax.transform.AnnotateTIROpPattern()(builder.finalize())


def pattern(found: tvm.IRModule, name: str) -> int:
    return int(found[name].attrs[PATTERN])


def test_what_is_checked_is_computed_before_what_reads_both() -> None:
    """``tests.open_graphs.check(21)`` fails in FuseOps otherwise."""
    marked = prevent_fusion_across_checks(module(other="turned"))
    assert pattern(marked, "turned") == OPAQUE
    assert pattern(marked, "longer") == INJECTIVE


def test_others_are_fused_as_ever() -> None:
    whole = module(other="data")
    assert prevent_fusion_across_checks(whole).same_as(whole)
