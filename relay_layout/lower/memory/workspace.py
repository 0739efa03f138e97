"""Memory of results as arguments: of intermediate ones allocated once, of outputs for each call."""

from collections import Counter
from collections.abc import Sequence

import tvm
from tvm import relax

from relay_layout.artifact.functions import ALONE, DESTINATIONS, OUTPUTS, WORKSPACE
from relay_layout.graph.uses import variables_read
from relay_layout.ir import (
    bindings_of,
    input_count,
    is_static,
    operator_name,
    result_of,
    shape_of,
    with_body,
    with_main,
    with_new_variables,
    with_operands,
)
from relay_layout.lower.memory.aliases import Aliases
from relay_layout.lower.memory.operators import POINTED, RESHAPE, STORAGE, TENSOR, is_known


def lift_workspace(module: tvm.IRModule) -> tvm.IRModule:
    """Let "main" take the tensors that it would allocate as further parameters, and keep what "main" was as
    ALONE.

    Those are the tensors of known shape in storages of known size, and views of them in other known shapes.
    The tensors of outputs, which DESTINATIONS makes, come behind the inputs; the others, which WORKSPACE
    makes, come last. Expects planned memory and no builtin.alloc_tensor. Within a branch, and for extents
    that are only known at run time, "main" still allocates in each call.
    """
    function = module["main"]
    bindings = bindings_of(function)
    outputs = _outputs(function)
    lifted = _liftable(bindings, outputs)
    given = outputs | {call.args[0] for variable, call in lifted.items() if variable in outputs}
    destinations = {variable: call for variable, call in lifted.items() if variable in given}
    others = {variable: call for variable, call in lifted.items() if variable not in given}
    body = relax.SeqExpr([relax.BindingBlock(_kept(bindings, lifted))], function.body.body)
    inputs = input_count(function)
    parameters = [
        *function.params[:inputs],
        *_tensors(destinations),
        *function.params[inputs:],
        *_tensors(others),
    ]
    main = with_body(function, body, parameters=parameters).with_attr("num_input", inputs)
    updated = with_main(module, main)
    updated[DESTINATIONS] = _maker(DESTINATIONS, destinations)
    updated[OUTPUTS] = _shapes(OUTPUTS, _placed(function, _tensors(destinations)))
    updated[WORKSPACE] = _maker(WORKSPACE, others)
    updated[ALONE] = with_new_variables(function).with_attr("global_symbol", ALONE)
    return updated


def _outputs(function: relax.Function) -> set[relax.Var]:
    """The variables whose tensors outputs are, or are views of, where nothing else lies in their storages."""
    bindings = bindings_of(function)
    bound = {binding.var: binding.value for binding in bindings}
    aliases = Aliases(bindings)
    roots = {aliases.root(variable) for variable in variables_read(result_of(function))}
    storages = {variable: call.args[0] for variable, call in bound.items() if operator_name(call) == TENSOR}
    held = Counter(storages.values())
    return {variable for variable in roots if held[storages.get(variable)] == 1}


def _placed(function: relax.Function, destinations: Sequence[relax.Var]) -> list[list[int]]:
    """For each output the number of the tensor that it lies in, and its extents; see OUTPUTS."""
    result, aliases = result_of(function), Aliases(bindings_of(function))
    free = {variable: number for number, variable in enumerate(destinations)}
    found: list[list[int]] = []
    for output in result.fields if isinstance(result, relax.Tuple) else [function.body.body]:
        shape = shape_of(output) if isinstance(output.ty, relax.TensorType) else None
        is_known_shape = shape is not None and is_static(shape)
        number = free.pop(aliases.root(output), None) if is_known_shape else None
        found.append([] if shape is None or number is None else [number, *map(int, shape)])
    return found


def _shapes(name: str, shapes: Sequence[Sequence[int]]) -> relax.Function:
    """The function that gives these shapes."""
    builder = relax.BlockBuilder()
    with builder.function(name, [], attrs={"relax.force_pure": True}):
        builder.emit_func_output(relax.Tuple([relax.ShapeExpr(list(shape)) for shape in shapes]))
    return builder.finalize()[name]


def _liftable(bindings: Sequence[relax.Binding], outputs: set[relax.Var]) -> dict[relax.Var, relax.Call]:
    """The calls that can move, in order, by the variable of each; they read only each other's.

    Views of ``outputs`` stay, since those may be at another place in each call.
    """
    stays: set[relax.Var] = set()
    while True:
        lifted = _calls(bindings, stays, outputs)
        read = {variable for binding in _kept(bindings, lifted) for variable in variables_read(binding.value)}
        needed = {
            variable
            for variable, call in lifted.items()
            if variable in read and operator_name(call) == STORAGE
        }
        if not needed:
            return lifted
        stays |= needed


def _calls(
    bindings: Sequence[relax.Binding], stays: set[relax.Var], outputs: set[relax.Var]
) -> dict[relax.Var, relax.Call]:
    lifted: dict[relax.Var, relax.Call] = {}
    aliases: dict[relax.Var, relax.Var] = {}
    for binding in bindings:
        variable, call = binding.var, binding.value
        if isinstance(call, relax.Var):
            aliases[variable] = aliases.get(call, call)
            continue
        match operator_name(call):
            case operator if operator == STORAGE:
                movable = variable not in stays and is_known(call.args[0])
            case operator if operator == TENSOR:
                movable = call.args[0] in lifted and is_known(call.args[2])
            case operator if operator == RESHAPE:
                source = aliases.get(call.args[0], call.args[0])
                movable = source in lifted and source not in outputs and is_known(call.args[1])
                call = with_operands(call, [source, call.args[1]])
            case operator if operator == POINTED:
                movable = call.args[0] in lifted and call.args[0] not in outputs
            case _:
                movable = False
        if movable:
            lifted[variable] = call
    return lifted


def _kept(bindings: Sequence[relax.Binding], lifted: dict[relax.Var, relax.Call]) -> list[relax.Binding]:
    return [binding for binding in bindings if binding.var not in lifted]


def _tensors(made: dict[relax.Var, relax.Call]) -> list[relax.Var]:
    return [variable for variable, call in made.items() if operator_name(call) != STORAGE]


def _maker(name: str, made: dict[relax.Var, relax.Call]) -> relax.Function:
    """The function that makes these calls and gives their tensors."""
    builder = relax.BlockBuilder()
    copies: dict[relax.Var, relax.Var] = {}
    with builder.function(name, [], attrs={"relax.force_pure": True}):
        for variable, call in made.items():
            arguments = [copies.get(argument, argument) for argument in call.args]
            copies[variable] = builder.emit(with_operands(call, arguments))
        builder.emit_func_output(relax.Tuple([copies[variable] for variable in _tensors(made)]))
    return builder.finalize()[name]
