"""Memory of intermediate results as arguments, which whoever runs the network allocates once."""

from collections.abc import Sequence

import tvm
from tvm import relax

from relay_layout.artifact.functions import ALONE, WORKSPACE
from relay_layout.graph.uses import variables_read
from relay_layout.ir import bindings_of, operator_name, with_body, with_main
from relay_layout.lower.memory.operators import POINTED, RESHAPE, STORAGE, TENSOR, is_known


def lift_workspace(module: tvm.IRModule) -> tvm.IRModule:
    """Let "main" take the tensors that it would allocate as further parameters, which WORKSPACE makes, and
    keep what "main" was as ALONE.

    Those are the tensors of known shape in storages of known size, and views of them in other known shapes.
    Outputs may be among them, and then hold until the next call only. Expects planned memory and no
    builtin.alloc_tensor. Within a branch, and for extents that are only known at run time, "main" still
    allocates in each call.
    """
    function = module["main"]
    bindings = bindings_of(function)
    lifted = _liftable(bindings)
    tensors = [variable for variable, call in lifted.items() if operator_name(call) != STORAGE]
    body = relax.SeqExpr([relax.BindingBlock(_kept(bindings, lifted))], function.body.body)
    updated = with_main(module, with_body(function, body, parameters=[*function.params, *tensors]))
    updated[WORKSPACE] = _workspace(lifted, tensors)
    updated[ALONE] = relax.utils.copy_with_new_vars(function).with_attr("global_symbol", ALONE)
    return updated


def _liftable(bindings: Sequence[relax.Binding]) -> dict[relax.Var, relax.Call]:
    """The calls that can move, in order, by the variable of each; they read only each other's."""
    stays: set[relax.Var] = set()
    while True:
        lifted = _calls(bindings, stays)
        read = {variable for binding in _kept(bindings, lifted) for variable in variables_read(binding.value)}
        needed = {
            variable
            for variable, call in lifted.items()
            if variable in read and operator_name(call) == STORAGE
        }
        if not needed:
            return lifted
        stays |= needed


def _calls(bindings: Sequence[relax.Binding], stays: set[relax.Var]) -> dict[relax.Var, relax.Call]:
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
                movable = source in lifted and is_known(call.args[1])
                call = relax.Call(call.op, [source, call.args[1]], call.attrs, call.ty_args)
            case operator if operator == POINTED:
                movable = call.args[0] in lifted
            case _:
                movable = False
        if movable:
            lifted[variable] = call
    return lifted


def _kept(bindings: Sequence[relax.Binding], lifted: dict[relax.Var, relax.Call]) -> list[relax.Binding]:
    return [binding for binding in bindings if binding.var not in lifted]


def _workspace(lifted: dict[relax.Var, relax.Call], tensors: Sequence[relax.Var]) -> relax.Function:
    builder = relax.BlockBuilder()
    made: dict[relax.Var, relax.Var] = {}
    with builder.function(WORKSPACE, [], attrs={"relax.force_pure": True}):
        for variable, call in lifted.items():
            arguments = [made.get(argument, argument) for argument in call.args]
            made[variable] = builder.emit(relax.Call(call.op, arguments, call.attrs, call.ty_args))
        builder.emit_func_output(relax.Tuple([made[variable] for variable in tensors]))
    return builder.finalize()[WORKSPACE]
