"""Calls of the functions of loops that operators become, which the passes up to scheduling go through."""

from typing import Any

import tvm
from tvm import relax

from relay_layout.ir import Expression, bindings_of, function_attributes, operator_name


def is_function_call(value: Expression) -> bool:
    """Whether it calls a function of loops, as its result and its memory are not allocated yet."""
    return operator_name(value) == "call_tir"


def function_calls(function: relax.Function) -> dict[relax.Var, relax.Call]:
    """What a function binds to calls of functions of loops, in order."""
    return {
        binding.var: binding.value for binding in bindings_of(function) if is_function_call(binding.value)
    }


def called_attributes(module: tvm.IRModule, call: relax.Call) -> dict[str, Any]:
    """The attributes of the function that is called."""
    return function_attributes(module[call.args[0]])
