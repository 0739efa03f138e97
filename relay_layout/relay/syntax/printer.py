"""The syntax tree printed as Relay text, in the form of ``astext``."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from relay_layout.errors import ModelError
from relay_layout.relay.syntax.lexer import OPERATOR_NAME, VARIABLE_NAME
from relay_layout.relay.syntax.literals import print_float, print_scalar
from relay_layout.relay.syntax.metadata_writer import MetadataWriter
from relay_layout.relay.syntax.relay_types import written_tuple
from relay_layout.relay.syntax.source import shorten
from relay_layout.relay.syntax.text_reader import RESERVED_NAMES
from relay_layout.relay.syntax.trampoline import Step, run
from relay_layout.relay.syntax.traversal import children, post_order
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

# The reader counts some of what is written on one line as well.
_MAX_BLOCKS = MAX_EXPRESSION_NESTING - 4
_LEAVES = (Var, GlobalVar, Constant)
_HEADER = '#[version = "0.0.5"]\n'


def print_text(module: Module) -> str:
    """The text of a module, with version header and, where constants need it, metadata section.

    :func:`relay_layout.relay.syntax.read_text` reads it back as the same module. Local variables keep their
    names as far as these are distinct and can be written. Raises ModelError for what text cannot say:
    variables that are used outside of where they are bound, functions or branches that nest too deep, names
    of operators, functions or attributes that are none.
    """
    metadata = MetadataWriter()
    functions = [
        _Printer(f"function @{shorten(name)}", function, metadata, depth=1).definition(name)
        for name, function in module.functions.items()
    ]
    return _HEADER + "\n".join(functions) + metadata.section()


def print_expression(expression: Expression) -> str:
    """The text of one expression: of a function ``fn (...) { ... }``, of others after their free variables.

    :func:`relay_layout.relay.syntax.read_expression` reads it back. Raises ModelError as :func:`print_text`.
    """
    metadata = MetadataWriter()
    return _HEADER + _Printer("the expression", expression, metadata, depth=0).text() + metadata.section()


class _Prepared(NamedTuple):
    """The text of an expression that has no number yet, and the block that is to number it."""

    text: str
    block: int


class _Printer:
    """Prints one function of a module, or an expression; numbers and names start anew with each.

    ``depth`` is how far the lines of its outermost block are indented.
    """

    def __init__(self, what: str, root: Expression, metadata: MetadataWriter, *, depth: int) -> None:
        self._what = what
        self._root = root
        self._metadata = metadata
        self._depth = depth
        self._prepared: dict[int, _Prepared] = {}
        self._texts: dict[int, str] = {}
        self._bound: dict[int, str] = {}
        self._in_scope: set[int] = set()
        self._names: Counter[str] = Counter()
        self._numbered = 0
        self._blocks: list[list[str]] = []
        # Whoever asks for the text uses the root once.
        self._uses: Counter[int] = Counter([id(root)])
        self._dotted_index = False
        for part in post_order(root):
            self._uses.update(map(id, children(part)))
            if isinstance(part, Let):
                self._note(part.var)
            for param in part.params if isinstance(part, Function) else ():
                self._note(param)

    def _note(self, variable: Var) -> None:
        self._dotted_index |= bool(re.search(r"\.[0-9]+$", variable.name))

    def definition(self, name: str) -> str:
        """The function as what a module calls by a name."""
        assert isinstance(self._root, Function)
        checked = _checked(name, VARIABLE_NAME, "a function")
        return run(self._print_function(f"def @{checked}", self._root)) + "\n"

    def text(self) -> str:
        """The lines of the expression."""
        return run(self._print_block(self._root)) + "\n"

    def _print_function(self, heading: str, function: Function) -> Step[str]:
        parameters = [self._bind(param) for param in function.params]
        parameters += self._print_attributes(function.attrs)
        result = f" -> {function.ret_type}" if function.ret_type is not None else ""
        body = yield self._print_block(function.body)
        self._in_scope.difference_update(map(id, function.params))
        return f"{heading}({', '.join(parameters)}){result} {{\n{body}\n{self._indent}}}"

    @property
    def _indent(self) -> str:
        return self._indent_of(len(self._blocks))

    def _indent_of(self, blocks: int) -> str:
        return "  " * (blocks - 1 + self._depth)

    def _print_block(self, body: Expression) -> Step[str]:
        """The lines of a block with its final expression, indented."""
        if len(self._blocks) == _MAX_BLOCKS:
            raise self._error(f"has functions or branches that nest more than {_MAX_BLOCKS} deep")
        self._blocks.append([])
        variables: list[Var] = []
        while isinstance(body, Let) and self._uses[id(body)] == 1:
            variables.append(body.var)
            # A function may call itself by the name that it is bound to.
            early = isinstance(body.value, Function) and self._uses[id(body.value)] == 1
            binding = self._bind(body.var) if early else ""
            value = yield self._print_inline(body.value)
            binding = binding or self._bind(body.var)
            self._line(f"let {binding} = {value};")
            body = body.body
        result = yield self._print_inline(body)
        self._line(result)
        self._in_scope.difference_update(map(id, variables))
        return "\n".join(self._blocks.pop())

    def _line(self, text: str) -> None:
        self._blocks[-1].append(self._indent + text)

    def _print_inline(self, expression: Expression) -> Step[str]:
        """The text of an expression that stands where a number would only take a line more."""
        if self._uses[id(expression)] == 1 and not isinstance(expression, (Let, *_LEAVES)):
            text = yield self._print_node(expression)
        else:
            (text,) = yield self._print_operands((expression,))
        return text

    def _print_operands(self, operands: tuple[Expression, ...]) -> Step[list[str]]:
        """The texts by which operands are referred to, after the lines that number them.

        As in Relay, an operand is numbered once those of all its siblings are. One with blocks is numbered
        at once, because what is numbered within them can be referred to from then on.
        """
        for operand in operands:
            key = id(operand)
            if not isinstance(operand, _LEAVES) and key not in self._texts and key not in self._prepared:
                text = yield self._print_node(operand)
                self._prepared[key] = _Prepared(text, len(self._blocks) - 1)
                if isinstance(operand, (If, Function, Let)):
                    self._refer(operand)
        return [self._refer(operand) for operand in operands]

    def _refer(self, operand: Expression) -> str:
        if isinstance(operand, Var):
            return self._print_variable(operand)
        if isinstance(operand, GlobalVar):
            return "@" + _checked(operand.name, VARIABLE_NAME, "a function")
        if isinstance(operand, Constant):
            return self._print_constant(operand)
        key = id(operand)
        if key not in self._texts:
            self._texts[key] = f"%{self._numbered}"
            self._numbered += 1
            prepared = self._prepared.pop(key)
            # A sibling may need it within a block of its own, before it is numbered here.
            indent = self._indent_of(prepared.block + 1)
            self._blocks[prepared.block].append(f"{indent}{self._texts[key]} = {prepared.text};")
        return self._texts[key]

    def _print_constant(self, constant: Constant) -> str:
        return print_scalar(constant.data) or self._metadata.constant(constant)

    def _print_node(self, expression: Expression) -> Step[str]:
        if isinstance(expression, Call):
            text = yield self._print_call(expression)
        elif isinstance(expression, Tuple):
            fields = yield self._print_operands(expression.fields)
            text = written_tuple(fields)
        elif isinstance(expression, TupleGetItem):
            (operand,) = yield self._print_operands((expression.tuple_value,))
            # `%p.0` could be read as a variable of that name, `1.0` as a number.
            named = isinstance(expression.tuple_value, Var) and self._dotted_index
            if named or isinstance(expression.tuple_value, (GlobalVar, Constant)):
                operand = f"({operand})"
            text = f"{operand}.{expression.index}"
        elif isinstance(expression, If):
            text = yield self._print_if(expression)
        elif isinstance(expression, Function):
            text = yield self._print_function("fn ", expression)
        else:
            body = yield self._print_let(expression)
            text = f"(\n{body}\n{self._indent})"
        return text

    def _print_let(self, let: Expression) -> Step[str]:
        # The block prints it as its own, whatever else uses it.
        uses, self._uses[id(let)] = self._uses[id(let)], 1
        body = yield self._print_block(let)
        self._uses[id(let)] = uses
        return body

    def _print_call(self, call: Call) -> Step[str]:
        texts = yield self._print_operands(children(call))
        if isinstance(call.op, str):
            callee = _checked(call.op, OPERATOR_NAME, "an operator")
            if callee in RESERVED_NAMES:
                raise self._error(f"calls an operator named '{callee}', which Relay text reserves")
        else:
            callee = texts.pop()
        return f"{callee}({', '.join([*texts, *self._print_attributes(call.attrs.given)])})"

    def _print_if(self, branch: If) -> Step[str]:
        (condition,) = yield self._print_operands((branch.condition,))
        true_branch = yield self._print_block(branch.true_branch)
        false_branch = yield self._print_block(branch.false_branch)
        indent = self._indent
        return f"if ({condition}) {{\n{true_branch}\n{indent}}} else {{\n{false_branch}\n{indent}}}"

    def _bind(self, variable: Var) -> str:
        if id(variable) in self._bound:
            raise self._error(
                f"binds variable %{shorten(variable.name)} twice, or uses it before it is bound"
            )
        self._in_scope.add(id(variable))
        self._bound[id(variable)] = "%" + self._unique(variable.name)
        annotation = f": {variable.type}" if variable.type is not None else ""
        return self._bound[id(variable)] + annotation

    def _print_variable(self, variable: Var) -> str:
        if id(variable) not in self._bound:
            self._line(f"free_var {self._bind(variable)};")
        if id(variable) not in self._in_scope:
            raise self._error(f"uses variable %{shorten(variable.name)} outside of where it is bound")
        return self._bound[id(variable)]

    def _unique(self, name: str) -> str:
        if not re.fullmatch(VARIABLE_NAME, name):
            name = re.sub(r"\W", "_", name)
            name = name if re.match(r"[^\W\d]", name) else "v" + name
        unique = name
        while unique in self._names:
            self._names[name] += 1
            unique = f"{name}_{self._names[name]}"
        self._names[unique] = 0
        return unique

    def _print_attributes(self, attrs: Mapping[str, AttributeValue]) -> list[str]:
        return [
            f"{_checked(name, OPERATOR_NAME, 'an attribute')}={self._print_value(value)}"
            for name, value in attrs.items()
        ]

    def _print_value(self, value: AttributeValue) -> str:
        if value is None or isinstance(value, (bool, int)):
            return str(value)
        if isinstance(value, float):
            return print_float(value)
        if isinstance(value, str) and '"' not in value:
            return f'"{value}"'
        if isinstance(value, tuple):
            return f"[{', '.join(map(self._print_value, value))}]"
        if isinstance(value, Constant):
            return self._metadata.constant(value)
        return self._metadata.value(value)

    def _error(self, message: str) -> ModelError:
        return ModelError(f"{self._what} {message}, so it cannot be printed as Relay text")


def _checked(name: str, pattern: str, what: str) -> str:
    if not re.fullmatch(pattern, name):
        raise ModelError(f"'{shorten(name)}' is no name of {what} that Relay text can hold")
    return name
