"""Branches inside of functions, as functions of their own that a choice between them runs."""

from collections.abc import Iterable, Sequence
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal, structural_map

from relay_layout.bodies import BODY, BRANCH, OTHERWISE, unused_name
from relay_layout.ir import Expression, bindings_of, copy_of, erased, fields_of, with_main


def with_branch_functions(module: tvm.IRModule) -> tvm.IRModule:
    """The module whose "main" calls functions for the sides of each ``relax.If``, in those as well.

    What a side reads of the function around it becomes a parameter. Extents of results that the sides do
    not tell alike are open.
    """
    main = module["main"]
    if not any(isinstance(binding.value, relax.If) for binding in bindings_of(main)):
        return module
    taken = {str(variable.name_hint) for variable in module.get_global_vars()}
    choices = _BranchFunctions(taken)
    updated = copy_of(with_main(module, choices.visit_expr(main)))
    for name, side in choices.sides.items():
        updated[name] = side
    return relax.transform.Normalize()(relax.transform.ConvertToDataflow(min_size=1)(updated))


@mutator
class _BranchFunctions(PyExprMutator):
    """Collects ``sides``, functions by name, in place of branches."""

    def __init__(self, taken: set[str]) -> None:
        super().__init__()
        self.sides: dict[str, relax.Function] = {}
        self._taken = taken

    def visit_if_(self, branch: relax.If) -> Expression:
        """A call of the function that stands for the choice, and its results as the branch gave them."""
        kind = branch.ty
        found = super().visit_if_(branch)
        sides = [found.true_branch, found.false_branch]
        outside = list(dict.fromkeys(one for side in sides for one in relax.analysis.free_vars(side)))
        symbols = _symbols(sides, outside)
        name, other = (unused_name(wanted, self._taken) for wanted in ("choice", "choice_otherwise"))
        self.sides[name] = _function(sides[0], outside, symbols).with_attrs({BODY: BRANCH, OTHERWISE: other})
        self.sides[other] = _function(sides[1], outside, symbols).with_attrs({BODY: BRANCH})
        sizes = [relax.ShapeExpr(symbols)] if symbols else []
        pairs = zip(_leaves(sides[0].ty), _leaves(sides[1].ty), strict=True)
        kinds = [_common(one, other, symbols) for one, other in pairs]
        call = relax.op.call_pure_packed(
            relax.ExternFunc(name), found.cond, *sizes, *outside, ty_args=[relax.TupleType(kinds)]
        )
        outcome = self.builder_.emit(call, name_hint=name)
        results = iter([self._result(outcome, place) for place in range(len(kinds))])
        return self.builder_.normalize(_nested(kind, results))

    def _result(self, outcome: relax.Var, place: int) -> relax.Var:
        """A tensor of the outcome, with a variable for each extent that is open."""
        result = self.builder_.emit(relax.TupleGetItem(outcome, place))
        if result.ty.shape is not None or result.ty.ndim < 0:
            return result
        extents = [tirx.Var(f"{outcome.name}_{place}_{axis}", "int64") for axis in range(result.ty.ndim)]
        return self.builder_.match_cast(result, relax.TensorType(extents, result.ty.dtype))


def _symbols(sides: Sequence[relax.SeqExpr], outside: Sequence[relax.Var]) -> list[tirx.Var]:
    """The extents that sides read of what is outside."""
    found: dict[tirx.Var, None] = {}
    for side in sides:
        found.update(dict.fromkeys(relax.analysis.free_symbolic_vars(relax.Function(list(outside), side))))
    for variable in outside:
        found.update(dict.fromkeys(_variables(variable.ty)))
    return list(found)


def _function(
    side: relax.SeqExpr, outside: Sequence[relax.Var], symbols: Sequence[tirx.Var]
) -> relax.Function:
    """A function of the extents and the tensors outside that gives the tensors of a side."""
    sizes = [relax.Var("sizes", relax.ShapeType(list(symbols)))] if symbols else []
    values: dict[relax.Var, Any] = {one: relax.Var(str(one.name), one.ty) for one in outside}

    def present(variable: relax.Var) -> Any:
        return values.get(variable, variable)

    builder = relax.BlockBuilder()
    with builder.function("side", [*sizes, *values.values()]):
        with builder.dataflow():
            for block in side.blocks:
                for binding in block.bindings:
                    value = structural_map(binding.value, (relax.Var, present))
                    if isinstance(binding, relax.MatchCast):
                        values[binding.var] = builder.match_cast(value, binding.ty)
                    else:
                        values[binding.var] = builder.emit(value, name_hint=str(binding.var.name))
            result = structural_map(side.body, (relax.Var, present))
            output = builder.emit_output(relax.Tuple(_tensors(builder, builder.emit(result))))
        builder.emit_func_output(output)
    return relax.utils.copy_with_new_vars(builder.finalize()["side"].without_attr("global_symbol"))


def _tensors(builder: relax.BlockBuilder, value: Expression) -> list[Expression]:
    """The tensors of a value, those of tuples in tuples in their order."""
    if not isinstance(value.ty, relax.TupleType):
        return [value]
    parts = [builder.emit(relax.TupleGetItem(value, place)) for place in range(len(value.ty.fields))]
    return [tensor for part in parts for tensor in _tensors(builder, part)]


def _leaves(kind: Any) -> list[Any]:
    if not isinstance(kind, relax.TupleType):
        return [kind]
    return [leaf for field in fields_of(kind) for leaf in _leaves(field)]


def _nested(kind: Any, results: Iterable[relax.Var]) -> Expression:
    """Tensors in the tuples of a type."""
    tensors = iter(results)
    if not isinstance(kind, relax.TupleType):
        return next(tensors)
    return relax.Tuple([_nested(field, tensors) for field in kind.fields])


def _common(one: Any, other: Any, symbols: Sequence[tirx.Var]) -> Any:
    """What is known of a result before a side is chosen."""
    known = set(symbols)
    told = all(variable in known for variable in _variables(one))
    return one if told and structural_equal(one, other) else erased(one)


def _variables(kind: Any) -> list[tirx.Var]:
    """The symbols in the extents of a type."""
    return [
        variable
        for extent in _extents(kind)
        for variable in tirx.analysis.undefined_vars(tirx.convert(extent))
    ]


def _extents(kind: Any) -> list[Any]:
    return list(getattr(getattr(kind, "shape", None), "values", None) or ())
