"""Half precision in float32: one conversion where a tensor enters a function and one where it leaves.

On processors without arithmetic in float16 each operation would be one in float32 between conversions, and
its result be rounded each time. Here tensors between operators are float32, as those of a network in float32
are, so that the same kernels compute them. Nothing is rounded to half precision but what a function returns.
What only moves stays narrow: what is picked of a table, and what a function returns of what it was given.
"""

from collections.abc import Collection, Mapping
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    dtype_of,
    fields_of,
    operator_name,
    rebuild_functions,
    with_attributes,
    with_body,
    with_main,
    with_operands,
)

WIDE = "float32"

_DTYPES = ("dtype", "out_dtype")
"""Attributes of operators that name the type of their results."""

STORED = "float16"
"""The type in half precision in which constants are kept; bits of bfloat16 are none to an artifact."""

_PICKING = frozenset({"take", "gather_elements", "gather_nd", "strided_slice", "dynamic_strided_slice"})
"""Operators whose results are elements of their first operand, which may be many times as large."""

_MOVING = frozenset(
    {"permute_dims", "reshape", "expand_dims", "squeeze", "broadcast_to", "tile", "repeat", "flip"}
)
"""Operators that move the elements of their first operand."""


def widen(module: tvm.IRModule, dtypes: Collection[str]) -> tvm.IRModule:
    """The module with float32 in the place of ``dtypes``, such as "float16", but for parameters and results.

    Constants are converted. Calls of functions, and of what else says itself which types it gives, keep their
    types, with conversions around them.
    """
    widened = rebuild_functions(module, lambda function: _widened(function, dtypes))
    # For the types of what was put together.
    return relax.transform.Normalize()(widened)


def _widened(function: relax.Function, dtypes: Collection[str]) -> relax.Function:
    widening = _Widening(function.params, dtypes)
    found = widening.visit_expr(function)
    if not widening.changed:
        return function
    body = _ending(found.body, function.ret_ty)
    return with_body(function, body)


def with_wide_border(module: tvm.IRModule, dtypes: Collection[str]) -> tvm.IRModule:
    """The module with float32 in the place of ``dtypes`` among the parameters and the results of main."""
    main = module["main"]
    before, after = [parameter.ty for parameter in main.params], fields_of(main.ret_ty)
    if not any(_is_narrow(kind, dtypes) for kind in (*before, *after)):
        return module
    parameters: list[relax.Var] = []
    casts: list[relax.VarBinding] = []
    for parameter in main.params:
        narrow = _is_narrow(parameter.ty, dtypes)
        parameters.append(
            relax.Var(str(parameter.name), _wide(parameter.ty, dtypes)) if narrow else parameter
        )
        if narrow:
            cast = relax.op.astype(parameters[-1], str(parameter.ty.dtype))
            casts.append(relax.VarBinding(parameter, relax.BlockBuilder().normalize(cast)))
    wide = [_wide(kind, dtypes) for kind in after]
    wanted = relax.TupleType(wide) if isinstance(main.ret_ty, relax.TupleType) else wide[0]
    body = _ending(main.body, wanted)
    if casts:
        body = relax.SeqExpr([relax.BindingBlock(casts), *body.blocks], body.body)
    return with_main(module, with_body(main, body, parameters=parameters, returned=wanted))


def _is_narrow(kind: Any, dtypes: Collection[str]) -> bool:
    return isinstance(kind, relax.TensorType) and str(kind.dtype) in dtypes


def _wide(kind: Any, dtypes: Collection[str]) -> Any:
    if not _is_narrow(kind, dtypes):
        return kind
    return relax.TensorType(kind.shape, WIDE) if kind.shape else relax.TensorType(dtype=WIDE, ndim=kind.ndim)


