"""Concatenations and slices that must not be fused, so that :mod:`.in_place` can compute them without a copy.

Fused, a concatenation or slice is evaluated wherever its result is read. That costs nothing in elementwise
readers, which read each element once, but a copy in convolutions and other readers.
"""

from collections import Counter

import tvm
from tvm import relax

from relay_layout.graph.uses import variables_read
from relay_layout.ir import Expression, bindings_of
from relay_layout.lower.fusion.function_calls import called_attributes, is_function_call
from relay_layout.lower.fusion.patterns import INJECTIVE, OPAQUE, PATTERN, with_pattern
from relay_layout.lower.memory.aliases import Aliases
from relay_layout.lower.memory.in_place import CONCAT, SLICE


def prevent_fusion_of_parts(module: tvm.IRModule) -> tvm.IRModule:
    """Mark calls of CONCAT functions in "main" as opaque where their operands can be computed in place, and
    calls of SLICE functions where their result can be read in place.

    Expects ``call_tir`` of functions with their patterns.
    """
    main = module["main"]
    bindings = bindings_of(main)
    graph = _Graph(module, bindings, main.body.body)
    return with_pattern(module, graph.unfused(), OPAQUE)


class _Graph:
    """How the tensors of a function are read; a view counts as the tensor that it is a view of."""

    def __init__(self, module: tvm.IRModule, bindings: list[relax.Binding], result: Expression) -> None:
        self.module = module
        self.calls: dict[relax.Var, relax.Call] = {}
        self.joined: Counter[relax.Var | None] = Counter()
        self.walked: set[relax.Var] = set()
        self.kept: set[relax.Var] = set()
        self._root = Aliases(bindings).root
        self._keep(result)
        for binding in bindings:
            self._read(binding)

    def _keep(self, value: Expression) -> None:
        self.kept.update(map(self._root, variables_read(value)))

    def _read(self, binding: relax.Binding) -> None:
        variable, value = binding.var, binding.value
        if isinstance(value, relax.Tuple):
            self._keep(value)
        elif is_function_call(value):
            self.calls[variable] = value
            operands = [self._root(read) for read in variables_read(value.args[1])]
            if self._is_join(value):
                self.joined.update(operands)
            elif int(called_attributes(self.module, value).get(PATTERN, OPAQUE)) > INJECTIVE:
                self.walked.update(operands)

    def unfused(self) -> dict[relax.Var, relax.Call]:
        """The calls of concatenations and slices that are not to be fused, by their result."""
        return {variable: call for variable, call in self.calls.items() if self._is_unfused(variable, call)}

    def _is_unfused(self, result: relax.Var, call: relax.Call) -> bool:
        fields = call.args[1].fields
        tensors = [field for field in fields if isinstance(field.ty, relax.TensorType)]
        operands = [self._root(tensor) if isinstance(tensor, relax.Var) else None for tensor in tensors]
        if result in self.kept or not all(map(self._is_own, operands)):
            return False
        if SLICE in called_attributes(self.module, call):
            return result in self.walked
        if not self._is_join(call) or any(self.joined[operand] != 1 for operand in operands):
            return False
        return result in self.walked or self.joined[result] > 0

    def _is_own(self, operand: relax.Var | None) -> bool:
        """Is a tensor computed by a kernel here, and neither an output nor a tuple's field?"""
        return operand in self.calls and operand not in self.kept

    def _is_join(self, call: relax.Call) -> bool:
        return CONCAT in called_attributes(self.module, call)
