"""Results of main that are tuples within tuples: flat where a network runs, nested where scripts get them."""

from collections.abc import Iterator
from typing import Any

import tvm
from tvm import relax

from relay_layout.ir import Expression, fields_of, function_attributes, with_main


def with_flat_results(module: tvm.IRModule) -> tvm.IRModule:
    """The module whose main gives the tensors in all tuples of its result in one, in order."""
    main = module["main"]
    if not any(isinstance(kind, relax.TupleType) for kind in fields_of(main.ret_ty)):
        return module
    body = main.body
    leaves = list(_leaves(body.body, main.ret_ty))
    kinds = relax.TupleType(list(_leaf_types(main.ret_ty)))
    flat = relax.SeqExpr(body.blocks, relax.Tuple(leaves))
    function = relax.Function(main.params, flat, kinds, is_pure=main.is_pure)
    for name, value in function_attributes(main).items():
        function = function.with_attr(name, value)
    module = relax.transform.Normalize()(with_main(module, function))
    return relax.transform.CanonicalizeBindings()(module)


Form = list[Any] | None
"""How a result is nested: None for a tensor, a list of forms for a tuple."""


def form_of(kind: Any) -> Form:
    """The form of results of a type."""
    return [form_of(field) for field in kind.fields] if isinstance(kind, relax.TupleType) else None


def nested(form: Form, tensors: Iterator[Any]) -> Any:
    """Tensors of a flat result as lists of a form; one tensor as it is."""
    return next(tensors) if form is None else [nested(field, tensors) for field in form]


def _leaves(value: Expression, kind: Any) -> Iterator[Expression]:
    if not isinstance(kind, relax.TupleType):
        yield value
        return
    for place, field in enumerate(kind.fields):
        yield from _leaves(relax.TupleGetItem(value, place), field)


def _leaf_types(kind: Any) -> Iterator[Any]:
    for field in fields_of(kind):
        yield from _leaf_types(field) if isinstance(field, relax.TupleType) else (field,)
