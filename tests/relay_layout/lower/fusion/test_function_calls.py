"""Calls of the functions of loops in a module, and what these functions say of themselves."""

import tvm
from tvm import relax

from relay_layout.lower.fusion.function_calls import called_attributes, function_calls, is_function_call
from tests.relax_modules import main_of


def _module() -> tvm.IRModule:
    """A sum and a view of it, the sum by a function that has its pattern."""
    parameter = relax.Var("data", relax.TensorType([2, 3], "float32"))
    with main_of(parameter) as builder:
        added = builder.emit_te(
            lambda data: tvm.te.compute(data.shape, lambda *at: data[at] + 1.0), parameter
        )
        builder.result = builder.emit(relax.op.reshape(added, [6]))
    return relax.transform.AnnotateTIROpPattern()(builder.finalize())


def test_views_are_no_calls_of_functions() -> None:
    module = _module()
    ((variable, call),) = function_calls(module["main"]).items()
    assert is_function_call(call)
    assert [int(extent) for extent in variable.ty.shape.values] == [2, 3]


def test_a_call_has_the_attributes_of_its_function() -> None:
    module = _module()
    (call,) = function_calls(module["main"]).values()
    assert int(called_attributes(module, call)["op_pattern"]) == 0
