"""What introduces an extent is fused with nothing; TVM would refuse it."""

from typing import Any

import pytest
from tvm import IRModule, relax, te, tirx

from relay_layout.lower.dynamic_shapes.introduced_extents import prevent_fusion_of_new_extents
from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN
from tests.relax_modules import main_of, module_giving


def legalized(*, introduces: bool) -> IRModule:
    """The first rows of a tensor, or all of them twice over, with arithmetic behind them."""
    number, few = tirx.Var("n", "int64"), tirx.Var("few", "int64")
    data = relax.Var("x", relax.TensorType([number, 4], "float32"))
    how_many = relax.Var("how_many", relax.ShapeType([few]))
    with main_of(data, how_many) as builder:
        ends = [relax.prim_value(0)], [relax.prim_value(few)]
        first = relax.op.strided_slice(data, [0], *ends, assume_inbound=True)
        part = builder.emit(first if introduces else relax.op.add(data, data))
        total = builder.emit(relax.op.exp(part))
        builder.result = relax.op.negative(total)
    module = relax.transform.LegalizeOps()(builder.finalize())
    return relax.transform.AnnotateTIROpPattern()(module)


def opaque(module: IRModule) -> list[str]:
    return [
        variable.name_hint
        for variable, function in module.functions_items()
        if not isinstance(function, relax.Function) and int(function.attrs[PATTERN]) == OPAQUE
    ]


@pytest.mark.parametrize("introduces", [True, False])
def test_only_what_introduces_an_extent_is_opaque(introduces: bool) -> None:
    module = prevent_fusion_of_new_extents(legalized(introduces=introduces))
    assert opaque(module) == (["strided_slice"] if introduces else [])
    fused = relax.transform.FuseTIR()(relax.transform.FuseOps()(module))
    calls = [
        binding.value.args[0].name_hint for block in fused["main"].body.blocks for binding in block.bindings
    ]
    assert calls[-1] == ("fused_tir_exp_tir_negative" if introduces else "fused_add_tir_exp_tir_negative")


def test_an_extent_within_another_is_not_introduced() -> None:
    """Frames of videos: their number is that of the videos times a constant."""
    number = tirx.Var("n", "int64")
    data = relax.Var("x", relax.TensorType([number * 4, 8], "float32"))
    video = relax.Var("video", relax.TensorType([number, 4], "float32"))
    module = module_giving(relax.op.exp(relax.op.negative(data)), video, data)
    module = relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(module))
    assert opaque(prevent_fusion_of_new_extents(module)) == []


def test_numbers_that_no_operand_has_are_passed_to_one_function() -> None:
    """A pooled image has no rows any more, but may be divided by their number."""
    rows = tirx.Var("rows", "int64")
    data = relax.Var("x", relax.TensorType([rows, 4], "float32"))
    pooled = relax.Var("pooled", relax.TensorType([1, 4], "float32"))

    def number(count: Any) -> te.Tensor:
        return te.compute((1, 1), lambda *_: tirx.Cast("float32", count), name="number")

    with main_of(data, pooled) as builder:
        first = builder.emit_te(number, rows)
        total = builder.emit(relax.op.multiply(pooled, first))
        second = builder.emit_te(number, rows + 1)
        builder.result = relax.op.add(total, second)
    module = relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(builder.finalize()))
    marked = prevent_fusion_of_new_extents(module)
    assert len(opaque(marked)) == 2
    fused = relax.transform.FuseTIR()(relax.transform.FuseOps()(marked))
    for function in fused.functions.values():
        assert isinstance(function, relax.Function) or len(set(function.params)) == len(function.params)
