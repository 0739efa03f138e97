"""Small conveniences over Relax expressions that every pass needs."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import gcd
from typing import Any

import numpy as np
import tvm
from tvm import relax, sym, tirx
from tvm.ir import Op, prim
from tvm.ir.expr import GenericConst
from tvm.relax.expr_functor import PyExprMutator
from tvm_ffi import structural_map

Constant = GenericConst
"""A tensor that a module holds (:func:`constant_array`)."""

Expression = Any
"""A Relax expression (``tvm.relax.Expr``)."""

Emit = Callable[[Expression], Expression]
"""Binds an expression to a variable, which it gives."""

Extent = Any
"""An int, or a symbolic ``tvm.tirx`` expression."""

_LAYOUT_CHANGE = "relay_layout.layout_transform"

HALVES = ("float16", "bfloat16")
"""Floats of 16 bits, of which sums and statistics are taken in single precision."""


def operator_name(expression: Expression) -> str:
    """``"nn.conv2d"`` for a call of ``relax.nn.conv2d``; "" for anything that is no operator call."""
    if isinstance(expression, relax.Call) and isinstance(expression.op, Op):
        return str(expression.op.name).removeprefix("relax.")
    return ""


def shape_of(expression: Expression) -> tuple[Extent, ...] | None:
    """The extents of a tensor, ints where they are static; None where the rank is unknown."""
    shape = expression.ty.shape
    if shape is None or not hasattr(shape, "values"):
        return None
    return tuple(as_extent(extent) for extent in shape.values)


def as_extent(extent: Any) -> Extent:
    """A plain int where the extent is one."""
    if isinstance(extent, (int, tirx.IntImm)):
        return int(extent)
    return extent


def dtype_of(expression: Expression) -> str:
    """The data type of a tensor, by TVM's name of it."""
    return str(expression.ty.dtype)


def is_static(shape: Sequence[Extent]) -> bool:
    """Whether all extents are numbers."""
    return all(isinstance(extent, int) for extent in shape)


def is_empty(shape: Sequence[Extent]) -> bool:
    """Whether there is known to be no element. A reshape of Relax takes 0 for the extent that there was."""
    return any(isinstance(extent, int) and extent == 0 for extent in shape)


def known_to_differ(one: Extent | None, other: Extent | None) -> bool:
    """Whether two extents are numbers, and not the same."""
    return isinstance(one, int) and isinstance(other, int) and one != other


def is_one(extent: Extent) -> bool:
    """Whether an extent is known to be 1."""
    return isinstance(extent, int) and extent == 1


def same_extents(one: Sequence[Extent], other: Sequence[Extent]) -> bool:
    """Whether two shapes are written alike; extents that are written otherwise may be equal all the same."""
    return len(one) == len(other) and all(map(same_extent, one, other))


def same_extent(one: Extent, other: Extent) -> bool:
    """Whether two extents are one number or one expression."""
    if isinstance(one, int) or isinstance(other, int):
        return isinstance(one, int) and isinstance(other, int) and one == other
    return bool(prim.expr_deep_equal(one, other))


def scalar(emit: Emit, extent: Extent) -> Expression:
    """An extent as a tensor of one int64 without dimensions."""
    if isinstance(extent, int):
        return relax.const(extent, "int64")
    listed = emit(relax.op.shape_to_tensor(relax.ShapeExpr([extent])))
    return emit(relax.op.squeeze(listed, [0]))


