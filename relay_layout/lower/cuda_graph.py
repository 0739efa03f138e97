"""A whole network as one CUDA graph, so that a call costs one launch instead of one for each kernel.

TVM's RewriteCUDAGraph does the work; this prepares "main" for it, and refuses what a graph cannot hold.
"""

import tvm
from tvm import relax, tirx

from relay_layout.bodies import bodies_of
from relay_layout.errors import TargetError
from relay_layout.ir import (
    Expression,
    as_extent,
    bindings_of,
    fields_of,
    function_attributes,
    operator_name,
    relax_functions,
    size_in_bytes,
    with_body,
    with_functions,
)
from topi_ext.ir import nodes_of

MOST_BYTES = (1 << 31) - 1
"""The largest tensor: kernels count bytes in 32 bits."""


def check_extents(module: tvm.IRModule, target: str) -> None:
    """TargetError where "main" counts elements at run time, as a graph launches for extents known before,
    where a tensor is larger than kernels can count, and where a front end wrote loops for processors.
    """
    for name in bodies_of(module):
        raise TargetError(
            f"target {target}: '{name}' runs as often as the data say, which code for processors alone can "
            "do; compile for a processor"
        )
    for parameter in module["main"].params:
        _check_size(parameter, target)
    for binding in bindings_of(module["main"]):
        _check_size(binding.var, target)
        if operator_name(binding.value) == "tensor_to_shape":
            raise TargetError(
                f"target {target}: '{binding.var.name}' says at run time how many elements there are, "
                "which code for processors alone can do; compile for a processor, or end the model before it"
            )
    for variable, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc) and _is_for_processors(function):
            raise TargetError(
                f"target {target}: '{variable.name_hint}' has a kernel for processors alone; compile for a "
                "processor, or give the model's inputs fixed shapes (--input-shape)"
            )


def _is_for_processors(function: tirx.PrimFunc) -> bool:
    """Has it a loop that is divided among threads already?"""
    return any(loop.kind == tirx.ForKind.PARALLEL for loop in nodes_of(function.body, tirx.For))


def _check_size(variable: relax.Var, target: str) -> None:
    """TargetError for a tensor of too many bytes, or a tuple of them."""
    for kind in fields_of(variable.ty):
        if not isinstance(kind, relax.TensorType) or not isinstance(kind.shape, relax.ShapeExpr):
            continue
        held = size_in_bytes([as_extent(extent) for extent in kind.shape.values], str(kind.dtype))
        if held > MOST_BYTES:
            raise TargetError(
                f"target {target}: '{variable.name}' has {held / 2**30:.1f} GiB, and kernels count the bytes "
                "of a tensor up to 2 GiB; use a smaller batch or image"
            )


def capture(module: tvm.IRModule) -> tvm.IRModule:
    """Let "main" launch its kernels as one graph, which its first call records; other functions stay.

    Every tensor that "main" takes must be at the same address in each call: inputs, weights, and the memory
    that :func:`relay_layout.lower.memory.workspace.lift_workspace` made parameters.
    """
    # Results must be parameters by their own names: an alias would be bound inside the graph.
    module = relax.transform.CanonicalizeBindings()(module)
    main = _with_result_after(module["main"])
    # TVM takes parameters from the number of inputs on for what never moves.
    attributes = {**function_attributes(main), "num_input": 0}
    variable = module.get_global_var("main")
    # TVM makes graphs of every function that it sees.
    kept = {
        other: function for other, function in relax_functions(module).items() if not other.same_as(variable)
    }
    seen = {other: function for other, function in module.functions_items() if other not in kept}
    updated = with_functions(module, {**seen, variable: main.with_attrs(attributes)})
    with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        rewritten = relax.transform.RewriteCUDAGraph()(updated)
    rewritten = _with_results(rewritten, variable)
    for other, function in kept.items():
        rewritten[other] = function
    return rewritten


_RUN_OR_CAPTURE = "vm.builtin.cuda_graph.run_or_capture"


def _with_results(module: tvm.IRModule, main: tvm.ir.GlobalVar) -> tvm.IRModule:
    """``module`` with graphs that return something, their first parameter where nothing else is.

    TVM gives the result of a call without one no register, and then fails to write it when a function returns
    to the built-in function that records it.
    """
    found = dict(module.functions_items())
    blocks = []
    for block in found[main].body.blocks:
        bindings = []
        for binding in block.bindings:
            graph = _empty_graph(binding.value)
            if graph is not None and found[graph].params:
                returning = _returning_first(found[graph])
                found[graph] = returning
                call = binding.value
                call = relax.Call(
                    call.op, call.args, call.attrs, [returning.ret_ty], call.span, returning.ret_ty
                )
                binding = relax.VarBinding(relax.Var(binding.var.name, returning.ret_ty), call)
            bindings.append(binding)
        blocks.append(type(block)(bindings))
    body = relax.SeqExpr(blocks, found[main].body.body)
    found[main] = with_body(found[main], body)
    return relax.transform.Normalize()(with_functions(module, found))


def _empty_graph(value: Expression) -> tvm.ir.GlobalVar | None:
    """The function that a call records, if that returns nothing."""
    if operator_name(value) != "call_builtin_with_ctx" or value.args[0].global_symbol != _RUN_OR_CAPTURE:
        return None
    (returned,) = value.ty_args
    return None if returned.fields else value.args[1].fields[0]


def _returning_first(graph: relax.Function) -> relax.Function:
    result = relax.Tuple([graph.params[0]])
    body = relax.SeqExpr(graph.body.blocks, result)
    return with_body(graph, body, returned=relax.TupleType([graph.params[0].ty]))


def _with_result_after(function: relax.Function) -> relax.Function:
    """``function`` with its result bound in a block of its own, tuples spelled out.

    TVM moves tuples and views into the graph too, each graph within one block, and hands out of it what a
    later block reads but not what the return reads. Spelled out, a tuple is of the parameters themselves.
    """
    body = function.body
    tuples = {
        binding.var: binding.value
        for binding in bindings_of(function)
        if isinstance(binding.value, relax.Tuple)
    }

    def spelled_out(result: Expression) -> Expression:
        result = tuples.get(result, result)
        if isinstance(result, relax.Tuple):
            return relax.Tuple([spelled_out(field) for field in result.fields])
        return result

    result = relax.Var("result", function.ret_ty)
    last = relax.BindingBlock([relax.VarBinding(result, spelled_out(body.body))])
    return with_body(function, relax.SeqExpr([*body.blocks, last], result))
