"""Relay text, which ``astext`` and ``str`` print, read into the syntax tree."""

from functools import partial

import numpy as np

from relay_layout.relay.syntax.lexer import Token, describe
from relay_layout.relay.syntax.metadata_section import refers_to_attributes
from relay_layout.relay.syntax.relay_types import MAX_TYPE_NESTING, RelayType
from relay_layout.relay.syntax.source import Source, decode, shorten
from relay_layout.relay.syntax.text_cursor import Cursor, read_attribute, read_type
from relay_layout.relay.syntax.trampoline import Step, run
from relay_layout.relay.syntax.traversal import module_of_expression
from relay_layout.relay.syntax.tree import (
    MAX_EXPRESSION_NESTING,
    AttributeValue,
    Call,
    Constant,
    Expression,
    Function,
    GlobalVar,
    If,
    Let,
    Module,
    Tuple,
    TupleGetItem,
    Var,
)

_INFIX = {
    "*": (3, "multiply"),
    "/": (3, "divide"),
    "+": (2, "add"),
    "-": (2, "subtract"),
    "<": (1, "less"),
    ">": (1, "greater"),
    "<=": (1, "less_equal"),
    ">=": (1, "greater_equal"),
    "==": (0, "equal"),
    "!=": (0, "not_equal"),
}
"""Operators between their operands: how tightly they bind, from the left, and their names."""
_UNSUPPORTED = {
    "type": "algebraic data types",
    "extern": "external types",
    "match": "algebraic data types",
    "ref": "references",
    "ref_read": "references",
    "ref_write": "references",
}
_NO_EXPRESSION = {"def", "else", "free_var", "let", *_UNSUPPORTED}
RESERVED_NAMES = frozenset(_NO_EXPRESSION | {"fn", "if", "True", "False"})
"""Words that cannot name an operator."""
_DEVICE = "virtual_device"


def read_text(source: str | bytes, name: str = "<relay>") -> Module:
    """The module in a Relay text, with or without version header and metadata section.

    ``name`` is the file's name in messages; a function or expression outside any ``def`` becomes ``main``.
    Raises ModelError of the form ``NAME:LINE:COLUMN: expected ..., found ...`` when the text is not Relay,
    refers to what is not there, or uses what is not supported.
    """
    return _Reader(Cursor(Source(decode(source, name), name))).module()


def read_expression(source: str | bytes, name: str = "<relay>") -> Expression:
    """The one expression in a Relay text, such as ``fn (%x: float32) { add(%x, 1f) }``.

    Raises ModelError as :func:`read_text` does, and where there are definitions.
    """
    return _Reader(Cursor(Source(decode(source, name), name))).expression()


