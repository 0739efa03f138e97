"""What introduces an extent is fused with nothing; TVM would refuse it."""

from typing import Any

import pytest
from tvm import IRModule, relax, te, tirx

from relay_layout.lower.dynamic_shapes.introduced_extents import prevent_fusion_of_new_extents
from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN


def legalized(*, introduces: bool) -> IRModule:
    """The first rows of a tensor, or all of them twice over, with arithmetic behind them."""
    number, few = tirx.Var("n", "int64"), tirx.Var("few", "int64")
    data = relax.Var("x", relax.TensorType([number, 4], "float32"))
    how_many = relax.Var("how_many", relax.ShapeType([few]))
    builder = relax.BlockBuilder()
    with builder.function("main", [data, how_many]):
        with builder.dataflow():
            ends = [relax.prim_value(0)], [relax.prim_value(few)]
            first = relax.op.strided_slice(data, [0], *ends, assume_inbound=True)
            part = builder.emit(first if introduces else relax.op.add(data, data))
            total = builder.emit(relax.op.exp(part))
            result = builder.emit_output(relax.op.negative(total))
        builder.emit_func_output(result)
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
    builder = relax.BlockBuilder()
    with builder.function("main", [video, data]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.exp(builder.emit(relax.op.negative(data))))
        builder.emit_func_output(result)
    module = relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(builder.finalize()))
    assert opaque(prevent_fusion_of_new_extents(module)) == []


def test_numbers_that_no_operand_has_are_passed_to_one_function() -> None:
    """A pooled image has no rows any more, but may be divided by their number."""
    rows = tirx.Var("rows", "int64")
    data = relax.Var("x", relax.TensorType([rows, 4], "float32"))
    pooled = relax.Var("pooled", relax.TensorType([1, 4], "float32"))
    builder = relax.BlockBuilder()

    def number(count: Any) -> te.Tensor:
        return te.compute((1, 1), lambda *_: tirx.Cast("float32", count), name="number")

    with builder.function("main", [data, pooled]):
        with builder.dataflow():
            first = builder.emit_te(number, rows)
            total = builder.emit(relax.op.multiply(pooled, first))
            second = builder.emit_te(number, rows + 1)
            result = builder.emit_output(relax.op.add(total, second))
        builder.emit_func_output(result)
    module = relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(builder.finalize()))
    marked = prevent_fusion_of_new_extents(module)
    assert len(opaque(marked)) == 2
    fused = relax.transform.FuseTIR()(relax.transform.FuseOps()(marked))
    for function in fused.functions.values():
        assert isinstance(function, relax.Function) or len(set(function.params)) == len(function.params)
