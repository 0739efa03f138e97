"""Operators of floats computed in a lower precision where Relay's categories say so."""

import warnings
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.errors import ModelError, RelayLayoutWarning
from relay_layout.ir import (
    Constant,
    Expression,
    constant_array,
    copy_of,
    dtype_of,
    operator_name,
    relax_functions,
    simplify_bindings,
    value_of,
    with_attributes,
    with_body,
    with_operands,
)
from relay_layout.relay.importing.operation import reason
from relay_layout.relay.importing.types import to_relay
from relay_layout.relay.operators import relay_form
from relay_layout.relay.operators.operator import Exported
from relay_layout.relay.registries.mixed_precision import (
    DTYPES,
    MIXED_PRECISION_ALWAYS,
    MIXED_PRECISION_FOLLOW,
    decide,
    is_known,
)
from relay_layout.relay.syntax import tree

WIDE = "float32"

_MOVEMENTS = ("expand_dims", "permute_dims", "reshape", "squeeze")
"""Operators that only move elements: of an input or a constant they are made in the precision of each reader,
so that nothing is rounded for those that stay wide."""

_LARGEST = {"bfloat16": (2 - 2**-7) * 2.0**127, **{name: float(np.finfo(name).max) for name in DTYPES[1:]}}

_CREATING = ("full", "ones", "zeros")

Missing = Counter[str]
"""How often operators were met that have no category."""


def to_mixed_precision(
    module: tvm.IRModule, dtype: str, missing_op_mode: int, *, keep_output_dtype: bool
) -> tvm.IRModule:
    """The module with the calls of its functions in ``dtype`` where their categories allow it.

    Parameters keep their types, results of main only where ``keep_output_dtype``, those of other functions
    always. Operators without a category follow their operands, are warned of where ``missing_op_mode`` is 1
    and refused with ModelError where it is 0.
    """
    module = relax.transform.Normalize()(module)
    missing: Missing = Counter()
    updated = copy_of(module)
    for variable, function in relax_functions(module).items():
        keeps = keep_output_dtype or str(variable.name_hint) != "main"
        updated.update_func(variable, _mixed(function, dtype, missing, keeps))
    _tell(missing, missing_op_mode)
    return simplify_bindings(relax.transform.Normalize()(updated))


def _tell(missing: Missing, mode: int) -> None:
    if not missing or mode == 2:
        return
    listed = ", ".join(f"{name} ({count} times)" for name, count in sorted(missing.items()))
    message = (
        f"ToMixedPrecision: no category for {listed}; relay.op.register_mixed_precision_conversion gives one"
    )
    if mode == 0:
        raise ModelError(message)
    warnings.warn(f"{message}, until then they follow their operands", RelayLayoutWarning, stacklevel=2)


def _mixed(function: relax.Function, dtype: str, missing: Missing, keeps_results: bool) -> relax.Function:
    mixing = _Mixing(function.params, dtype, missing)
    found = mixing.visit_expr(function)
    wanted = function.ret_ty if keeps_results else None
    body = mixing.ended(found.body, wanted)
    returned = body.body.ty if wanted is None else wanted
    return with_body(function, body, returned=returned)