def _ending(body: relax.SeqExpr, wanted: Any) -> relax.SeqExpr:
    """The body of a function with results of the type ``wanted``."""
    *others, last = body.blocks or [relax.BindingBlock([])]
    # What other dataflow blocks bind is not seen behind them.
    seen = [last, *(block for block in others if not isinstance(block, relax.DataflowBlock))]
    results = _Results({binding.var: binding.value for block in seen for binding in block.bindings})
    result = results.of(body.body, wanted)
    blocks, added = list(body.blocks), results.added
    if added and isinstance(last, relax.DataflowBlock):
        blocks[-1] = relax.DataflowBlock([*last.bindings, *added])
    elif added:
        blocks.append(relax.BindingBlock(added))
    return relax.SeqExpr(blocks, result)


class _Results:
    """What a function returns, in the types that it declares; ``added`` are the bindings that this takes."""

    def __init__(self, bindings: Mapping[relax.Var, Expression]) -> None:
        self.added: list[relax.VarBinding] = []
        self._bindings = bindings

    def of(self, value: Expression, wanted: Any) -> Expression:
        """A value in the type ``wanted``."""
        if isinstance(wanted, relax.TupleType):
            fields = []
            for place, kind in enumerate(wanted.fields):
                if isinstance(value, relax.Tuple):
                    field = value.fields[place]
                else:
                    field = self._bound(relax.TupleGetItem(value, place))
                fields.append(self.of(field, kind))
            return relax.Tuple(fields)
        if not isinstance(wanted, relax.TensorType) or str(wanted.dtype) == dtype_of(value):
            return value
        found = self._in(value, str(wanted.dtype))
        return self._bound(found) if isinstance(found, relax.DataflowVar) else found

    def _is_moved(self, value: Expression, dtype: str) -> bool:
        """Whether some of a value was in that type before, and was only moved since."""
        call = self._bindings.get(value)
        if not isinstance(call, relax.Call):
            return False
        name = operator_name(call)
        if name == "astype":
            return dtype_of(call.args[0]) == dtype and dtype_of(call) == WIDE
        if name == "concat" and isinstance(call.args[0], relax.Tuple):
            return any(self._is_moved(field, dtype) for field in call.args[0].fields)
        return name in _MOVING and self._is_moved(call.args[0], dtype)

    def _in(self, value: Expression, dtype: str) -> Expression:
        """A value in that type: moved in it where it was in it, converted where it was not."""
        if not self._is_moved(value, dtype):
            return self._bound(relax.op.astype(value, dtype))
        call = self._bindings[value]
        data, *others = call.args
        if operator_name(call) == "astype":
            return data
        if isinstance(data, relax.Tuple):
            narrow: Expression = relax.Tuple([self._in(field, dtype) for field in data.fields])
        else:
            narrow = self._in(data, dtype)
        return self._bound(with_operands(call, [narrow, *others]))

    def _bound(self, value: Expression) -> Expression:
        normalized = relax.BlockBuilder().normalize(value)
        self.added.append(relax.VarBinding(relax.Var("result", normalized.ty), normalized))
        return self.added[-1].var


