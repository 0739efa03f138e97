"""Relay's text and JSON, read into Relax modules and written."""

import tvm

from relay_layout.relay.expression import Function
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import read_expression, read_json, read_text, tree


def parse(source: str, source_name: str = "from_string", *unused: object, **options: object) -> tvm.IRModule:
    """The Relax module of Relay text with a function ``@main``.

    ModelError with line and column for what is no Relay, or cannot be imported. Options that Relay's
    parser had are taken and have no effect.
    """
    return from_tree(read_text(source, source_name), name=source_name)


def fromtext(data: str, source_name: str | None = None) -> tvm.IRModule:
    """The same as :func:`parse`."""
    return parse(data, source_name or "from_string")


def parse_expr(source: str) -> tree.Expression:
    """One expression of Relay text, such as ``"fn (%x: Tensor[(2), float32]) { nn.relu(%x) }"``.

    ModelError with line and column for what is none, and for variables that nothing in it declares.
    """
    found = read_expression(source, "from_string")
    if isinstance(found, tree.Function):
        return Function(found.params, found.body, found.ret_type, attrs=found.attrs)
    return found


def load_json(json_text: str) -> tvm.IRModule:
    """The Relax module of what ``tvm.ir.save_json`` wrote for a Relay module or function."""
    return from_tree(read_json(json_text, "from_string"), name="from_string")
