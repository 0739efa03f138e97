"""Relay's expressions: the names that scripts build networks with.

An expression is a node of :mod:`relay_layout.relay.syntax.tree`. The classes here have the constructors of
Relay's classes and make such nodes; ``isinstance`` with one of them tells the kind of any node. TVM's
functions take expressions as Relax functions, so ``tvm.IRModule.from_expr(expression)`` is a Relax module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any as Anything

import numpy as np
import tvm
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.relay.exporting.module import body_to_tree, function_to_tree, to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.importing.types import to_relay
from relay_layout.relay.kind import Kind
from relay_layout.relay.syntax import (
    free_variables,
    module_of_expression,
    print_expression,
    print_text,
    relay_types,
    tree,
)
from relay_layout.relay.ty import TensorType, dtype_text, scalar_type


class Expr(metaclass=Kind):
    """Any expression, for ``isinstance``."""

    node = tree.EXPRESSIONS


class Var(metaclass=Kind):
    """A variable, a type optional."""

    node = tree.Var

    def __new__(
        cls, name_hint: str, type_annotation: relay_types.RelayType | None = None, span: object = None
    ) -> Anything:
        return tree.Var(str(name_hint), type_annotation)


class Constant(metaclass=Kind):
    """A tensor with its values."""

    node = tree.Constant

    def __new__(cls, data: Anything, span: object = None) -> Anything:
        return tree.Constant(_array(data))


class Call(metaclass=Kind):
    """A call of an operator, by name or as ``relay.op.get`` gives it, or of a function."""

    node = tree.Call

    def __new__(
        cls,
        op: str | tree.Expression,
        args: Sequence[Anything],
        attrs: Mapping[str, tree.AttributeValue] | tvm.ir.DictAttrs | None = None,
        type_args: object = None,
        span: tree.Span | None = None,
    ) -> Anything:
        named = attrs.given if isinstance(attrs, tree.CallAttributes) else attrs or {}
        given = {name: _attribute(value) for name, value in named.items()}
        return tree.Call(op, tuple(map(as_expression, args)), given, span)


class Tuple(metaclass=Kind):
    """A tuple of expressions."""

    node = tree.Tuple

    def __new__(cls, fields: Sequence[Anything], span: object = None) -> Anything:
        return tree.Tuple(tuple(map(as_expression, fields)))


class TupleGetItem(metaclass=Kind):
    """One field of a tuple."""

    node = tree.TupleGetItem

    def __new__(cls, tuple_value: Anything, index: int, span: object = None) -> Anything:
        return tree.TupleGetItem(as_expression(tuple_value), int(index))


class Let(metaclass=Kind):
    """``let variable = value; body``."""

    node = tree.Let

    def __new__(cls, variable: tree.Var, value: Anything, body: Anything, span: object = None) -> Anything:
        return tree.Let(variable, as_expression(value), as_expression(body))


class If(metaclass=Kind):
    """One of two expressions, by a scalar condition of bool."""

    node = tree.If

    def __new__(
        cls, cond: Anything, true_branch: Anything, false_branch: Anything, span: object = None
    ) -> Anything:
        return tree.If(*map(as_expression, (cond, true_branch, false_branch)))


class GlobalVar(metaclass=Kind):
    """A reference to a function of the module."""

    node = tree.GlobalVar

    def __new__(cls, name_hint: str, type_annot: object = None) -> Anything:
        return tree.GlobalVar(str(name_hint))


class _FunctionKind(type):
    """The functions of trees and of modules are Relay's functions too, by whomever they are made."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, tree.Function | relax.Function)