class _Reader:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._locals: list[dict[str, Var]] = [{}]
        self._graph: list[dict[str, Expression]] = [{}]
        # Relay numbers an expression where it prints it first, and refers to it from other blocks as well.
        self._closed_graph: dict[str, Expression] = {}
        self._globals: dict[str, Token] = {}
        self._nesting = 0

    def expression(self) -> Expression:
        cursor = self._cursor
        if cursor.token.kind == "version":
            cursor.advance()
        found = run(self._block())
        if cursor.token.kind == "metadata":
            cursor.advance()
        if cursor.token.kind != "end":
            cursor.fail("the end of the expression")
        return found

    def module(self) -> Module:
        cursor = self._cursor
        header = cursor.token
        metadata: dict[str, AttributeValue] = {}
        if header.kind == "version":
            metadata["version"] = cursor.advance().text
        functions: dict[str, Function] = {}
        if cursor.token.kind == "name" and cursor.token.text == "def":
            functions = self._definitions()
        elif cursor.token.kind not in ("end", "metadata"):
            functions = dict(module_of_expression(run(self._block())).functions)
        elif header.kind != "version":
            cursor.fail("a function such as def @main(%x: Tensor[(1, 3), float32]) { ... }")
        if cursor.token.kind == "metadata":
            cursor.advance()
        if cursor.token.kind != "end":
            cursor.fail("'def' or the end of the file")
        for name, token in self._globals.items():
            if name not in functions:
                raise cursor.error(token, f"function @{shorten(name)} is not defined in this file")
        return Module(functions, metadata)

    def _definitions(self) -> dict[str, Function]:
        cursor = self._cursor
        functions: dict[str, Function] = {}
        while cursor.is_word("def"):
            cursor.advance()
            token = cursor.expect_kind("global", "the name of a function, such as @main")
            if token.text in functions:
                raise cursor.error(token, f"function @{shorten(token.text)} is defined twice")
            self._locals, self._graph, self._closed_graph = [{}], [{}], {}
            functions[token.text] = run(self._function())
        return functions

    def _function(self) -> Step[Function]:
        cursor = self._cursor
        if cursor.is_symbol("["):
            raise cursor.error(cursor.token, "type parameters are not supported")
        cursor.expect("(")
        attrs: dict[str, AttributeValue] = {}
        params: dict[str, Var] = {}
        while not cursor.is_symbol(")"):
            if cursor.is_attribute():
                self._function_attribute(attrs)
            else:
                token = cursor.expect_kind(
                    "local", "a parameter such as %x: float32, or an attribute 'name=value'"
                )
                if token.text in params:
                    raise cursor.error(token, f"parameter %{shorten(token.text)} is there twice")
                params[token.text] = self._binding(token)
            if not cursor.accept(","):
                break
        cursor.expect(")", ",")
        ret_type = read_type(cursor) if cursor.accept("->") else None
        body = yield self._braces(params)
        return Function(tuple(params.values()), body, ret_type, attrs)

    def _function_attribute(self, attrs: dict[str, AttributeValue]) -> None:
        if self._cursor.is_word(_DEVICE):
            self._skip_device()
        else:
            read_attribute(self._cursor, attrs)

    def _skip_device(self) -> None:
        # Which device computes is chosen by the target, as for a file that does not say.
        self._cursor.expect_word(_DEVICE)
        self._cursor.expect("=")
        self._cursor.expect_kind("meta", "meta[VirtualDevice][...]")

    def _binding(self, token: Token) -> Var:
        if self._cursor.accept("{"):
            self._skip_device()
            self._cursor.expect("}")
        annotation: RelayType | None = read_type(self._cursor) if self._cursor.accept(":") else None
        return Var(token.text, annotation)

    def _braces(self, params: dict[str, Var] | None = None) -> Step[Expression]:
        self._cursor.expect("{")
        body = yield self._block(params)
        self._cursor.expect("}")
        return body

    def _block(self, params: dict[str, Var] | None = None) -> Step[Expression]:
        cursor = self._cursor
        self._locals.append(dict(params or {}))
        self._graph.append({})
        lets: list[tuple[Var, Expression]] = []
        while True:
            token = cursor.token
            if token.kind == "graph" and cursor.next_is("="):
                cursor.advance()
                cursor.advance()
                value = yield self._expression()
                if token.text in self._graph[-1]:
                    raise cursor.error(token, f"{shorten(token.text)} is defined twice in this block")
                self._graph[-1][token.text] = value
            elif cursor.is_word("let"):
                cursor.advance()
                lets.append((yield self._let()))
            elif cursor.is_word("free_var"):
                cursor.advance()
                token = cursor.expect_kind("local", "a variable such as %x")
                self._locals[0][token.text] = self._binding(token)
            else:
                break
            cursor.expect(";")
        body = yield self._expression()
        self._locals.pop()
        self._closed_graph.update(self._graph.pop())
        for variable, value in reversed(lets):
            body = Let(variable, value, body)
        return body

    def _let(self) -> Step[tuple[Var, Expression]]:
        cursor = self._cursor
        token = cursor.expect_kind("local", "a variable such as %x")
        variable = self._binding(token)
        cursor.expect("=")
        # A function may call itself by the name that it is bound to; other values see the outer variable.
        if cursor.is_word("fn"):
            self._locals[-1][token.text] = variable
        start = cursor.token
        if cursor.is_word("let"):
            self._enter(start)
            value = yield self._block()
            self._nesting -= 1
        else:
            value = yield self._expression()
        self._locals[-1][token.text] = variable
        return variable, value

    def _expression(self) -> Step[Expression]:
        """Operands with operators between them, applied as soon as no tighter one can follow."""
        cursor = self._cursor
        values: list[Expression] = [(yield self._operand())]
        pending: list[Token] = []
        while True:
            token = cursor.token
            level = _INFIX[token.text][0] if token.kind == "symbol" and token.text in _INFIX else -1
            while pending and _INFIX[pending[-1].text][0] >= level:
                applied, right = pending.pop(), values.pop()
                span = cursor.source.span(applied.offset)
                values.append(Call(_INFIX[applied.text][1], (values.pop(), right), {}, span))
            if level < 0:
                return values[0]
            pending.append(cursor.advance())
            values.append((yield self._operand()))

    def _operand(self) -> Step[Expression]:
        cursor = self._cursor
        start = cursor.token
        self._enter(start)
        value = yield self._primary()
        while True:
            if cursor.token.kind == "projection":
                value = self._project(value, cursor.advance())
            elif cursor.is_symbol("("):
                value = yield self._call(value, start)
            else:
                break
        self._nesting -= 1
        return value

    def _enter(self, token: Token) -> None:
        self._nesting += 1
        if self._nesting > MAX_EXPRESSION_NESTING:
            raise self._cursor.error(
                token,
                f"expected expressions that nest at most {MAX_EXPRESSION_NESTING} deep; "
                "bind inner ones with '%0 = ...;'",
            )

    def _primary(self) -> Step[Expression]:
        cursor = self._cursor
        token = cursor.token
        if token.kind == "local":
            cursor.advance()
            return self._variable(token)
        if token.kind == "graph":
            cursor.advance()
            return self._numbered(token)
        if token.kind == "global":
            cursor.advance()
            self._globals.setdefault(token.text, token)
            return GlobalVar(token.text)
        if token.kind == "number":
            value, dtype = cursor.number()
            return Constant(np.array(value, dtype))
        if token.kind == "meta":
            cursor.advance()
            return cursor.metadata.constant(token.text, partial(cursor.error, token))
        if token.kind == "name":
            result = yield self._named(token)
        elif cursor.accept("("):
            result = yield self._parentheses()
        else:
            cursor.fail("an expression")
        return result

    def _named(self, token: Token) -> Step[Expression]:
        cursor = self._cursor
        if token.text in _UNSUPPORTED:
            raise cursor.error(token, f"{_UNSUPPORTED[token.text]} ('{token.text}') are not supported")
        if token.text in _NO_EXPRESSION:
            cursor.fail("an expression")
        cursor.advance()
        if token.text in ("True", "False"):
            return Constant(np.array(token.text == "True"))
        if token.text == "fn":
            result = yield self._function()
        elif token.text == "if":
            result = yield self._if()
        elif cursor.is_symbol("("):
            result = yield self._call(token.text, token)
        else:
            raise cursor.error(
                token,
                f"expected '(' after the operator {describe(token)}, found {describe(cursor.token)}; "
                "variables start with '%'",
            )
        return result

    def _if(self) -> Step[Expression]:
        cursor = self._cursor
        cursor.expect("(")
        condition = yield self._expression()
        cursor.expect(")")
        true_branch = yield self._braces()
        cursor.expect_word("else")
        false_branch = yield self._braces()
        return If(condition, true_branch, false_branch)

    def _parentheses(self) -> Step[Expression]:
        cursor = self._cursor
        fields: list[Expression] = []
        is_tuple = cursor.is_symbol(")")
        while not cursor.is_symbol(")"):
            fields.append((yield self._block()))
            if not cursor.accept(","):
                break
            is_tuple = True
        cursor.expect(")", ",")
        return Tuple(tuple(fields)) if is_tuple else fields[0]

    def _call(self, callee: str | Expression, start: Token) -> Step[Expression]:
        cursor = self._cursor
        cursor.expect("(")
        args: list[Expression] = []
        attrs: dict[str, AttributeValue] = {}
        while not cursor.is_symbol(")"):
            token = cursor.token
            if cursor.is_attribute():
                read_attribute(cursor, attrs)
            elif token.kind == "meta" and refers_to_attributes(token.text):
                cursor.advance()
                attrs.update(cursor.metadata.call_attributes(token.text, partial(cursor.error, token)))
            elif attrs:
                cursor.fail("an attribute 'name=value' or ')'")
            else:
                args.append((yield self._expression()))
            if not cursor.accept(","):
                break
        cursor.expect(")", ",")
        return Call(callee, tuple(args), attrs, cursor.source.span(start.offset))

    def _numbered(self, token: Token) -> Expression:
        for scope in reversed(self._graph):
            if token.text in scope:
                return scope[token.text]
        if token.text in self._closed_graph:
            return self._closed_graph[token.text]
        raise self._cursor.error(token, f"{shorten(token.text)} is not defined before it is used here")

    def _variable(self, token: Token) -> Expression:
        # `%p.0` is the variable "p.0" where there is one, and the first field of "p" where there is not.
        name, fields = token.text, list[str]()
        while True:
            variable = self._find(name)
            if variable is not None:
                break
            name, dot, index = name.rpartition(".")
            if not dot or not index.isdigit() or len(fields) == MAX_TYPE_NESTING:
                raise self._cursor.error(
                    token, f"variable %{shorten(token.text)} is not defined before it is used here"
                )
            fields.append(index)
        value: Expression = variable
        for index in reversed(fields):
            value = self._project(value, token._replace(text=index))
        return value

    def _find(self, name: str) -> Var | None:
        for scope in reversed(self._locals):
            if name in scope:
                return scope[name]
        return None

    def _project(self, value: Expression, token: Token) -> TupleGetItem:
        if len(token.text) > 9:
            raise self._cursor.error(token, "expected the index of a field, found a larger number")
        return TupleGetItem(value, int(token.text))
