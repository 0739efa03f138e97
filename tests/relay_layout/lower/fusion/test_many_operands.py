"""Functions of very many tensors stay kernels of their own."""

import pytest
from tvm import relax

from relay_layout.ir import function_attributes
from relay_layout.lower.fusion.many_operands import MOST_OPERANDS, prevent_fusion_of_many_operands
from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN
from tests.relax_modules import main_of


@pytest.mark.parametrize("operands", [MOST_OPERANDS, MOST_OPERANDS + 1])
def test_only_functions_of_more_tensors_are_opaque(operands: int) -> None:
    rows = [relax.Var(f"x{place}", relax.TensorType([4], "float32")) for place in range(operands)]
    with main_of(*rows) as builder:
        builder.result = relax.op.exp(builder.emit(relax.op.stack(rows, axis=0)))
    passes = (relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern())
    module = builder.finalize()
    for each in passes:
        module = each(module)
    found = prevent_fusion_of_many_operands(module)
    opaque = function_attributes(found["stack"])[PATTERN] == OPAQUE
    assert opaque == (operands > MOST_OPERANDS)
    fused = relax.transform.FuseTIR()(relax.transform.FuseOps()(found))
    assert (fused["main"].script().count("call_tir(") == 2) == opaque
