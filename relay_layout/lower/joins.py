"""Concatenations that stay apart from what is around them, so that they need no copies.

Fused, a concatenation is computed element by element wherever its result is read. That is as good where all
that read it go through it once, element by element, and a copy more for convolutions.
"""

from collections import Counter
from typing import Any

import tvm
from tvm import relax

from relay_layout.graph.uses import variables_read
from relay_layout.ir import Expression, operator_name
from relay_layout.lower.concat import CONCAT
from relay_layout.lower.patterns import INJECTIVE, OPAQUE, PATTERN, with_pattern

_CALL, _VIEW = "call_tir", "reshape"


def keep_joins_apart(module: tvm.IRModule) -> tvm.IRModule:
    """Mark the CONCAT functions of "main" as none to be fused where what they join can be computed in place.

    Expects ``call_tir`` of functions with their patterns.
    """
    main = module["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    graph = _Graph(module, bindings, main.body.body)
    return with_pattern(module, graph.apart(), OPAQUE)


class _Graph:
    """The bindings of a function by what reads them; views are what they are views of."""

    def __init__(self, module: tvm.IRModule, bindings: list[relax.Binding], result: Expression) -> None:
        self.module = module
        self.calls: dict[relax.Var, relax.Call] = {}
        self.joined: Counter[relax.Var] = Counter()
        self.walked: set[relax.Var] = set()
        self.kept = set(variables_read(result))
        self._views: dict[relax.Var, relax.Var] = {}
        for binding in bindings:
            self._read(binding)
        for binding in bindings:
            if isinstance(binding.value, relax.Tuple):
                self.kept.update(variables_read(binding.value))
        self.kept = {self._root(variable) for variable in self.kept}

    def _read(self, binding: relax.Binding) -> None:
        variable, value = binding.var, binding.value
        if isinstance(value, relax.Var):
            self._views[variable] = value
        elif operator_name(value) == _VIEW and isinstance(value.args[0], relax.Var):
            self._views[variable] = value.args[0]
        elif operator_name(value) == _CALL:
            self.calls[variable] = value
            operands = [self._root(read) for read in variables_read(value.args[1])]
            if self._is_join(value):
                self.joined.update(operands)
            elif int(self._attributes(value).get(PATTERN, OPAQUE)) > INJECTIVE:
                self.walked.update(operands)

    def apart(self) -> list[tvm.ir.GlobalVar]:
        """The functions of concatenations whose operands can be computed in place, and should be."""
        found: list[tvm.ir.GlobalVar] = []
        # The last first: a result may itself be joined to more.
        for variable, call in reversed(self.calls.items()):
            if not self._is_join(call) or variable in self.kept:
                continue
            fields = call.args[1].fields
            tensors = [field for field in fields if isinstance(field.ty, relax.TensorType)]
            operands = [self._root(tensor) if isinstance(tensor, relax.Var) else None for tensor in tensors]
            if not all(self._is_own(operand) for operand in operands):
                continue
            if variable in self.walked or self.joined[variable]:
                found.append(call.args[0])
        return found

    def _is_own(self, operand: relax.Var | None) -> bool:
        """Is a tensor computed for one concatenation, and for those that do not give it away?"""
        return operand in self.calls and operand not in self.kept and self.joined[operand] == 1

    def _is_join(self, call: relax.Call) -> bool:
        return CONCAT in self._attributes(call)

    def _attributes(self, call: relax.Call) -> dict[str, Any]:
        attributes = self.module[call.args[0]].attrs
        return {} if attributes is None else dict(attributes)

    def _root(self, variable: relax.Var) -> relax.Var:
        while variable in self._views:
            variable = self._views[variable]
        return variable


__all__ = ["keep_joins_apart"]