class Function(tree.Function, metaclass=_FunctionKind):
    """A function, which is also a function of TVM.

    Where TVM's functions expect one, it is the Relax function that it describes, built when first needed;
    ``isinstance(function, tvm.ir.BaseFunc)`` holds, so that ``module["main"] = function`` works. Parameters
    and attributes may be those of a module's function whose body is part of ``body``.
    """

    def __init__(
        self,
        params: Sequence[Anything],
        body: Anything,
        ret_type: relay_types.RelayType | None = None,
        type_params: object = None,
        attrs: Mapping[str, tree.AttributeValue] | None = None,
        span: object = None,
    ) -> None:
        # Not super(): its cell has the name of the property below.
        # Attributes of a module's function tell of this package's own matters.
        given = dict(attrs.items()) if attrs and not isinstance(attrs, tvm.ir.DictAttrs) else {}
        inner = as_expression(body)
        tree.Function.__init__(self, _parameters(params, inner), inner, ret_type, given)
        self._relax: relax.Function | None = None

    def __setattr__(self, name: str, value: object) -> None:
        if name != "_relax":
            raise AttributeError(f"a function cannot be changed: {name}")
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.__tvm_ffi_object__(), name)

    def __tvm_ffi_object__(self) -> relax.Function:
        """The Relax function; ModelError for one that cannot be imported."""
        if self._relax is None:
            self._relax = to_relax_function(self)
        return self._relax

    def with_attr(
        self, attr_key_or_dict: str | Mapping[str, Anything], attr_value: Anything = None
    ) -> Function:
        """The same function with an attribute of a name, or those of a dictionary."""
        given = attr_key_or_dict
        if isinstance(given, str):
            given = {given: attr_value}
        added = {str(name): _attribute(value) for name, value in given.items()}
        return Function(self.params, self.body, self.ret_type, attrs={**self.attrs, **added})

    def without_attr(self, attr_key: str) -> Function:
        """The same function without an attribute."""
        kept = {name: value for name, value in self.attrs.items() if name != attr_key}
        return Function(self.params, self.body, self.ret_type, attrs=kept)

    def _shown_class(self) -> type:
        return relax.Function

    __class__ = property(_shown_class)


class TupleWrapper:
    """A tuple of known size, as operators with several results give it: it can be indexed and unpacked."""

    def __init__(self, tuple_value: tree.Expression, size: int) -> None:
        self.tuple_value = tuple_value
        self.size = size

    def astuple(self) -> tree.Expression:
        """The expression of the tuple."""
        return self.tuple_value

    def __getitem__(self, index: int) -> tree.Expression:
        if not -self.size <= index < self.size:
            raise IndexError(f"field {index} of a tuple of {self.size}")
        return tree.TupleGetItem(self.tuple_value, index % self.size)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[tree.Expression]:
        return (self[index] for index in range(self.size))

    def __repr__(self) -> str:
        return f"TupleWrapper({self.tuple_value!r}, {self.size})"

    def __tvm_ffi_object__(self) -> relax.Function:
        return to_relax_function(self.tuple_value)

    @property
    def checked_type(self) -> relay_types.RelayType:
        """The type of the tuple; see :attr:`relay.Expr.checked_type`."""
        return self.tuple_value.checked_type

    def astype(self, dtype: object) -> tree.Expression:
        """TypeError: a tuple has no data type."""
        raise TypeError("a tuple has no data type to change")

    def astext(self, show_meta_data: bool = True) -> str:
        """Relay text of the tuple."""
        return astext(self.tuple_value, show_meta_data)


def var(
    name_hint: str,
    type_annotation: relay_types.RelayType | str | None = None,
    shape: Sequence[Anything] | None = None,
    dtype: Anything = "float32",
    span: object = None,
) -> tree.Var:
    """A variable with a type, with a shape, as a scalar of a dtype, or without type.

    A variable without a type gets one from the first operator that takes it, as weights do from a
    convolution's channels and kernel_size. ValueError where both a type and a shape are given.
    """
    if type_annotation is not None and shape is not None:
        raise ValueError("relay.var takes a type_annotation or a shape, not both")
    if shape is not None:
        type_annotation = TensorType(shape, dtype)
    kind: Anything = type_annotation
    return tree.Var(str(name_hint), scalar_type(kind) if isinstance(kind, str) else kind)