@mutator
class _Mixing(PyExprMutator):
    """Gives every call operands of the precision that it is due, and infers its type anew."""

    def __init__(self, parameters: Collection[relax.Var], dtype: str, missing: Missing) -> None:
        super().__init__()
        self.parameters = set(parameters)
        self.dtype = dtype
        self.missing = missing
        self.casts: dict[tuple[Any, str], Expression] = {}
        self.emit: Callable[[Expression], relax.Var] = self.builder_.emit
        self._last_casts = self.casts

    def visit_binding_block_(self, block: relax.BindingBlock) -> relax.BindingBlock:
        """The block; what is cast in it is known until its end."""
        return self._block(super().visit_binding_block_, block)

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        """As any block."""
        return self._block(super().visit_dataflow_block_, block)

    def _block(self, visit: Callable[[Any], Any], block: relax.BindingBlock) -> Any:
        outer, self.casts = self.casts, dict(self.casts)
        found = visit(block)
        self._last_casts, self.casts = self.casts, outer
        return found

    def visit_if_(self, branch: relax.If) -> Expression:
        """A branch whose sides give what they gave."""
        found = super().visit_if_(branch)
        wanted = (branch.true_branch.ty, branch.false_branch.ty)
        sides = [
            self.ended(side, kind)
            for side, kind in zip((found.true_branch, found.false_branch), wanted, strict=True)
        ]
        return relax.If(found.cond, *sides)

    def visit_match_cast_(self, binding: relax.MatchCast) -> None:
        """A binding that declares the type of what it gives."""
        value = self._as_type(self.visit_expr(binding.value), binding.ty)
        self.set_var_remap(binding.var, self.builder_.match_cast(value, binding.ty))

    def visit_call_(self, call: relax.Call) -> Expression:
        """The call on operands of its precision."""
        name = operator_name(call)
        if name.startswith("prim."):
            return call
        # Not by super(), which infers a type while the operands may disagree.
        operands = [self.visit_expr(operand) for operand in call.args]
        callee = call.op if name else self.visit_expr(call.op)
        found = relax.Call(callee, operands, call.attrs, call.ty_args)
        if not name or len(call.ty_args):
            return self._declared(call, found)
        if name == "astype":
            return self._cast(found.args[0], str(found.attrs.dtype))
        if name in _MOVEMENTS and self._is_leaf(found.args[0]):
            return found
        return self._operator(call, found)

    def _declared(self, call: relax.Call, found: relax.Call) -> Expression:
        """A call of what says itself which types it takes and gives."""
        pairs = zip(found.args, call.args, strict=True)
        arguments = [self._as_type(argument, before.ty) for argument, before in pairs]
        return with_operands(found, arguments)

    def _operator(self, call: relax.Call, found: relax.Call) -> Expression:
        form = relay_form(call)
        name = form[0].name if form is not None else f"relax.{operator_name(call)}"
        attributes = form[1].attributes if form is not None else {}
        if not is_known(name):
            self.missing[name] += 1
        shown = partial(_shown, name, form[1]) if form is not None else None
        category, accumulation, output = decide(name, shown, self.dtype)
        follows = category == MIXED_PRECISION_FOLLOW
        is_narrow = category == MIXED_PRECISION_ALWAYS or (follows and all(map(self._follows, found.args)))
        if is_narrow and (name != "clip" or self._holds(attributes)):
            named = {
                attribute: accumulation
                for attribute in ("out_dtype", *(["dtype"] if operator_name(call) in _CREATING else []))
                if _has(call, attribute, attributes) and _is_float(call.ty)
            }
            try:
                result = self._typed(found, self.dtype, named)
            except Exception as error:
                # What follows does so where it can; of norms, TVM's take no bfloat16.
                if not follows:
                    raise ModelError(
                        f"ToMixedPrecision: {name} does not take {self.dtype}: {reason(error)}; register "
                        "MIXED_PRECISION_NEVER for it with relay.op.register_mixed_precision_conversion"
                    ) from None
            else:
                wanted = _with_dtype(result.ty, output)
                return result if accumulation == output else self._as_type(self.emit(result), wanted)
        return self._typed(found, WIDE, {})

    def _typed(self, call: relax.Call, dtype: str, named: dict[str, str]) -> Expression:
        """The call on operands of a dtype, with its type."""
        arguments = [self._as_type(argument, _with_dtype(argument.ty, dtype)) for argument in call.args]
        return self.builder_.normalize(with_attributes(call, arguments, **named))

    def _holds(self, attributes: Any) -> bool:
        """Whether the limits of clip are numbers of the lower precision, or none at all."""
        largest = _LARGEST[self.dtype]
        limits = (abs(float(attributes[name])) for name in ("a_min", "a_max"))
        return all(limit <= largest or limit == float("inf") for limit in limits)

    def _follows(self, operand: Expression) -> bool:
        return self._is_leaf(operand) or all(kind.dtype == self.dtype for kind in _floats(operand.ty))

    def _is_leaf(self, value: Expression) -> bool:
        """Whether it is an input or a constant, or one with its elements moved."""
        value = self._source(value)
        while isinstance(value, relax.Var) and value not in self.parameters:
            moved = self.lookup_binding(value)
            if operator_name(moved) not in _MOVEMENTS:
                return False
            value = self._source(moved.args[0])
        return isinstance(value, relax.Var | Constant)

    def _source(self, value: Expression) -> Expression:
        """What a variable is another name for."""
        while isinstance(value, relax.Var) and value not in self.parameters:
            bound = self.lookup_binding(value)
            if not isinstance(bound, relax.Var | Constant):
                break
            value = bound
        return value

    def _cast(self, value: Expression, dtype: str) -> Expression:
        """A tensor in another precision, made once; back in the one that it came from it is what it was."""
        value = self._source(value)
        if dtype_of(value) == dtype:
            return value
        key = (value.__chandle__(), dtype)
        if key in self.casts:
            return self.casts[key]
        moved: Expression = value_of(self, value)
        if operator_name(moved) in _MOVEMENTS and self._is_leaf(value) and dtype in DTYPES:
            inner = self._cast(moved.args[0], dtype)
            result = self.emit(relax.Call(moved.op, [inner, *moved.args[1:]], moved.attrs))
        else:
            result = self.emit(relax.op.astype(value, dtype))
        if dtype in DTYPES and dtype_of(value) in DTYPES:
            self.casts[result.__chandle__(), dtype_of(value)] = value
        self.casts[key] = result
        return result

    def _as_type(self, value: Expression, wanted: Any) -> Expression:
        """A tensor or a tuple with floats of the dtypes of ``wanted``."""
        if isinstance(wanted, relax.TupleType):
            if not isinstance(value, relax.Tuple):
                pairs = zip(_floats(value.ty), _floats(wanted), strict=True)
                if all(have.dtype == want.dtype for have, want in pairs):
                    return value
                places = range(len(wanted.fields))
                value = relax.Tuple([self.emit(relax.TupleGetItem(value, place)) for place in places])
            fields = zip(value.fields, wanted.fields, strict=True)
            return relax.Tuple([self._as_type(*pair) for pair in fields])
        if not _is_float(wanted) or not _is_float(value.ty):
            return value
        return self._cast(value, str(wanted.dtype)) if dtype_of(value) != str(wanted.dtype) else value

    def ended(self, sequence: relax.SeqExpr, wanted: Any) -> relax.SeqExpr:
        """The body of a function or a branch with results of the type ``wanted``.

        None wants them as they come, and inputs whose elements are only moved in the lower precision.
        """
        casts: list[relax.VarBinding] = []

        def emit(value: Expression) -> relax.Var:
            typed = relax.BlockBuilder().normalize(value)
            casts.append(relax.VarBinding(relax.Var("result", typed.ty), typed))
            return casts[-1].var

        blocks = list(sequence.blocks)
        in_dataflow = bool(blocks) and isinstance(blocks[-1], relax.DataflowBlock)
        outer = self.casts
        self.emit, self.casts = emit, dict(self._last_casts if in_dataflow else {})
        value = sequence.body
        result = self._given(value) if wanted is None else self._as_type(value, wanted)
        if casts and isinstance(result, relax.DataflowVar):
            result = emit(result)
        self.emit, self.casts = self.builder_.emit, outer
        if casts and in_dataflow:
            blocks[-1] = relax.DataflowBlock([*blocks[-1].bindings, *casts])
        elif casts:
            blocks.append(relax.BindingBlock(casts))
        return relax.SeqExpr(blocks, result)

    def _given(self, value: Expression) -> Expression:
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._given(field) for field in value.fields])
        bound = value_of(self, value)
        if isinstance(bound, relax.Tuple):
            given = self._given(bound)
            same = all(new.same_as(old) for new, old in zip(given.fields, bound.fields, strict=True))
            return value if same else given
        moved = isinstance(self._source(value), relax.Var) and self._source(value) not in self.parameters
        return (
            self._cast(value, self.dtype) if moved and _is_float(value.ty) and self._is_leaf(value) else value
        )


