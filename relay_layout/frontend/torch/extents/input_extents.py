"""Open extents of inputs: given numbers, and multiples such as ``2 * Dim("h")`` of ``torch.export``.

What an extent is a multiple of is computed, and checked, when the program runs: TVM takes the extents of
inputs as they come, and solves no equations.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax, sym, tirx

from relay_layout.bodies import each_alone, kind_of
from relay_layout.errors import ModelError
from relay_layout.frontend.input_shapes import Input, settle_shapes
from relay_layout.ir import Extent, function_attributes, shape_of, with_body

_MAIN = "main"

_BOUNDS = ("tir_var_lower_bound", "tir_var_upper_bound")
"""Attributes of a function with the least and the most that extents are, by the names of their variables."""


def with_shapes(
    module: tvm.IRModule, names: Sequence[str], given: Mapping[str, Sequence[int]], label: str
) -> tvm.IRModule:
    """The module with ``given`` extents, by the names of inputs, in the place of symbolic ones.

    ModelError for shapes that do not fit the inputs.
    """
    if not given:
        return module
    shapes = {
        name: shape_of(parameter) or () for name, parameter in zip(names, module[_MAIN].params, strict=True)
    }
    declared = {
        name: Input(name, 0, tuple(extent if isinstance(extent, int) else str(extent) for extent in shape))
        for name, shape in shapes.items()
    }
    settled = settle_shapes(declared, given, label)
    values: dict[tirx.Var, int] = {}
    for name, shape in shapes.items():
        for extent, number in zip(shape, settled[name], strict=True):
            if isinstance(extent, int) or not isinstance(number, int):
                continue
            variable, factor, addend = _linear(extent, f"{label}: input '{name}'")
            solution = (number - addend) // factor
            known = values.setdefault(variable, solution)
            if (number - addend) % factor or solution < 1:
                raise ModelError(f"{label}: input '{name}' has the extent {extent}, which {number} is not")
            if known != solution:
                raise ModelError(
                    f"{label}: input '{name}' has the extent {extent}, which other shapes given make "
                    f"{known * factor + addend}, not {number}"
                )
    return _bound(module, values)


def _bound(module: tvm.IRModule, values: Mapping[tirx.Var, int]) -> tvm.IRModule:
    """The module with numbers for variables, of which each is an extent or a factor of one."""
    if not values:
        return module

    numbers = {str(variable.name): number for variable, number in values.items()}

    def bound(one: tvm.IRModule) -> tvm.IRModule:
        variable, main = one.get_global_var(_MAIN), one[_MAIN]
        # Bodies have variables of their own, of the names that the program has for its extents.
        inside = [*relax.analysis.defined_symbolic_vars(main), *relax.analysis.free_symbolic_vars(main)]
        own = {each: numbers[str(each.name)] for each in inside if str(each.name) in numbers}
        own |= values if not kind_of(main) else {}
        # TVM binds what parameters define by themselves.
        defining = relax.Var("bound", relax.ShapeType(list(own)))
        one.update_func(variable, with_body(main, main.body, parameters=[*main.params, defining]))
        found = relax.transform.BindSymbolicVars(own, _MAIN)(one)[_MAIN]
        one.update_func(variable, with_body(found, found.body, parameters=list(found.params)[:-1]))
        return one

    return each_alone(module, bound)


def multiples(module: tvm.IRModule, names: Sequence[str], label: str) -> list[str]:
    """Conditions for extents of the inputs, by name, that are multiples, such as ``x.shape[2] % 4 == 0``."""
    found = []
    for name, parameter in zip(names, module[_MAIN].params, strict=True):
        for axis, extent in enumerate(shape_of(parameter) or ()):
            if _plain(extent, "") is extent:
                continue
            _, factor, addend = _linear(extent, f"{label}: input '{name}'")
            if factor > 1:
                found.append(f"{name}.shape[{axis}] % {factor} == {addend % factor}")
    return found


def with_plain_extents(module: tvm.IRModule, label: str) -> tvm.IRModule:
    """The module with a number or a variable of its own for every extent of an input of "main".

    ModelError for an extent that is no multiple of a variable and a number added to it.
    """
    main = module[_MAIN]
    shapes = {parameter: shape_of(parameter) or () for parameter in main.params}
    known = set(_variables(main.params))
    parameters, solved, casts = [], {}, []
    attributes = function_attributes(main)
    for parameter, shape in shapes.items():
        plain = [_plain(extent, f"{parameter.name}_{axis}") for axis, extent in enumerate(shape)]
        for held, extent in zip(plain, shape, strict=True):
            if held is extent:
                continue
            variable, factor, addend = _linear(extent, f"{label}: input '{parameter.name}'")
            _carry_bounds(attributes, held, variable, factor, addend)
            if variable not in known:
                known.add(variable)
                solved[variable] = tirx.max(tirx.floordiv(held - addend, factor), 0)
        if any(held is not extent for held, extent in zip(plain, shape, strict=True)):
            own = relax.Var(parameter.name, relax.TensorType(relax.ShapeExpr(plain), parameter.ty.dtype))
            casts.append(relax.MatchCast(parameter, own, parameter.ty))
            parameter = own
        parameters.append(parameter)
    if not casts:
        return module
    blocks = [relax.BindingBlock([*_definitions(solved), *casts]), *main.body.blocks]
    own = _variables(parameters)
    result = relax.analysis.erase_to_well_defined(main.ret_ty, dict(zip(own, own, strict=True)))
    body = relax.SeqExpr(blocks, main.body.body)
    function = with_body(main, body, parameters=parameters, returned=result)
    module.update_func(module.get_global_var(_MAIN), function.with_attrs(attributes))
    return tvm.transform.Sequential([relax.transform.ConvertToDataflow(), relax.transform.Normalize()])(
        module
    )


def _variables(parameters: Iterable[relax.Var]) -> list[tirx.Var]:
    """Extents of parameters that are variables."""
    extents = [extent for parameter in parameters for extent in shape_of(parameter) or ()]
    return [extent for extent in extents if isinstance(extent, tirx.Var)]


def _plain(extent: Extent, name: str) -> Extent:
    """A number or a variable as it is, else a new variable."""
    return extent if isinstance(extent, int | tirx.Var | tirx.IntImm) else tirx.Var(name, "int64")


def _carry_bounds(
    attributes: dict[str, Any], held: tirx.Var, variable: tirx.Var, factor: int, addend: int
) -> None:
    """What ``variable`` is bounded by, times the factor and with what is added, bounds ``held``."""
    for bound in _BOUNDS:
        bounds = dict(attributes.get(bound) or {})
        if variable.name in bounds:
            bounds[held.name] = factor * int(bounds[variable.name]) + addend
            attributes[bound] = bounds


def _linear(extent: Extent, place: str) -> tuple[tirx.Var, int, int]:
    """The variable of which an extent is a multiple, the factor, and what is added."""
    variables = list(tirx.analysis.undefined_vars(extent))
    factor, addend = (*sym.detect_linear_equation(extent, variables), None, None)[:2]
    known = all(isinstance(number, tirx.IntImm) for number in (factor, addend))
    if len(variables) != 1 or not known or int(factor) < 1:
        raise ModelError(f"{place} has the extent {extent}, which is not supported")
    return variables[0], int(factor), int(addend)


def _definitions(solved: Mapping[tirx.Var, Extent]) -> list[Any]:
    """Bindings that define variables by expressions, by way of tensors, which TVM does not see through."""
    builder = relax.BlockBuilder()
    bindings: list[Any] = []

    def bound(name: str, call: relax.Call) -> relax.Var:
        value = builder.normalize(call)
        bindings.append(relax.VarBinding(relax.Var(name, value.ty), value))
        return bindings[-1].var

    for variable, extent in solved.items():
        number = bound(f"{variable.name}_number", relax.op.shape_to_tensor(relax.ShapeExpr([extent])))
        shape = bound(f"{variable.name}_shape", relax.op.tensor_to_shape(number))
        kind = relax.ShapeType([variable])
        bindings.append(relax.MatchCast(relax.Var(f"{variable.name}_count", kind), shape, kind))
    return bindings