def factors(extent: Extent) -> tuple[int, list[Extent]]:
    """The number and all else that an extent multiplies; of a sum, what divides it and the rest."""
    if isinstance(extent, int | tirx.IntImm):
        return int(extent), []
    if isinstance(extent, tirx.Mul):
        (left, others), (right, more) = factors(extent.a), factors(extent.b)
        return left * right, others + more
    analyzer = sym.Analyzer()
    multiples = analyzer.modular_set(extent)
    divisor = gcd(int(multiples.coeff), int(multiples.base))
    if divisor <= 1:
        return 1, [extent]
    return divisor, [analyzer.simplify(extent // divisor)]


def size_in_bytes(shape: Sequence[Extent], dtype: str) -> int:
    """Bytes of a tensor; a symbolic extent counts as one."""
    count = 1
    for extent in shape:
        count *= extent if isinstance(extent, int) else 1
    return count * max(1, tvm.DataType(dtype).bits // 8)


def constant_array(expression: Expression) -> np.ndarray:
    """The value of a constant tensor; shares its memory where numpy has the dtype itself."""
    try:
        array: np.ndarray = np.from_dlpack(expression.value)
    except RuntimeError:
        return np.asarray(expression.value.numpy())
    return array


def constant(array: np.ndarray) -> GenericConst:
    """A constant tensor with the values of ``array``."""
    return filled_constant(array.shape, array.dtype, lambda memory: np.copyto(memory, array))


def along_axis(vector: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """A vector that broadcasts along an axis of a tensor of ``rank``; of one element, without dimensions."""
    return vector.reshape(() if vector.size == 1 else (-1, *[1] * (rank - 1 - axis)))


def filled_constant(
    shape: Sequence[int], dtype: np.dtype, fill: Callable[[np.ndarray], object]
) -> GenericConst:
    """A constant tensor whose values ``fill`` writes into the array that it is given.

    For weights: ``relax.const`` would copy an array twice more.
    """
    if dtype.isbuiltin != 1:
        # DLPack does not take bfloat16 and the like to numpy.
        memory = np.empty(shape, dtype)
        fill(memory)
        return relax.const(memory, str(dtype))
    tensor = tvm.runtime.empty(tuple(shape), str(dtype))
    fill(np.from_dlpack(tensor))
    return relax.const(tensor)


def with_operands(call: relax.Call, operands: Iterable[Expression]) -> relax.Call:
    """``call`` with other operands, its type to be inferred anew."""
    return relax.Call(call.op, list(operands), call.attrs, call.ty_args)


def with_attributes(call: relax.Call, arguments: Sequence[Expression], **updates: Any) -> relax.Call:
    """``call`` with other arguments and some attributes changed, its type to be inferred anew."""
    attributes = call.attrs
    if updates and isinstance(attributes, tvm.ir.DictAttrs):
        attributes = tvm.ir.make_node("ir.DictAttrs", **{**dict(attributes.items()), **updates})
    elif updates:
        information = type(attributes).__tvm_ffi_type_info__
        fields = {field.name: getattr(attributes, field.name) for field in information.fields}
        unknown = set(updates) - set(fields)
        assert not unknown, f"{information.type_key} has no attribute {sorted(unknown)}"
        attributes = tvm.ir.make_node(information.type_key, **{**fields, **updates})
    return relax.Call(call.op, list(arguments), attributes, call.ty_args, call.span)


def as_layout_change(call: relax.Call) -> relax.Call:
    """The same call, which says that it changes a layout: a transposition of ours, not one of the network.

    It says so as the place that it comes from, which passes keep and none reads.
    """
    place = tvm.ir.Span(tvm.ir.SourceName(_LAYOUT_CHANGE), 1, 1, 1, 1)
    return relax.Call(call.op, list(call.args), call.attrs, call.ty_args, place)


def is_layout_change(call: Any) -> bool:
    """Whether :func:`as_layout_change` made a call."""
    place = getattr(call, "span", None)
    return isinstance(place, tvm.ir.Span) and place.source_name.name == _LAYOUT_CHANGE


def erased(kind: Any) -> Any:
    """A type of Relax without the extents of its tensors."""
    if isinstance(kind, relax.TupleType):
        return relax.TupleType([erased(field) for field in kind.fields])
    if isinstance(kind, relax.TensorType):
        return relax.TensorType(dtype=kind.dtype, ndim=kind.ndim)
    if isinstance(kind, relax.ShapeType):
        return relax.ShapeType(ndim=kind.ndim)
    return kind


def fields_of(kind: Any) -> list[Any]:
    """The types in a type of Relax: a tuple's fields, or itself."""
    return list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]


def calls_global(value: Any) -> bool:
    """Whether an expression of Relax calls a function of its module by name."""
    return isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar)


def value_of(mutator: PyExprMutator, expression: Expression) -> Expression | None:
    """What a mutator has bound to a variable; None where ``expression`` is none."""
    return mutator.lookup_binding(expression) if isinstance(expression, relax.Var) else None


def out_layout(attributes: Any) -> str:
    """The layout of a convolution's result, which is that of its data where the call names no other."""
    return str(attributes.out_layout or attributes.data_layout)


def ints(values: Iterable[Any]) -> list[int]:
    """Numbers of an attribute."""
    return [int(value) for value in values]


@contextmanager
def function_scope(
    builder: relax.BlockBuilder,
    name: str,
    parameters: Sequence[relax.Var],
    attributes: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """``builder.function``, which leaves no block open where an exception ends it.

    TVM complains aloud about a builder that is dropped so.
    """
    with builder.function(name, list(parameters), attributes):
        try:
            yield
        except BaseException:
            builder._end_block()
            raise


def function_attributes(function: relax.Function) -> dict[str, Any]:
    """The attributes of a function, of which there may be none."""
    return dict(function.attrs) if function.attrs is not None else {}


def input_count(function: relax.Function) -> int:
    """How many of a function's parameters are its inputs: weights, and memory, come behind them."""
    return int(function_attributes(function).get("num_input", len(function.params)))


def bindings_of(function: relax.Function) -> list[relax.Binding]:
    """What a function binds, in order, in all its blocks; not what its branches and inner functions bind."""
    return [binding for block in function.body.blocks for binding in block.bindings]


def result_of(function: relax.Function) -> Expression:
    """What a function gives: a variable is bound to it, or it stands there itself."""
    result = function.body.body
    return {binding.var: binding.value for binding in bindings_of(function)}.get(result, result)


def with_values(function: relax.Function, values: Mapping[relax.Var, Expression]) -> relax.Function:
    """The function with other values for the variables that ``values`` names, of the same types."""
    blocks = [
        type(block)(
            [
                relax.VarBinding(binding.var, values[binding.var]) if binding.var in values else binding
                for binding in block.bindings
            ]
        )
        for block in function.body.blocks
    ]
    return with_body(function, relax.SeqExpr(blocks, function.body.body))


def with_body(
    function: relax.Function,
    body: relax.SeqExpr,
    *,
    parameters: Sequence[relax.Var] | None = None,
    returned: tvm.ir.Type | None = None,
) -> relax.Function:
    """The function with another body, and with other parameters and another type of result where given."""
    changed = relax.Function(
        list(function.params) if parameters is None else list(parameters),
        body,
        function.ret_ty if returned is None else returned,
        function.is_pure,
    )
    return changed.with_attrs(function_attributes(function))


def with_bindings(function: relax.Function, bindings: Sequence[relax.Binding]) -> relax.Function:
    """The function with other bindings, all in one block, and the same result."""
    return with_body(function, relax.SeqExpr([relax.BindingBlock(list(bindings))], function.body.body))


def with_new_variables(function: relax.Function) -> relax.Function:
    """A copy that shares no variable with the function, and no symbol; a module may hold both.

    Of its own, as ``relax.utils.copy_with_new_vars`` fails on extents that depend on a condition, which
    TVM infers of poolings with ``ceil_mode``.
    """
    new: dict[relax.Var, relax.Var] = {}

    def renewed(variable: relax.Var) -> relax.Var:
        if variable not in new:
            new[variable] = type(variable)(variable.name, variable.ty)
        return new[variable]

    return structural_map(function, (relax.Var, renewed))


def copy_of(module: tvm.IRModule) -> tvm.IRModule:
    """A module of the same functions, which can get others."""
    return with_functions(module, module.functions)


def with_functions(
    module: tvm.IRModule, functions: Mapping[tvm.ir.GlobalVar, tvm.ir.BaseFunc]
) -> tvm.IRModule:
    """A module of these functions, with what else the module says."""
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def without_functions(module: tvm.IRModule, gone: Container[tvm.ir.GlobalVar]) -> tvm.IRModule:
    """The module without the functions of these variables."""
    functions = module.functions_items()
    return with_functions(module, {variable: each for variable, each in functions if variable not in gone})


def with_main(module: tvm.IRModule, main: relax.Function) -> tvm.IRModule:
    """The module with another "main"."""
    updated = copy_of(module)
    updated.update_func(module.get_global_var("main"), main)
    return updated


def relax_functions(module: tvm.IRModule) -> dict[tvm.ir.GlobalVar, relax.Function]:
    """The functions of Relax in a module, without those of TIR."""
    return {
        variable: function
        for variable, function in module.functions_items()
        if isinstance(function, relax.Function)
    }


def rebuild_functions(
    module: tvm.IRModule, rebuild: Callable[[relax.Function], relax.Function]
) -> tvm.IRModule:
    """A copy of ``module`` whose every Relax function went through ``rebuild``, each on its own."""
    updated = copy_of(module)
    for variable, function in relax_functions(module).items():
        updated.update_func(variable, rebuild(function))
    return updated


def visit_functions(
    mutator: PyExprMutator, module: tvm.IRModule, where: Callable[[relax.Function], bool] = lambda _: True
) -> tvm.IRModule:
    """``module`` whose Relax functions, those that ``where`` takes, went through one mutator, made with it.

    What the mutator adds to its builder's module, such as kernels, is in the result.
    """
    for variable, function in relax_functions(module).items():
        if where(function):
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    return mutator.builder_.get()


def simplify_bindings(module: tvm.IRModule, kept: Iterable[str] = ()) -> tvm.IRModule:
    """The module without second names for variables, and without values that nothing reads.

    Functions that nothing calls by their variables go as well, but for "main" and those ``kept``.
    """
    module = relax.transform.CanonicalizeBindings()(module)
    return relax.transform.DeadCodeElimination([*kept])(module)
