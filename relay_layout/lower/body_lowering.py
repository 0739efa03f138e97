"""Bodies of loops and choices: lowered one by one, and joined to the function that runs them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm_ffi import structural_map

from relay_layout.bodies import alone, bodies_of, parts_of, runs, without_bodies
from relay_layout.ir import (
    constant,
    copy_of,
    erased,
    function_attributes,
    with_functions,
    with_main,
    with_operands,
    with_values,
)
from relay_layout.lower.drivers import Drivers
from relay_layout.lower.kernel_calls import KernelCall
from relay_layout.lower.schedule import Kernel


@dataclass(frozen=True)
class Lowered:
    """Scheduled functions; ``weights`` are further parameters of "main", ``calls`` the calls in it.

    ``calls_of_bodies`` are those in bodies, by their names.
    """

    module: tvm.IRModule
    weights: dict[str, np.ndarray]
    kernels: list[Kernel]
    calls: list[KernelCall]
    calls_of_bodies: Mapping[str, list[KernelCall]] = field(default_factory=dict)


def lower_each(module: tvm.IRModule, lower: Callable[[tvm.IRModule], Lowered]) -> Lowered:
    """What ``lower`` makes of "main", and of each body as the "main" of a module of its own, as one module.

    Functions of loops that a body calls have its name before theirs. Weights of bodies are weights of "main",
    which hands them on.
    """
    bodies = bodies_of(module)
    if not bodies:
        return lower(module)
    lowered: dict[str, Lowered] = {}
    for name, body in bodies.items():
        lowered[name] = lower(_with_weights(alone(body, module), bodies, lowered))
    outer = lower(_with_weights(without_bodies(module), bodies, lowered))
    results = _results([*(each.module["main"] for each in lowered.values()), outer.module["main"]])
    joined = _Joined(outer.module, results)
    for name, part in lowered.items():
        joined.add(name, part.module)
    kernels = [
        replace(kernel, name=_inner(name, kernel.name))
        for name, part in lowered.items()
        for kernel in part.kernels
    ]
    calls = {
        name: [replace(call, function=_inner(name, call.function)) for call in part.calls]
        for name, part in lowered.items()
    }
    return replace(outer, module=joined.module(), kernels=[*outer.kernels, *kernels], calls_of_bodies=calls)


def _with_weights(
    module: tvm.IRModule, bodies: Mapping[str, relax.Function], lowered: Mapping[str, Lowered]
) -> tvm.IRModule:
    """The module whose "main" gives the bodies that it runs their weights, too, as constants."""
    main = module["main"]
    changed: dict[relax.Var, Any] = {}
    for variable, call, name in runs(main):
        arrays = [array for part in parts_of(name, bodies) for array in lowered[part].weights.values()]
        if arrays:
            arguments = [*call.args, *map(constant, arrays)]
            changed[variable] = with_operands(call, arguments)
    return with_main(module, with_values(main, changed)) if changed else module


def _results(functions: list[relax.Function]) -> dict[str, Any]:
    """The type that each function gives that is called as code, by its name."""
    return {name: call.ty_args[0] for each in functions for _, call, name in runs(each)}


def symbol_of(body: str) -> str:
    """The function of a lowered module that a body became."""
    return f"{body}_body"


def _inner(body: str, function: str) -> str:
    return f"{body}_{function}"


class _Joined:
    """A module to which those of bodies are added."""

    def __init__(self, module: tvm.IRModule, results: Mapping[str, Any]) -> None:
        self._module = copy_of(module)
        self._results = results
        self._bodies: dict[str, relax.Function] = {}

    def add(self, name: str, module: tvm.IRModule) -> None:
        """Take the functions of the module of the body ``name``."""
        renamed = {
            variable: _variable(_inner(name, str(variable.name_hint)), variable.ty)
            for variable, function in module.functions_items()
            if isinstance(function, tirx.PrimFunc)
        }
        for old, function in module.functions_items():
            variable = renamed.get(old, old)
            function = structural_map(function, (tvm.ir.GlobalVar, lambda each: renamed.get(each, each)))
            if isinstance(function, tirx.PrimFunc):
                if "global_symbol" in function_attributes(function):
                    function = function.with_attr("global_symbol", str(variable.name_hint))
                self._module[variable] = function
            else:
                self._bodies[name] = function.without_attr("global_symbol")

    def module(self) -> tvm.IRModule:
        """All functions, and those that run the bodies, with calls from one to the other."""
        drivers = Drivers()
        steps = {name: symbol_of(name) for name in self._bodies}
        for name, body in self._bodies.items():
            drivers.declare(steps[name], erased(body.ret_ty))
        for name in self._bodies:
            if name in self._results:
                drivers.declare(name, self._results[name])
        for name in self._bodies:
            if name in self._results:
                drivers.drive(name, self._bodies, steps)
        functions = {steps[name]: body for name, body in self._bodies.items()} | drivers.functions
        updated = {
            variable: drivers.linked(function) if isinstance(function, relax.Function) else function
            for variable, function in self._module.functions_items()
        }
        for name, function in functions.items():
            # What has no symbol is no function of the virtual machine.
            updated[drivers.symbol(name)] = drivers.linked(function).with_attr("global_symbol", name)
        return with_functions(self._module, updated)


def _variable(name: str, kind: Any) -> tvm.ir.GlobalVar:
    variable = tvm.ir.GlobalVar(name)
    relax.expr._update_type(variable, kind)
    return variable
