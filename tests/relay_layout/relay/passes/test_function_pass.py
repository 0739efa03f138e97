"""Passes that scripts write over one function at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.graph.border import input_names
from relay_layout.relay.visitors import ExprMutator

X = relay.var("x", shape=(2, 3))


class Scaled(ExprMutator):
    """Every constant multiplied."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def visit_constant(self, const: Any) -> Any:
        return relay.multiply(relay.const(self.factor), const)


@relay.transform.function_pass(opt_level=1)
class ScaleConstants:
    """A pass with an argument, as the tutorial of Relay's pass infrastructure has it."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def transform_function(self, func: Any, mod: tvm.IRModule, ctx: tvm.transform.PassContext) -> Any:
        return Scaled(self.factor).visit(func)


def module() -> tvm.IRModule:
    return tvm.IRModule.from_expr(relay.Function([X], X + relay.const(np.full((2, 3), 2.0, "float32"))))


def result(mod: tvm.IRModule) -> Any:
    return relay.create_executor("graph", mod).evaluate()(np.zeros((2, 3), "float32")).numpy()


def test_a_class_makes_passes_of_its_arguments() -> None:
    sequence = tvm.transform.Sequential([ScaleConstants(3.0), relay.transform.FoldConstant()])
    changed = sequence(module())
    np.testing.assert_array_equal(result(changed), np.full((2, 3), 6.0))
    assert str(ScaleConstants(1.0).info.name) == "ScaleConstants"


def test_a_function_is_a_pass_that_keeps_names_of_inputs() -> None:
    @relay.transform.function_pass(opt_level=0, name="Doubled")
    def double(func: Any, mod: tvm.IRModule, ctx: tvm.transform.PassContext) -> Any:
        return relay.Function(func.params, relay.add(func.body, func.body))

    original = module()
    original.update_func(
        original.get_global_var("main"), original["main"].with_attr("input_names", ["data.0"])
    )
    changed = double(original)
    assert input_names(changed["main"]) == ["data.0"]
    assert relay.analysis.list_op_freqs(changed) == {"add": 2}


def test_levels_disable_it() -> None:
    with relay.build_config(opt_level=0):
        changed = tvm.transform.Sequential([ScaleConstants(3.0)])(module())
    assert relay.analysis.list_op_freqs(changed) == {"add": 1}


def test_what_it_returns_is_checked() -> None:
    broken = relay.transform.function_pass(lambda func, mod, ctx: 7, opt_level=0, name="Broken")
    with pytest.raises(ModelError, match="the pass Broken returned int, not a function"):
        broken(module())
    with pytest.raises(ValueError, match="needs opt_level"):
        relay.transform.function_pass(lambda func, mod, ctx: func)
