"""Every index of a lowered function, evaluated for every iteration and held against its buffer's shape.

Guard zones around arguments cannot see an access that leaves a temporary buffer, and TVM's own
``OOBChecker`` knows neither overlapping tiles nor conditions. Evaluation with numpy is exact, and
cheap because an index depends on a few loops only.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import s_tir, tirx

_LOWERING = tvm.transform.Sequential(
    [
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.LowerOpaqueBlock(),
    ]
)

_ARITHMETIC = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.mod,
    tirx.Mod: np.fmod,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.RShift: np.right_shift,
    tirx.LT: np.less,
    tirx.LE: np.less_equal,
    tirx.GT: np.greater,
    tirx.GE: np.greater_equal,
    tirx.EQ: np.equal,
    tirx.NE: np.not_equal,
    tirx.And: np.logical_and,
    tirx.Or: np.logical_or,
}


def out_of_bounds(func: tirx.PrimFunc, symbols: Mapping[str, int] | None = None) -> list[str]:
    """The accesses of ``func`` that can leave their buffer; ``symbols`` gives symbolic extents by name."""
    lowered = _LOWERING(tvm.IRModule({"main": func}))["main"]
    walk = _Walk(symbols or {})
    walk.statement(lowered.body, np.True_)
    return walk.found


class _Walk:
    def __init__(self, symbols: Mapping[str, int]) -> None:
        self.found: list[str] = []
        self._symbols = symbols
        self._values: dict[Any, Any] = {}
        self._depth = 0

    def statement(self, node: Any, mask: Any) -> None:
        if isinstance(node, tirx.SeqStmt):
            for part in node.seq:
                self.statement(part, mask)
        elif isinstance(node, tirx.For):
            self._loop(node, mask)
        elif isinstance(node, tirx.IfThenElse):
            condition = self.value(node.condition, mask)
            self.statement(node.then_case, mask & condition)
            if node.else_case is not None:
                self.statement(node.else_case, mask & ~condition)
        elif isinstance(node, tirx.BufferStore):
            self._access(node.buffer, node.indices, mask)
            self.value(node.value, mask)
        elif isinstance(node, (tirx.AttrStmt, tirx.While)):
            self.statement(node.body, mask)
        elif isinstance(node, tirx.Bind):
            self._values[node.var] = self.value(node.value, mask)
        elif isinstance(node, tirx.Evaluate):
            # A prefetch reads nothing, and may name any address.
            if not _is_prefetch(node.value):
                self.value(node.value, mask)
        elif not isinstance(node, (tirx.AllocBuffer, tirx.DeclBuffer)):
            raise NotImplementedError(type(node).__name__)

    def value(self, node: Any, mask: Any) -> Any:
        """The value of an index expression; 0 for what is loaded or computed from loads."""
        if isinstance(node, (int, np.generic, np.ndarray)):
            return np.asarray(node)
        if isinstance(node, tirx.IntImm):
            return np.asarray(bool(node.value) if str(node.ty) == "bool" else node.value)
        if isinstance(node, tirx.Var):
            return self._values[node] if node in self._values else np.asarray(self._symbols[node.name])
        if type(node) in _ARITHMETIC:
            return _ARITHMETIC[type(node)](self.value(node.a, mask), self.value(node.b, mask))
        if isinstance(node, tirx.Not):
            return np.logical_not(self.value(node.a, mask))
        if isinstance(node, tvm.ir.TensorLoad):
            self._access(node.source, node.indices, mask)
        elif isinstance(node, tvm.ir.Call) and str(node.op.name).endswith("if_then_else"):
            condition = self.value(node.args[0], mask).astype(bool)
            chosen = self.value(node.args[1], mask & condition)
            other = self.value(node.args[2], mask & ~condition)
            return np.where(condition, chosen, other)
        elif isinstance(node, tvm.ir.Call):
            for argument in node.args:
                self.value(argument, mask)
        elif isinstance(node, tirx.Let):
            self._values[node.var] = self.value(node.value, mask)
            return self.value(node.body, mask)
        elif isinstance(node, tirx.Cast):
            return self.value(node.value, mask)
        elif isinstance(node, tirx.Select):
            condition = self.value(node.condition, mask).astype(bool)
            return np.where(condition, self.value(node.true_value, mask), self.value(node.false_value, mask))
        elif isinstance(node, tirx.Div):
            left, right = self.value(node.a, mask), self.value(node.b, mask)
            if str(node.ty).startswith("int"):
                return np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right))
        elif isinstance(node, (tirx.LShift, tirx.BitwiseAnd, tirx.BitwiseOr)):
            self.value(node.a, mask)
            self.value(node.b, mask)
        elif not isinstance(node, (tirx.FloatImm, tvm.ir.StringImm)):
            raise NotImplementedError(type(node).__name__)
        return np.asarray(0)

    def _loop(self, node: Any, mask: Any) -> None:
        first, extent = self.value(node.min, mask), self.value(node.extent, mask)
        steps = np.arange(int(extent.max())).reshape(-1, *[1] * self._depth)
        self._values[node.loop_var] = first + steps
        self._depth += 1
        self.statement(node.body, mask & (steps < extent))
        self._depth -= 1

    def _access(self, buffer: Any, indices: Any, mask: Any) -> None:
        for place, (index, size) in enumerate(zip(indices, buffer.shape, strict=True)):
            position, extent = self.value(index, mask), self.value(size, mask)
            outside = ((position < 0) | (position >= extent)) & mask
            if outside.any():
                values = f"{position.min()}..{position.max()} of {extent}"
                self.found.append(f"{buffer.name}[{place}] = {index} takes {values}")


def _is_prefetch(value: Any) -> bool:
    return isinstance(value, tvm.ir.Call) and str(value.op.name) == "tirx.prefetch"
