"""Passes that scripts write over one function at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import function_attributes, rebuild_functions
from relay_layout.relay.expression import to_relax_function
from relay_layout.relay.registries.asking import ask
from relay_layout.relay.syntax import tree
from relay_layout.relay.trees.matchable import as_matchable
from relay_layout.verify import verify_module


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """A pass of ``pass_func(function, module, context)``, or of a class with that as ``transform_function``.

    Without ``pass_func`` this is a decorator that makes such a pass, or for a class, what makes one of the
    class's arguments. Functions are given as Relay text has them, biases as ``nn.bias_add``, and what is
    returned takes their place.

    ValueError without ``opt_level``. Running the pass, ModelError for what raises or returns no function.
    """
    if opt_level is None:
        raise ValueError("function_pass needs opt_level")
    level = opt_level

    def decorate(given: Any) -> Any:
        title = name or given.__name__
        if not isinstance(given, type):
            return _module_pass(given, level, title, required, traceable)

        def create(*arguments: Any, **keywords: Any) -> tvm.transform.Pass:
            transform = given(*arguments, **keywords).transform_function
            return _module_pass(transform, level, title, required, traceable)

        create.__name__, create.__doc__ = given.__name__, given.__doc__
        return create

    return decorate if pass_func is None else decorate(pass_func)


def _module_pass(
    transform: Callable[..., Any], level: int, name: str, required: Sequence[str] | None, traceable: bool
) -> tvm.transform.Pass:
    def run(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        def changed(function: relax.Function) -> relax.Function:
            what = f"the pass {name}"
            result = ask(what, ModelError, transform, as_matchable(function), module, context)
            return _with_attributes(_as_function(result, what), function)

        result = rebuild_functions(module, changed)
        verify_module(result)
        return result

    return tvm.transform.module_pass(
        run, opt_level=level, name=name, required=list(required or ()), traceable=traceable
    )


def _as_function(result: Any, what: str) -> relax.Function:
    if isinstance(result, tree.Function):
        return to_relax_function(result)
    if isinstance(result, relax.Function):
        return result
    raise ModelError(f"{what} returned {type(result).__name__}, not a function")


def _with_attributes(new: relax.Function, old: relax.Function) -> relax.Function:
    """What was said of a function is still true of one with the same inputs and results."""
    kinds = [[*(parameter.ty for parameter in function.params), function.ret_ty] for function in (new, old)]
    if len(kinds[0]) != len(kinds[1]) or not all(map(_same, *kinds)):
        return new
    present = function_attributes(new)
    for key, value in function_attributes(old).items():
        if key not in present:
            new = new.with_attr(key, value)
    return new


def _same(left: Any, right: Any) -> bool:
    return str(left) == str(right)
