"""Relay's JSON form, which ``tvm.ir.save_json`` writes, read into the syntax tree."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, cast

from relay_layout.relay.syntax.attribute_kinds import (
    BOOLEAN,
    DATA_TYPE,
    DOUBLE,
    INTEGER,
    NODE,
    TEXT,
    Declaration,
)
from relay_layout.relay.syntax.attribute_table import declaration, is_attributes
from relay_layout.relay.syntax.json_nodes import NodeTable
from relay_layout.relay.syntax.json_view import Attributes, NodeView, Operator, Pairs, Unsupported
from relay_layout.relay.syntax.relay_types import MAX_TYPE_NESTING, FuncType, TensorType, TupleType
from relay_layout.relay.syntax.source import decode, shorten
from relay_layout.relay.syntax.traversal import module_of_expression
from relay_layout.relay.syntax.tree import (
    EXPRESSIONS,
    AttributeValue,
    Call,
    Constant,
    Function,
    GlobalVar,
    If,
    Let,
    Module,
    Tuple,
    TupleGetItem,
    Var,
)

# A list may hold the same list many times, so its size is bounded as if each were written out.
_MAX_VALUE_SIZE = 100_000


class _Extent(NamedTuple):
    """How deep a type or a value nests, how many parts it has, and whether an attribute may have it."""

    depth: int
    size: int
    is_value: bool


_ATOM = _Extent(0, 1, True)
_EXPRESSION = _Extent(0, 1, False)
_NESTING = ("Array", "Map", "FuncType")
_LISTS = ("Array", "Map")
_ATOMIC_VALUES = (
    "",
    "IntImm",
    "FloatImm",
    "runtime.BoxInt",
    "runtime.BoxFloat",
    "runtime.BoxBool",
    "runtime.String",
    "tir.StringImm",
    "tir.Any",
)


class Builder:
    """Makes what the nodes of a table stand for, each once, operands first, without recursion."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._made: dict[int, object] = {}
        self._extents: dict[int, _Extent] = {}

    def build(self, root: int) -> object:
        """What a node stands for.

        Raises ModelError, naming the node, for cycles, missing nodes, fields of the wrong type, and types
        of nodes that are not supported.
        """
        opened: set[int] = set()
        stack = [root]
        while stack:
            index = stack[-1]
            if index in self._made:
                stack.pop()
            elif index in opened:
                stack.pop()
                opened.remove(index)
                view = NodeView(self._table, index, self._made)
                self._made[index] = self._make(view)
                self._extents[index] = self._measure(index)
            else:
                opened.add(index)
                for reference in reversed(self._references(index)):
                    if reference in opened:
                        raise self._table.error(index, f"refers to node {reference}, which refers back to it")
                    if reference not in self._made:
                        stack.append(reference)
        return self._made[root]

    def build_value(self, root: int) -> AttributeValue:
        """What a node stands for, as the value of an attribute.

        Raises ModelError as :meth:`build` does, and for what cannot be such a value.
        """
        value = self.build(root)
        if not self._extents[root].is_value:
            raise self._table.error(root, "expected the value of an attribute")
        return cast(AttributeValue, value)

    def globals(self) -> Iterator[tuple[int, GlobalVar]]:
        """The references to functions that have been made, with their nodes."""
        for index, value in self._made.items():
            if isinstance(value, GlobalVar):
                yield index, value

    def _references(self, index: int) -> list[int]:
        key = self._table.type_key(index)
        if key in ("Array", "Map"):
            return self._table.data(index)
        if is_attributes(key):
            return self._attribute_references(index, key)
        maker = _MAKERS.get(key)
        if maker is None:
            return []
        fields = self._table.fields(index)
        return [
            self._table.reference(index, field)
            for field in maker.references
            if field in fields or field not in maker.optional
        ]

    def _attribute_references(self, index: int, key: str) -> list[int]:
        references = []
        declared = self._declaration(index, key)
        for field in self._table.fields(index):
            if field not in declared:
                raise self._table.error(index, f"unknown attribute '{shorten(field)}'")
            if declared[field].kind == NODE:
                references.append(self._table.reference(index, field))
            elif declared[field].kind == TEXT:
                reference = self._table.text_reference(index, field)
                if reference is not None:
                    references.append(reference)
        return references

    def _declaration(self, index: int, key: str) -> Declaration:
        declared = declaration(key)
        if declared is None:
            raise self._table.error(index, "attributes of this type are not supported")
        return declared

    def _measure(self, index: int) -> _Extent:
        key = self._table.type_key(index)
        if key in _EXPRESSION_KEYS:
            return _ATOM if key == "relay.Constant" else _EXPRESSION
        parts = [self._extents[reference] for reference in self._references(index)]
        depth = max((part.depth for part in parts), default=0) + (key in _NESTING)
        size = sum(part.size for part in parts) + 1
        is_list = key in _LISTS and not isinstance(self._made[index], Pairs)
        is_value = key in _ATOMIC_VALUES or (is_list and all(part.is_value for part in parts))
        if depth > MAX_TYPE_NESTING:
            raise self._table.error(index, f"nests more than {MAX_TYPE_NESTING} deep")
        if size > _MAX_VALUE_SIZE:
            raise self._table.error(index, f"has more than {_MAX_VALUE_SIZE} parts")
        return _Extent(depth, size, is_value)

    def _make(self, node: NodeView) -> object:
        key = self._table.type_key(node.index)
        if is_attributes(key):
            return self._make_attributes(node, key)
        if key == "DictAttrs":
            return self._make_dictionary(node)
        maker = _MAKERS.get(key)
        return Unsupported(key) if maker is None else maker.make(node)

    def _make_dictionary(self, node: NodeView) -> Attributes:
        value = node.value("__dict__")
        if value is None:
            return Attributes({})
        if not isinstance(value, Mapping):
            raise node.mismatch("__dict__", "a map from strings", value)
        if not self._extents[self._table.reference(node.index, "__dict__")].is_value:
            raise node.error("an attribute has a value that is not supported")
        return Attributes(value)

    def _make_attributes(self, node: NodeView, key: str) -> Attributes:
        values: dict[str, AttributeValue] = {}
        declared = self._declaration(node.index, key)
        # In the order of the declaration, which is that of Relay text; JSON sorts them by name.
        for field in (field for field in declared if field in self._table.fields(node.index)):
            kind, default, _ = declared[field]
            value = self._attribute_value(node, field) if kind == NODE else _SCALARS[kind](node, field)
            if type(value) is not type(default) or value != default:
                values[field] = value
        return Attributes(values)

    def _attribute_value(self, node: NodeView, field: str) -> AttributeValue:
        index = self._table.reference(node.index, field)
        if not self._extents[index].is_value:
            raise node.mismatch(field, "a number, a text or a list of them", self._made[index])
        return cast(AttributeValue, self._made[index])


