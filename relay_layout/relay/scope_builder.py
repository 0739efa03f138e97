"""``relay.ScopeBuilder``: expressions with ``let`` and ``if``, written as blocks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from relay_layout.relay.expression import as_expression
from relay_layout.relay.syntax import relay_types, tree


@dataclass
class _Block:
    bindings: list[tuple[tree.Var, tree.Expression]] = field(default_factory=list)
    condition: tree.Expression | None = None
    true_branch: tree.Expression | None = None
    result: tree.Expression | None = None


class ScopeBuilder:
    """Collects bindings and one result; ``get`` gives the expression of them all."""

    def __init__(self) -> None:
        self._blocks = [_Block()]

    def let(self, var: tree.Var | str | tuple[str, relay_types.RelayType], value: Any) -> tree.Var:
        """Bind a value to a variable, which may be given by name, or by name and type."""
        if isinstance(var, tuple):
            var = tree.Var(*var)
        elif not isinstance(var, tree.Var):
            var = tree.Var(var)
        self._blocks[-1].bindings.append((var, as_expression(value)))
        return var

    @contextmanager
    def if_scope(self, cond: Any) -> Iterator[None]:
        """The block of what holds under a condition; it ends in ``ret`` and needs an else block."""
        block = _Block()
        self._blocks.append(block)
        yield
        self._blocks.pop()
        self._blocks[-1].condition = as_expression(cond)
        self._blocks[-1].true_branch = _finished(block)

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The block of what holds otherwise."""
        if self._blocks[-1].true_branch is None or self._blocks[-1].condition is None:
            raise ValueError("else_scope needs an if_scope before it")
        block = _Block()
        self._blocks.append(block)
        yield
        self._blocks.pop()
        outer = self._blocks[-1]
        assert outer.condition is not None and outer.true_branch is not None
        outer.result = tree.If(outer.condition, outer.true_branch, _finished(block))

    def ret(self, value: Any) -> None:
        """The result of the block. ValueError for a second one."""
        if self._blocks[-1].result is not None:
            raise ValueError("ret is called twice in one block")
        self._blocks[-1].result = as_expression(value)

    def get(self) -> tree.Expression:
        """The expression of the bindings and the result. ValueError without one."""
        return _finished(self._blocks[-1])


def _finished(block: _Block) -> tree.Expression:
    if block.result is None:
        raise ValueError("a block needs ret, or an if_scope with an else_scope")
    result = block.result
    for variable, value in reversed(block.bindings):
        result = tree.Let(variable, value, result)
    return result