def _shown(name: str, exported: Exported) -> tree.Call:
    """A call as callbacks see it, its operands variables of their types."""
    return tree.Call(name, [_operand(operand) for operand in exported.operands], exported.attributes)


def _operand(operand: Any) -> tree.Expression:
    if isinstance(operand, relax.Tuple):
        return tree.Tuple(tuple(map(_operand, operand.fields)))
    if isinstance(operand, Constant):
        return tree.Constant(constant_array(operand))
    if isinstance(operand, relax.Var):
        return tree.Var(str(operand.name), to_relay(operand.ty))
    return tree.Constant(operand)


def _has(call: relax.Call, attribute: str, exported: Any) -> bool:
    if isinstance(call.attrs, tvm.ir.DictAttrs):
        return attribute in exported
    return call.attrs is not None and hasattr(call.attrs, attribute)


def _is_float(kind: Any) -> bool:
    return isinstance(kind, relax.TensorType) and str(kind.dtype) in DTYPES


def _floats(kind: Any) -> list[Any]:
    """The tensors of floats in a type."""
    if isinstance(kind, relax.TupleType):
        return [tensor for field in kind.fields for tensor in _floats(field)]
    return [kind] if _is_float(kind) else []


def _with_dtype(kind: Any, dtype: str) -> Any:
    """A type with floats of another dtype."""
    if isinstance(kind, relax.TupleType):
        return relax.TupleType([_with_dtype(field, dtype) for field in kind.fields])
    return relax.TensorType(dtype=dtype, ndim=kind.ndim) if _is_float(kind) else kind
