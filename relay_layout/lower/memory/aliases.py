"""Variables that are other names or views of tensors."""

from collections.abc import Iterable

from tvm import relax

from relay_layout.ir import operator_name
from relay_layout.lower.memory.operators import POINTED, RESHAPE


class Aliases:
    """The variables of a function that hold no tensor of their own, by its bindings in their order."""

    def __init__(self, bindings: Iterable[relax.Binding]) -> None:
        self._of: dict[relax.Var, relax.Var] = {}
        for binding in bindings:
            value = binding.value
            source = value.args[0] if operator_name(value) in (RESHAPE, POINTED) else value
            if isinstance(source, relax.Var):
                self._of[binding.var] = self.root(source)

    def __contains__(self, variable: relax.Var) -> bool:
        return variable in self._of

    def root(self, variable: relax.Var) -> relax.Var:
        """The variable of the tensor that ``variable`` is another name or a view of, else itself."""
        return self._of.get(variable, variable)
