"""Functions beside "main" that a network runs as often as its data say: bodies of loops, and branches.

Until the network is lowered, whatever runs a body calls it by name (``call_pure_packed``), as code that
takes and gives tensors in their plain order. Each body is a Relax function of the module that is marked here,
without a symbol, and goes through every stage alone, as "main" of a module of its own: :func:`each_alone`.
"""

from collections.abc import Callable, Iterator, Mapping

import tvm
from tvm import relax

from relay_layout.ir import (
    Expression,
    bindings_of,
    copy_of,
    function_attributes,
    operator_name,
    without_functions,
)

BODY = "relay_layout.body"
"""Attribute of a body: which of the kinds below it is."""

STEP = "step"
"""A trip of a loop: from its number, what is carried and what it captures, to whether another trip follows,
the next number, what is carried on, and a row for each tensor that the loop collects."""

JOIN = "join"
"""What the rows of some trips and those of the trips after them are together; named after its loop."""

BRANCH = "branch"
"""One side of a choice, from what it captures to its results."""

STATES = "relay_layout.states"
"""Attribute of a step: how many tensors it carries on."""

OTHERWISE = "relay_layout.otherwise"
"""Attribute of the branch that is taken where the condition holds: the name of the other one."""

_MAIN = "main"


def kind_of(function: object) -> str:
    """Which kind of body a function is; "" for one that is none."""
    return str(function_attributes(function).get(BODY, "")) if isinstance(function, relax.Function) else ""


def bodies_of(module: tvm.IRModule) -> dict[str, relax.Function]:
    """The bodies of a module by name, each after those that it runs itself."""
    found = {
        str(variable.name_hint): function
        for variable, function in module.functions_items()
        if kind_of(function)
    }
    ordered: dict[str, relax.Function] = {}

    def visit(name: str) -> None:
        if name in ordered:
            return
        for inner in run_by(found[name]):
            for part in parts_of(inner, found):
                visit(part)
        ordered[name] = found[name]

    for name in sorted(found):
        visit(name)
    return ordered


def parts_of(name: str, bodies: Mapping[str, relax.Function]) -> list[str]:
    """The bodies of which a loop or choice of that name consists; none for other functions."""
    if name not in bodies:
        return []
    joined, other = join_name(name), function_attributes(bodies[name]).get(OTHERWISE)
    return [name, *([joined] if joined in bodies else []), *([str(other)] if other is not None else [])]


def join_name(step: str) -> str:
    """The name of the body that joins the rows of a loop's trips."""
    return f"{step}_join"


def name_called(expression: Expression) -> str:
    """The name of the function that an expression calls as code; "" if it does not."""
    is_call = operator_name(expression) == "call_pure_packed"
    return str(getattr(expression.args[0], "global_symbol", "")) if is_call else ""


def runs(function: relax.Function) -> Iterator[tuple[relax.Var, relax.Call, str]]:
    """The calls of functions as code: the variable of each, the call, and the function's name."""
    for binding in bindings_of(function):
        name = name_called(binding.value)
        if name:
            yield binding.var, binding.value, name


def unused_name(wanted: str, taken: set[str]) -> str:
    """``wanted``, with a number if it is ``taken``, which the name then is as well."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


def name_inside(body: str, name: str) -> str:
    """How a binding of a body is called beside those of "main"."""
    return f"{body}.{name}"


def run_by(function: relax.Function) -> list[str]:
    """The names of functions that a function calls as code."""
    return [name for _, _, name in runs(function)]


def each_alone(module: tvm.IRModule, change: Callable[[tvm.IRModule], tvm.IRModule]) -> tvm.IRModule:
    """The module whose "main" and bodies each went through ``change``, as "main" without the others.

    Kernels that the module of a body calls are kept with it.
    """
    bodies = bodies_of(module)
    if not bodies:
        return change(module)
    changed = change(without_bodies(module))
    return with_bodies(changed, {name: change(alone(body, module)) for name, body in bodies.items()})


def alone(body: relax.Function, module: tvm.IRModule) -> tvm.IRModule:
    """A module with a body of ``module`` as its "main", and the kernels that it calls."""
    called = {variable: module[variable] for variable in relax.analysis.all_global_vars(body)}
    return tvm.IRModule({tvm.ir.GlobalVar(_MAIN): body.with_attr("global_symbol", _MAIN), **called})


def without_bodies(module: tvm.IRModule) -> tvm.IRModule:
    """The module without its bodies."""
    return without_functions(module, [name for name, each in module.functions_items() if kind_of(each)])


def with_bodies(module: tvm.IRModule, bodies: Mapping[str, tvm.IRModule]) -> tvm.IRModule:
    """The module with bodies by name, each the "main" of a module, and the kernels that they call."""
    updated = copy_of(module)
    present = {str(variable.name_hint) for variable in updated.get_global_vars()}
    for name, body in bodies.items():
        for variable, function in body.functions_items():
            if variable.name_hint == _MAIN:
                updated[name] = function.without_attr("global_symbol")
            elif variable.name_hint not in present:
                present.add(str(variable.name_hint))
                updated[variable] = function
    return updated
