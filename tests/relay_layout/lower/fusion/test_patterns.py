"""Calls whose functions get a pattern of their own."""

from typing import Any

from tvm import IRModule, relax

from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN, with_pattern
from tests.relax_modules import main_of


def twice() -> IRModule:
    """Two functions of two calls each."""
    data = relax.Var("x", relax.TensorType((4, 4), "float32"))
    with main_of(data) as builder:
        value: Any = data
        for step, compute in enumerate((relax.op.exp, relax.op.tanh, relax.op.exp, relax.op.tanh)):
            value = builder.emit(compute(value), f"v{step}")
        builder.result = relax.op.negative(value)
    module = relax.transform.LegalizeOps()(builder.finalize())
    return relax.transform.AnnotateTIROpPattern()(module)


def calls(module: IRModule) -> dict[relax.Var, relax.Call]:
    return {each.var: each.value for block in module["main"].body.blocks for each in block.bindings}


def marked(module: IRModule, name: str) -> IRModule:
    """With what the variable ``name`` is bound to called from an opaque function."""
    return with_pattern(
        module, {var: call for var, call in calls(module).items() if var.name == name}, OPAQUE
    )


def test_others_keep_the_function() -> None:
    module = marked(twice(), "v0")
    patterns = {
        var.name: int(module[call.args[0]].attrs[PATTERN]) == OPAQUE for var, call in calls(module).items()
    }
    assert patterns == {"v0": True, "v1": False, "v2": False, "v3": False, "gv": False}


def test_what_was_marked_can_be_fused() -> None:
    fused = relax.transform.FuseOps()(marked(twice(), "v2"))
    assert len(calls(fused)) == 3


def test_no_calls_are_the_module_itself() -> None:
    module = twice()
    assert with_pattern(module, {}, OPAQUE).same_as(module)
