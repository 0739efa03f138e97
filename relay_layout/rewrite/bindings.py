"""What rewriting one call may ask about the calls before it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm import relax

from relay_layout.graph.uses import call_read_once
from relay_layout.ir import Expression


@dataclass(frozen=True)
class Bindings:
    """The bindings of a function that a pass has been through, and the way to add one."""

    uses: Mapping[str, int]
    """How often each variable is read, by name."""

    lookup: Callable[[relax.Var], Expression | None]
    """The value of a variable."""

    emit: Callable[..., relax.Var]
    """Binds a call to a variable; its second argument is a name for it."""

    def value(self, expression: Expression) -> Expression | None:
        """What a variable is bound to; None where ``expression`` is none."""
        return self.lookup(expression) if isinstance(expression, relax.Var) else None

    def read_once(self, data: Expression) -> relax.Call | None:
        """The call that the variable ``data`` is bound to, if nothing else reads it."""
        return call_read_once(data, self.uses, self.lookup)
