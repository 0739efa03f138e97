"""Layouts that a caller fixes for inputs and outputs, as transforms at the border of the function.

The conversion that follows absorbs them where it can, like any transpose that a module holds.
"""

from collections.abc import Mapping, Sequence

import tvm
from tvm import relax

from relay_layout.errors import LayoutError
from relay_layout.graph import Graph, build_graph
from relay_layout.ir import Expression, function_attributes, shape_of
from relay_layout.layout import Layout
from relay_layout.layout_transform import dim_order
from relay_layout.request import LayoutRequest

USUAL = {1: "C", 2: "NC", 3: "NCW", 4: "NCHW", 5: "NCDHW"}
"""What the dimensions of a tensor are called in a module without convolutions."""


def with_border_layouts(module: tvm.IRModule, request: LayoutRequest) -> tvm.IRModule:
    """The module, in normal form, whose "main" takes inputs and gives outputs in the request's layouts.

    LayoutError for a name that main does not have, or a layout that does not fit the tensor.
    """
    module = relax.transform.Normalize()(module)
    if not request.input_layouts and not request.output_layouts:
        return module
    function = module["main"]
    inputs, outputs = input_names(function), output_names(function)
    letters = dimension_letters(build_graph(function))
    _check_names(request.input_layouts, inputs, "input")
    _check_names(request.output_layouts, outputs, "output")
    builder = relax.BlockBuilder()
    parameters: list[relax.Var] = []
    before: list[relax.VarBinding] = []
    for name, parameter in zip(inputs, function.params, strict=True):
        order = _order(request.input_layouts.get(name), parameter, letters, f"input '{name}'")
        if order is None:
            parameters.append(parameter)
            continue
        shape = shape_of(parameter) or ()
        kind = relax.TensorType([shape[axis] for axis in order], parameter.ty.dtype)
        parameters.append(relax.Var(str(parameter.name), kind))
        back = relax.op.permute_dims(parameters[-1], [order.index(axis) for axis in range(len(order))])
        # What was the parameter is bound to the transform, so the rest of the function stays as it is.
        before.append(relax.VarBinding(parameter, builder.normalize(back)))
    after: list[relax.VarBinding] = []
    results = _results(function.body.body, after)
    for place, name in enumerate(outputs):
        order = _order(request.output_layouts.get(name), results[place], letters, f"output '{name}'")
        if order is not None:
            moved = builder.normalize(relax.op.permute_dims(results[place], list(order)))
            variable = relax.Var(f"output_{place}", moved.ty)
            after.append(relax.VarBinding(variable, moved))
            results[place] = variable
    result = (
        builder.normalize(relax.Tuple(results))
        if isinstance(function.body.body.ty, relax.TupleType)
        else results[0]
    )
    blocks = [relax.BindingBlock(before), *function.body.blocks, relax.BindingBlock(after)]
    body = builder.normalize(relax.SeqExpr([block for block in blocks if len(block.bindings)], result))
    new = relax.Function(parameters, body, attrs=function.attrs)
    converted = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    converted.update_func(module.get_global_var("main"), new)
    return relax.transform.Normalize()(converted)


def input_names(function: relax.Function) -> list[str]:
    """Names of the inputs: those that the front end recorded, or the parameters' own."""
    names = [str(name) for name in function_attributes(function).get("input_names", ())]
    own = [str(parameter.name) for parameter in function.params]
    return names if len(names) == len(own) else own


def output_names(function: relax.Function) -> list[str]:
    """Names of the outputs: those that the front end recorded, or ``output``, numbered where several."""
    names = [str(name) for name in function_attributes(function).get("output_names", ())]
    result = function.ret_ty
    count = len(result.fields) if isinstance(result, relax.TupleType) else 1
    own = ["output"] if count == 1 else [f"output_{index}" for index in range(count)]
    return names if len(names) == count else own


def dimension_letters(graph: Graph) -> dict[int, str]:
    """What dimensions are called, by rank: as the first convolution of that rank calls them."""
    letters = dict(USUAL)
    for node in reversed(graph.nodes):
        layout = str(getattr(node.attributes, "data_layout", "")) if node.operator else ""
        if layout.isupper():
            letters[len(layout)] = layout
    return letters


def _results(body: Expression, bindings: list[relax.VarBinding]) -> list[Expression]:
    """The tensors of a result; fields of a tuple variable are bound first."""
    if not isinstance(body.ty, relax.TupleType):
        return [body]
    if isinstance(body, relax.Tuple):
        return list(body.fields)
    variables = [relax.Var(f"result_{place}", kind) for place, kind in enumerate(body.ty.fields)]
    for place, variable in enumerate(variables):
        bindings.append(relax.VarBinding(variable, relax.TupleGetItem(body, place)))
    return list(variables)


def _check_names(given: Mapping[str, str], names: Sequence[str], kind: str) -> None:
    for name in given:
        if name not in names:
            raise LayoutError(f"there is no {kind} '{name}' to have a layout; there are {', '.join(names)}")


def _order(text: str | None, value: Expression, letters: Mapping[int, str], what: str) -> list[int] | None:
    """The dimensions of a value in the order of a layout; None where that is the order it has."""
    if text is None:
        return None
    layout = Layout.parse(text)
    shape = shape_of(value) or ()
    own = letters.get(len(shape), "")
    if layout.is_blocked or sorted(layout.primal) != sorted(own):
        wanted = f"its dimensions are {own}" if own else f"it has {len(shape)} dimensions"
        raise LayoutError(f"layout {text} does not fit {what}: {wanted}, in any order and without blocks")
    order = list(dim_order(layout, own))
    return order if order != sorted(order) else None