_SCALARS: dict[str, Callable[[NodeView, str], AttributeValue]] = {
    INTEGER: lambda node, field: node.table.integer(node.index, field),
    BOOLEAN: lambda node, field: node.table.boolean(node.index, field),
    DOUBLE: lambda node, field: node.table.double(node.index, field),
    DATA_TYPE: NodeView.data_type,
    TEXT: NodeView.text,
}


def _make_map(node: NodeView) -> object:
    keys = node.table.keys(node.index)
    items = node.items()
    if keys is not None:
        return dict(zip(keys, items, strict=True))
    if len(items) % 2:
        raise node.error("expected keys and values in turn, found a key without a value")
    entries = tuple(zip(items[::2], items[1::2], strict=True))
    names = {key: value for key, value in entries if isinstance(key, str)}
    return names if len(names) == len(entries) else Pairs(entries)


def _make_integer(node: NodeView) -> bool | int:
    value = node.table.integer(node.index, "value")
    return bool(value) if node.data_type("dtype") == "bool" else value


def _make_variable(node: NodeView) -> Var:
    return Var(node.string("vid"), node.type("type_annotation"))


def _make_let(node: NodeView) -> Let:
    variable = node.value("var")
    if not isinstance(variable, Var):
        raise node.mismatch("var", "a variable", variable)
    return Let(variable, node.expression("value"), node.expression("body"))


def _make_call(node: NodeView) -> Call:
    callee = node.value("op")
    if isinstance(callee, Operator):
        return Call(callee.name, node.expressions("args"), node.attributes("attrs"))
    if not isinstance(callee, EXPRESSIONS):
        raise node.mismatch("op", "an operator or a function", callee)
    return Call(callee, node.expressions("args"), node.attributes("attrs"))


def _make_projection(node: NodeView) -> TupleGetItem:
    index = node.table.integer(node.index, "index")
    if not 0 <= index < 2**31:
        raise node.error(f"expected the index of a field, found {index}")
    return TupleGetItem(node.expression("tuple_value"), index)


def _make_function(node: NodeView) -> Function:
    node.empty("type_params", "type parameters")
    return Function(
        node.variables("params"), node.expression("body"), node.type("ret_type"), node.attributes("attrs")
    )


def _make_function_type(node: NodeView) -> FuncType:
    node.empty("type_params", "type parameters")
    result = node.type("ret_type")
    if result is None:
        raise node.mismatch("ret_type", "a type", None)
    return FuncType(node.types("arg_types"), result)


def _make_tensor_type(node: NodeView) -> TensorType:
    dtype = node.data_type("dtype")
    shape = node.value("shape")
    if dtype is None or not isinstance(shape, tuple):
        raise node.error("expected a shape and a data type")
    dimensions: list[int | None] = []
    elements = 1
    for dimension in shape:
        if type(dimension) is int and dimension >= 0:
            dimensions.append(dimension)
            elements *= dimension or 1
        elif dimension is None or (
            isinstance(dimension, Unsupported) and dimension.type_key.startswith("tir.")
        ):
            dimensions.append(None)
        else:
            raise node.error("expected a shape of dimensions of zero or more")
        if elements > 2**59:
            raise node.error("expected a shape whose tensor can exist: this one has too many elements")
    return TensorType(tuple(dimensions), dtype)


