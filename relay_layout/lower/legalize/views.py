"""Views of views as one."""

import tvm
from tvm import relax

from relay_layout.ir import Expression, is_static, operator_name, rebuild_functions, shape_of, with_body
from relay_layout.lower.legalize.default import default_call
from relay_layout.targets.offers import VIEWS


def merge_views(module: tvm.IRModule) -> tvm.IRModule:
    """Let views of views, of extents that are known, be views of the tensor itself.

    Two in a row would be fused into a function, in which nobody sees that it only copies.
    """
    return rebuild_functions(module, _merged)


def _merged(function: relax.Function) -> relax.Function:
    sources: dict[relax.Var, Expression] = {}
    body = function.body
    if not isinstance(body, relax.SeqExpr):
        return function

    def merged(binding: relax.Binding) -> relax.Binding:
        variable, value = binding.var, binding.value
        if operator_name(value) not in VIEWS or not is_static(shape_of(variable) or ("unknown",)):
            return binding
        source = sources[variable] = sources.get(value.args[0], value.args[0])
        if source is value.args[0]:
            return binding
        view = relax.BlockBuilder().normalize(relax.op.reshape(source, shape_of(variable)))
        return relax.VarBinding(variable, view)

    blocks = []
    for block in body.blocks:
        # What a block does not give out, others cannot read.
        sources.clear()
        blocks.append(type(block)([merged(binding) for binding in block.bindings]))
    return with_body(function, relax.SeqExpr(blocks, body.body))


def reshape_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """The reshape itself, a view, where loops would divide by 0 or by extents that are not known.

    TVM makes views of loops where it can prove that these only copy, which it cannot of all of them, and not
    of those that it has joined with others.
    """
    shapes = shape_of(call.args[0]), shape_of(call)
    if any(not isinstance(extent, int) or extent == 0 for shape in shapes for extent in shape or ()):
        return call
    return default_call(builder, call)
