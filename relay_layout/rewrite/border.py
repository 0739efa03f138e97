"""What a caller or a model fixes at the border of a function, as transforms there.

The conversion that follows absorbs them where it can, like any transpose that a module holds. There are two
ways to fix the order in which a tensor lies in memory. A *layout* is what the tensor is to be from now on:
its shape is in that order. A *dim_order* is of memory alone, as in PyTorch: whoever runs the network sees the
shape that the model has, and the session sees to it that the memory is as declared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from relay_layout.errors import LayoutError
from relay_layout.graph import build_graph
from relay_layout.graph.border import (
    DECLARED,
    IN_MEMORY,
    declared_orders,
    dimension_letters,
    input_names,
    output_names,
)
from relay_layout.ir import Expression, as_extent, fields_of, function_attributes, shape_of, with_main
from relay_layout.layout import Layout
from relay_layout.layout.transform import dim_order
from relay_layout.layout_request import LayoutRequest


@dataclass(frozen=True)
class _Side:
    """The inputs or the outputs of a function, and what is fixed of them."""

    kind: str
    names: Sequence[str]
    layouts: Mapping[str, str]
    orders: Sequence[Sequence[int]]


def with_border_layouts(module: tvm.IRModule, request: LayoutRequest) -> tvm.IRModule:
    """The module, in normal form, whose "main" takes inputs and gives outputs as the request has them.

    What the module's attributes declare (``DECLARED``) holds where the request says nothing, and becomes
    what ``IN_MEMORY`` says. LayoutError for a name that main does not have, or a layout or an order that
    does not fit the tensor.
    """
    module = relax.transform.Normalize()(module)
    function = module["main"]
    inputs, outputs = _sides(function, request)
    if not any((inputs.layouts, outputs.layouts, *inputs.orders, *outputs.orders)):
        return module
    letters = dimension_letters(build_graph(function))
    builder = relax.BlockBuilder()
    parameters: list[relax.Var] = []
    before: list[relax.VarBinding] = []
    for place, parameter in enumerate(function.params):
        order = _order(inputs, place, parameter, letters)
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
    for place, result in enumerate(results):
        order = _order(outputs, place, result, letters)
        if order is not None:
            moved = builder.normalize(relax.op.permute_dims(result, list(order)))
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
    attributes = {
        name: value for name, value in function_attributes(function).items() if name not in DECLARED
    }
    attributes |= dict(zip(IN_MEMORY, ([*map(list, side.orders)] for side in (inputs, outputs)), strict=True))
    new = relax.Function(parameters, body).with_attrs(attributes)
    return relax.transform.Normalize()(with_main(module, new))


def _sides(function: relax.Function, request: LayoutRequest) -> tuple[_Side, _Side]:
    before, after = declared_orders(function)
    inputs = "input", before, input_names(function), [parameter.ty for parameter in function.params]
    outputs = "output", after, output_names(function), fields_of(function.ret_ty)
    sides = []
    for (kind, declared, names, types), layouts, given in (
        (inputs, request.input_layouts, request.input_dim_orders),
        (outputs, request.output_layouts, request.output_dim_orders),
    ):
        _check_names(layouts, names, kind, "a layout")
        _check_names(given, names, kind, "a dim_order")
        for name in given:
            if name in layouts:
                raise LayoutError(f"{kind} '{name}' is given a layout and a dim_order; give one of them")
        # A layout makes another tensor of it, so that an order declared of the old one says nothing.
        orders = [
            () if name in layouts else tuple(given.get(name, own))
            for name, own in zip(names, declared, strict=True)
        ]
        for place, kept in enumerate(types):
            if _is_empty(kept) and orders[place]:
                # In memory nothing lies in any order, and TVM transposes nothing.
                orders[place] = tuple(sorted(orders[place]))
        sides.append(_Side(kind, names, layouts, orders))
    return sides[0], sides[1]


def _is_empty(kind: Any) -> bool:
    extents = getattr(kind.shape, "values", ()) if isinstance(kind, relax.TensorType) else ()
    return any(isinstance(as_extent(extent), int) and as_extent(extent) == 0 for extent in extents)


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


def _check_names(given: Mapping[str, object], names: Sequence[str], kind: str, what: str) -> None:
    for name in given:
        if name not in names:
            raise LayoutError(f"there is no {kind} '{name}' to have {what}; there are {', '.join(names)}")


def _order(side: _Side, place: int, value: Expression, letters: Mapping[int, str]) -> list[int] | None:
    """The dimensions of a value in the order that is fixed; None where that is the order it has."""
    name = side.names[place]
    what = f"{side.kind} '{name}'"
    text, order = side.layouts.get(name), list(side.orders[place])
    rank = len(shape_of(value) or ())
    if text is not None:
        layout = Layout.parse(text)
        own = letters.get(rank, "")
        if layout.is_blocked or sorted(layout.primal) != sorted(own):
            wanted = f"its dimensions are {own}" if own else f"it has {rank} dimensions"
            raise LayoutError(f"layout {text} does not fit {what}: {wanted}, in any order and without blocks")
        order = list(dim_order(layout, own))
    elif order and sorted(order) != list(range(rank)):
        given = ", ".join(map(str, order))
        raise LayoutError(
            f"dim_order ({given}) does not fit {what}: write each of its {rank} dimensions, "
            f"0 to {rank - 1}, once"
        )
    return order if order != sorted(order) else None
