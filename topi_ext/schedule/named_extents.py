"""Extents that are computed of others, as variables of their own.

A tensor of (h - 1) // 16 + 1 rows is as good as one of r rows: whoever calls the function passes a tensor,
whose shape says what r is. But where a tile begins, at the least of this and that, TVM can only tell for
rows that are a variable, and accumulators whose places are not known lie in memory.
"""

from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir import SBlock
from tvm_ffi import structural_map, structural_walk

from topi_ext.extents import fixed
from topi_ext.ir import substitute

_COMPUTED = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv)


def with_named_extents(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with a variable for each extent of its parameters that is no number and no variable.

    What is computed of the same extents in its body becomes those variables and numbers; where that is not
    possible, the function comes back unchanged.
    """
    taken = [buffer for buffer in func.params if _is_buffer(buffer)]
    names = _Names()
    for buffer in taken:
        names.take(buffer)
    if not names.made:
        return func
    buffers = {buffer: names.renamed(buffer) for buffer in [*taken, *_allocated(func.body)]}
    body = substitute(names.expressed(func.body), buffers)
    found = tirx.PrimFunc([buffers.get(each, each) for each in func.params], body, func.ret_type)
    if not s_tir.analysis.verify_well_formed(found, assert_mode=False):
        return func
    return found.with_attrs(dict(func.attrs)) if func.attrs else found


class _Names:
    """Variables by the extents that they stand for; ``made`` says whether any is new."""

    def __init__(self) -> None:
        self.known: list[tuple[Any, tirx.Var]] = []
        self.made = False
        self._variables: list[tirx.Var] = []
        self._analyzer = tvm.sym.Analyzer()

    def take(self, buffer: Any) -> None:
        """Name the extents of a buffer: first those that are variables, which others may be computed of."""
        extents = [extent for extent in buffer.shape if fixed(extent) is None]
        for extent in sorted(extents, key=lambda extent: not isinstance(extent, tirx.Var)):
            simple = self._analyzer.simplify(extent)
            if self._by_name(simple) is not None:
                continue
            is_named = isinstance(simple, tirx.Var)
            name = simple if is_named else tirx.Var(f"extent_{len(self.known)}", str(extent.ty.dtype))
            self.made |= not is_named
            self.known.append((simple, name))
            self._variables += [name, *tirx.analysis.undefined_vars(simple)]

    def renamed(self, buffer: Any) -> Any:
        """A buffer whose shape has names."""
        shape = [self._extent(extent) for extent in buffer.shape]
        return tirx.decl_buffer(shape, buffer.dtype, buffer.name, scope=buffer.scope(), layout=None)

    def _extent(self, extent: Any) -> Any:
        # The whole first: what it is made of may have names, too, and then would not give it its own.
        named = self._by_name(self._analyzer.simplify(extent))
        return self.expressed(extent) if named is None else named

    def expressed(self, node: Any) -> Any:
        """A statement or an expression with names in it."""
        # Of sums of sums only the whole is an extent.
        simple = structural_map(node, (_COMPUTED, self._simple))
        return structural_map(simple, (_COMPUTED, self._expression))

    def _simple(self, value: Any) -> Any:
        return self._analyzer.simplify(value) if _is_index(value) else value

    def _expression(self, value: Any) -> Any:
        if not _is_index(value):
            return value
        named = self._by_name(value)
        return self._analyzer.simplify(value) if named is None else named

    def _by_name(self, value: Any) -> Any:
        """``value`` as a name and a number, if it is that."""
        # What the variables of loops are in, as most expressions, is soon seen to be none.
        if tirx.analysis.undefined_vars(value, self._variables):
            return None
        for extent, name in self.known:
            rest = fixed(self._analyzer.simplify(value - extent))
            if rest is not None:
                return name + rest if rest else name
        return None


def _is_index(value: Any) -> bool:
    return str(value.ty.dtype) == "int64"


def _is_buffer(parameter: Any) -> bool:
    return hasattr(parameter.ty, "shape")


def _allocated(body: Any) -> list[Any]:
    found: list[Any] = []
    structural_walk(body, (SBlock, lambda block: found.extend(block.alloc_buffers)))
    return found