def const(value: Anything, dtype: Anything = None, span: object = None) -> tree.Constant:
    """A constant from a number, a list or an array.

    Without a dtype, int64 becomes int32 and float64 float32; TVM's tensors keep theirs. As in Relay, names of
    dtypes without bits are numpy's here: "float" is float64.
    """
    if isinstance(value, tvm.runtime.Tensor):
        array = _array(value)
        return tree.Constant(array if dtype is None else array.astype(_array_dtype(dtype)))
    array = np.array(value)
    if array.dtype.kind not in "biuf" and not str(array.dtype).startswith(("bfloat", "float")):
        raise ValueError(f"relay.const takes a number or an array, not {type(value).__name__}")
    if dtype is None:
        dtype = {"int64": "int32", "float64": "float32"}.get(str(array.dtype), str(array.dtype))
    return tree.Constant(array.astype(_array_dtype(dtype)))


def _parameters(given: Sequence[Anything], body: tree.Expression) -> tuple[tree.Var, ...]:
    """Parameters as the tree has them: of a module's function the variables of the same name in the body.

    ModelError where the body has two of one name.
    """
    if not any(isinstance(parameter, relax.Var) for parameter in given):
        return tuple(given)
    found: dict[str, tree.Var] = {}
    for variable in free_variables(body):
        if variable.name in found:
            raise ModelError(f"the function's body has two variables '{variable.name}'; rename one")
        found[variable.name] = variable
    return tuple(
        (found.get(str(one.name)) or tree.Var(str(one.name), to_relay(one.ty, f"parameter {one.name}")))
        if isinstance(one, relax.Var)
        else one
        for one in given
    )


def _attribute(value: Anything) -> Anything:
    """A list of a script's, or one of TVM's, as the tuple that the tree has."""
    return tuple(map(_attribute, value)) if isinstance(value, list | tvm.ir.Array) else value


def as_expression(value: Anything) -> tree.Expression:
    """What scripts use as an expression, as one: tuples of several results, lists, numbers and arrays too.

    The body of a module's function is an expression of its parameters as free variables.
    """
    if isinstance(value, TupleWrapper):
        return value.tuple_value
    if isinstance(value, tree.EXPRESSIONS):
        return value
    if isinstance(value, list | tuple):
        return tree.Tuple(tuple(map(as_expression, value)))
    if isinstance(value, int | float | np.ndarray | np.generic | tvm.runtime.Tensor):
        return const(value)
    if isinstance(value, relax.SeqExpr):
        return body_to_tree(value)
    raise TypeError(f"an expression is needed, not {type(value).__name__}")


def operand_beside(expression: tree.Expression, value: Anything) -> Anything:
    """A number or an array beside an expression, as a constant of its dtype; NotImplemented for other things.

    Where the expression's dtype is not known, and for a fraction beside integers, what ``relay.const`` makes.
    """
    if isinstance(value, TupleWrapper) or not isinstance(
        value, bool | int | float | np.ndarray | np.generic | tvm.runtime.Tensor
    ):
        return NotImplemented
    constant = const(value)
    try:
        kind = expression.checked_type
    except ModelError:
        return constant
    dtype = kind.dtype if isinstance(kind, relay_types.TensorType) else str(constant.data.dtype)
    if constant.data.dtype.kind == "f" and dtype.startswith(("int", "uint", "bool")):
        return constant
    return const(value, dtype)


def to_relax_function(expression: tree.Expression) -> relax.Function:
    """The Relax function of a function, or of an expression's free variables. ModelError where impossible."""
    return from_tree(module_of_expression(expression), name="expression")["main"]


def astext(source: Anything, show_meta_data: bool = True) -> str:
    """Relay text of an expression, a function, or a Relax module or function whose operators Relay has.

    :func:`relay.fromtext` reads that of a module, :func:`relay.parse_expr` that of anything else. Without
    ``show_meta_data``, large constants are only referred to.
    """
    if isinstance(source, tvm.IRModule):
        text = print_text(to_tree(source))
    elif isinstance(source, relax.Function) and not isinstance(source, tree.Function):
        text = print_expression(function_to_tree(source))
    else:
        text = print_expression(as_expression(source))
    return text if show_meta_data else text.split("\n#[metadata]", 1)[0]


def _array_dtype(dtype: Anything) -> str:
    return str(dtype) if isinstance(dtype, str) else dtype_text(dtype)


def _array(data: Anything) -> np.ndarray:
    return np.array(data.numpy() if hasattr(data, "numpy") else data)