@mutator
class _Widening(PyExprMutator):
    """Infers the types of all calls anew, from parameters and constants that are float32."""

    def __init__(self, parameters: Collection[relax.Var], dtypes: Collection[str]) -> None:
        super().__init__()
        self.dtypes = dtypes
        self.narrow = {parameter for parameter in parameters if self._is_narrow(parameter.ty)}
        self.wide: dict[relax.Var, relax.Var] = {}
        self.changed = bool(self.narrow)

    def visit_binding_block_(self, block: relax.BindingBlock) -> relax.BindingBlock:
        """The block, in which each parameter that it reads is converted once."""
        outer, self.wide = self.wide, {}
        found = super().visit_binding_block_(block)
        self.wide = outer
        return found

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        """As of any block; what is bound in it is seen in it alone."""
        outer, self.wide = self.wide, {}
        found = super().visit_dataflow_block_(block)
        self.wide = outer
        return found

    def visit_var_(self, variable: relax.Var) -> Expression:
        """A parameter in half precision as float32."""
        if variable not in self.narrow:
            return super().visit_var_(variable)
        if variable not in self.wide:
            cast = relax.op.astype(variable, WIDE)
            self.wide[variable] = self.builder_.emit(cast, f"{variable.name}_wide")
        return self.wide[variable]

    def visit_generic_const_(self, value: Constant) -> Constant:
        """The constant in float32."""
        if not self._is_narrow(value.ty):
            return value
        self.changed = True
        return constant(constant_array(value).astype(WIDE))

    def visit_call_(self, call: relax.Call) -> Expression:
        """The operator on float32; what declares its types is called with them."""
        if str(getattr(call.op, "name", "")).startswith("prim."):
            # Of an extent.
            return call
        found = super().visit_call_(call)
        if not operator_name(call) or len(call.ty_args):
            return self._declared(call, found)
        named = {name: WIDE for name in _DTYPES if self._names_narrow(call.attrs, name)}
        if named:
            self.changed = True
            found = with_attributes(found, list(found.args), **named)
        if operator_name(found) == "astype" and dtype_of(found.args[0]) == str(found.attrs.dtype):
            return found.args[0]
        picked = self._picked(call, found)
        if picked is not None:
            return picked
        # Without a type, which is inferred from what the operands are now.
        return self._as_wide(self.builder_.normalize(relax.Call(found.op, list(found.args), found.attrs)))

    def visit_match_cast_(self, binding: relax.MatchCast) -> None:
        """A binding that declares the type of what it gives."""
        if not self._is_narrow(binding.ty):
            super().visit_match_cast_(binding)
            return
        value = self._as_declared(self.visit_expr(binding.value), binding.ty)
        found = self._as_wide(self.builder_.match_cast(value, binding.ty))
        self.set_var_remap(binding.var, self.builder_.emit(found, binding.var.name))

    def _picked(self, call: relax.Call, found: relax.Call) -> Expression | None:
        """The elements that a call picks, converted afterwards; None where it picks of no narrow value."""
        if operator_name(call) not in _PICKING or dtype_of(call.args[0]) != STORED:
            return None
        data: Expression | None = None
        if isinstance(call.args[0], Constant):
            data = call.args[0]
        elif isinstance(found.args[0], relax.Var):
            cast = self.builder_.lookup_binding(found.args[0])
            if cast is not None and operator_name(cast) == "astype" and self._is_narrow(cast.args[0].ty):
                data = cast.args[0]
        if data is None:
            return None
        return relax.op.astype(self.builder_.emit(with_operands(found, [data, *found.args[1:]])), WIDE)

    def _declared(self, call: relax.Call, found: relax.Call) -> Expression:
        arguments = [
            self._as_declared(argument, before.ty)
            for argument, before in zip(found.args, call.args, strict=True)
        ]
        result = with_operands(found, arguments)
        return self._as_wide(self.builder_.normalize(result))

    def _as_declared(self, value: Expression, wanted: Any) -> Expression:
        """The value in the types that something declares."""
        if isinstance(wanted, relax.TupleType) and isinstance(value, relax.Tuple):
            pairs = zip(value.fields, wanted.fields, strict=True)
            return relax.Tuple([self._as_declared(*pair) for pair in pairs])
        if not self._is_narrow(wanted) or dtype_of(value) == str(wanted.dtype):
            return value
        return self.builder_.emit(relax.op.astype(value, str(wanted.dtype)))

    def _as_wide(self, value: Expression) -> Expression:
        """The value, which may have been given in half precision after all."""
        kind = value.ty
        if isinstance(kind, relax.TupleType) and any(map(self._is_narrow, kind.fields)):
            bound = self.builder_.emit(value)
            fields = [relax.TupleGetItem(bound, place) for place in range(len(kind.fields))]
            return relax.Tuple([self._as_wide(self.builder_.emit(field)) for field in fields])
        if not self._is_narrow(kind):
            return value
        self.changed = True
        return relax.op.astype(self.builder_.emit(value), WIDE)

    def _is_narrow(self, kind: Any) -> bool:
        return _is_narrow(kind, self.dtypes)

    def _names_narrow(self, attributes: Any, name: str) -> bool:
        return attributes is not None and str(getattr(attributes, name, "")) in self.dtypes
