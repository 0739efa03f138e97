"""Variables that are other names or views of tensors, or what a tuple of these holds."""

from collections.abc import Iterable

from tvm import relax

from relay_layout.ir import operator_name
from relay_layout.lower.memory.operators import POINTED, RESHAPE


class Aliases:
    """The variables of a function that hold no tensor of their own, by its bindings in their order."""

    def __init__(self, bindings: Iterable[relax.Binding]) -> None:
        self._of: dict[relax.Var, relax.Var] = {}
        tuples: dict[relax.Var, relax.Tuple] = {}
        for binding in bindings:
            value = source = binding.value
            if isinstance(value, relax.Tuple):
                tuples[binding.var] = value
            elif isinstance(value, relax.TupleGetItem) and value.tuple_value in tuples:
                source = tuples[value.tuple_value].fields[value.index]
            elif operator_name(value) in (RESHAPE, POINTED):
                source = value.args[0]
            if isinstance(source, relax.Var):
                self._of[binding.var] = self.root(source)

    def __contains__(self, variable: relax.Var) -> bool:
        return variable in self._of

    def root(self, variable: relax.Var) -> relax.Var:
        """The variable of the tensor that ``variable`` is another name or a view of, else itself."""
        return self._of.get(variable, variable)