def _make_module(node: NodeView) -> Module:
    value = node.value("functions")
    entries = value.entries if isinstance(value, Pairs) else ()
    if not isinstance(value, Pairs) and value != {}:
        raise node.mismatch("functions", "a map from names to functions", value)
    functions: dict[str, Function] = {}
    for key, function in entries:
        if not isinstance(key, GlobalVar):
            raise node.mismatch("functions", "a map from names to functions", key)
        if not isinstance(function, Function):
            found = function.type_key if isinstance(function, Unsupported) else type(function).__name__
            raise node.error(
                f"function @{shorten(key.name)} is a {shorten(found)}; only relay.Function is supported"
            )
        if key.name in functions:
            raise node.error(f"function @{shorten(key.name)} is there twice")
        functions[key.name] = function
    return Module(functions, node.attributes("attrs"))


class _Maker(NamedTuple):
    """The fields of a type of node that refer to other nodes, and how it is made once these are."""

    make: Callable[[NodeView], object]
    references: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


_MAKERS: dict[str, _Maker] = {
    "": _Maker(lambda node: None),
    "Array": _Maker(NodeView.items),
    "Map": _Maker(_make_map),
    "DictAttrs": _Maker(lambda node: None, ("__dict__",)),
    "IntImm": _Maker(_make_integer),
    "runtime.BoxInt": _Maker(lambda node: node.table.integer(node.index, "value")),
    "FloatImm": _Maker(lambda node: node.table.double(node.index, "value")),
    "runtime.BoxFloat": _Maker(lambda node: node.table.double(node.index, "value")),
    "runtime.BoxBool": _Maker(lambda node: node.table.boolean(node.index, "value")),
    "runtime.String": _Maker(lambda node: node.table.representation(node.index)),
    "tir.StringImm": _Maker(lambda node: node.string("value"), ("value",)),
    "tir.Any": _Maker(lambda node: None),
    "Op": _Maker(lambda node: Operator(node.table.representation(node.index))),
    "GlobalVar": _Maker(lambda node: GlobalVar(node.string("name_hint")), ("name_hint",)),
    "FuncType": _Maker(_make_function_type, ("arg_types", "ret_type", "type_params"), ("type_params",)),
    "TupleType": _Maker(lambda node: TupleType(node.types("fields")), ("fields",)),
    "IRModule": _Maker(_make_module, ("functions", "attrs"), ("attrs",)),
    "relay.Id": _Maker(lambda node: node.string("name_hint"), ("name_hint",)),
    "relay.TensorType": _Maker(_make_tensor_type, ("shape",)),
    "relay.Var": _Maker(_make_variable, ("vid", "type_annotation")),
    "relay.Constant": _Maker(lambda node: Constant(node.table.tensor(node.index, "data"))),
    "relay.Call": _Maker(_make_call, ("op", "args", "attrs"), ("attrs",)),
    "relay.Tuple": _Maker(lambda node: Tuple(node.expressions("fields")), ("fields",)),
    "relay.TupleGetItem": _Maker(_make_projection, ("tuple_value",)),
    "relay.Let": _Maker(_make_let, ("var", "value", "body")),
    "relay.If": _Maker(
        lambda node: If(
            node.expression("cond"), node.expression("true_branch"), node.expression("false_branch")
        ),
        ("cond", "true_branch", "false_branch"),
    ),
    "relay.Function": _Maker(
        _make_function, ("params", "body", "ret_type", "attrs", "type_params"), ("attrs", "type_params")
    ),
}
_EXPRESSION_KEYS = {"GlobalVar", "IRModule", *(key for key in _MAKERS if key.startswith("relay."))}
_EXPRESSION_KEYS.remove("relay.TensorType")


def read_json(source: str | bytes, name: str = "<json>") -> Module:
    """The module in the text that ``tvm.ir.save_json`` wrote of a module, a function or an expression.

    ``name`` is the file's name in messages; a function that is not in a module becomes ``main``. Attributes
    that equal the default their operator declares are left out, as in Relay text. Raises ModelError, naming
    the node, when the text is not of this form or uses what is not supported.
    """
    table = NodeTable(decode(source, name), name)
    builder = Builder(table)
    value = builder.build(table.root)
    if isinstance(value, EXPRESSIONS):
        value = module_of_expression(value)
    if not isinstance(value, Module):
        raise table.error(table.root, "expected a module or a function")
    for index, variable in builder.globals():
        if variable.name not in value.functions:
            raise table.error(index, f"function @{shorten(variable.name)} is not in the module")
    metadata = {key: entry for key, entry in table.attrs.items() if isinstance(entry, str)}
    return Module(value.functions, {**metadata, **value.metadata})
