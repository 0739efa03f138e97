"""Concatenations without copies: what is joined is computed where the joined tensor lies.

Where all axes before the joined one have one element, the operands follow each other in memory, so each can
be a part of the result's storage from the start. Planned memory is changed accordingly: operands and result
get a storage of their own, shared with others that are not alive at the same time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import tvm
from tvm import relax, tirx

from relay_layout.graph.uses import variables_read
from relay_layout.ir import (
    Expression,
    as_extent,
    function_attributes,
    operator_name,
    size_in_bytes,
)
from relay_layout.lower.memory import RESHAPE, STORAGE, TENSOR, is_known

CONCAT = "relay_layout.concat"
"""Attribute of functions that do nothing but join their operands, one after the other in memory."""

ALIGNMENT = 64
"""Bytes at multiples of which code generation expects tensors."""


@dataclass
class _Joined:
    """A storage for a result and its operands, from the first definition of one to the last use."""

    first: int
    last: int
    size: int


@dataclass
class _Storage:
    """A storage that joined tensors take turns with."""

    size: int
    free_from: int
    variable: relax.Var = field(init=False)


def concat_in_place(module: tvm.IRModule) -> tvm.IRModule:
    """Drop the calls of CONCAT functions from "main" whose operands can be parts of the result.

    Expects planned memory. An operand that is an input, a weight or an output of "main", or that is joined
    twice, keeps the copy, and so do functions with branches.
    """
    function = module["main"]
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    if any(isinstance(binding.value, relax.If) for binding in bindings):
        return module
    plan = _Plan(module, bindings, function.body.body)
    if not plan.dropped:
        return module
    body = relax.SeqExpr([relax.BindingBlock(plan.rewritten())], function.body.body)
    main = relax.Function(list(function.params), body, function.ret_ty, function.is_pure)
    updated = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    updated.update_func(module.get_global_var("main"), main.with_attrs(function_attributes(function)))
    return updated


class _Plan:
    """Which tensors become parts of which storage."""

    def __init__(self, module: tvm.IRModule, bindings: Sequence[relax.Binding], result: Expression) -> None:
        self.bindings = bindings
        self.dropped: set[int] = set()
        self._parts: dict[relax.Var, tuple[_Joined, int]] = {}
        self._tensors: dict[relax.Var, tuple[int, relax.Call]] = {}
        self._aliases: dict[relax.Var, relax.Var] = {}
        self._last: dict[relax.Var, int] = {}
        # What goes into a tuple may leave with it.
        kept = [result, *(binding.value for binding in bindings if isinstance(binding.value, relax.Tuple))]
        self._read()
        self._outputs = {self._root(variable) for value in kept for variable in variables_read(value)}
        # The last one first: a result may itself be joined to more.
        for place in reversed(range(len(bindings))):
            call = bindings[place].value
            if isinstance(call, relax.Call) and isinstance(call.op, tvm.ir.GlobalVar):
                attributes = module[call.op].attrs
                if attributes is not None and CONCAT in attributes:
                    self._join(place, call)

    def _read(self) -> None:
        for place, binding in enumerate(self.bindings):
            variable, value = binding.var, binding.value
            if operator_name(value) == TENSOR and is_known(value.args[2]):
                self._tensors[variable] = place, value
            elif isinstance(value, relax.Var):
                self._aliases[variable] = value
            elif operator_name(value) == RESHAPE and isinstance(value.args[0], relax.Var):
                self._aliases[variable] = value.args[0]
            for read in variables_read(value):
                self._last[self._root(read)] = place

    def _root(self, variable: relax.Var) -> relax.Var:
        """The allocated tensor that a variable is another name or view of."""
        while variable in self._aliases:
            variable = self._aliases[variable]
        return variable

    def _join(self, place: int, call: relax.Call) -> None:
        roots = [self._root(operand) if isinstance(operand, relax.Var) else None for operand in call.args]
        *operands, result = roots
        if result is None or result not in self._tensors or result in self._outputs:
            return
        sizes = [self._bytes(operand) for operand in operands]
        if len(set(operands)) != len(operands) or not all(
            size is not None and size % ALIGNMENT == 0 for size in sizes
        ):
            return
        joined, offset = self._parts.get(result) or (self._storage_of(result), 0)
        self._parts[result] = joined, offset
        for operand, size in zip(operands, sizes, strict=True):
            assert operand is not None and size is not None
            self._parts[operand] = joined, offset
            joined.first = min(joined.first, self._tensors[operand][0])
            joined.last = max(joined.last, self._last[operand])
            offset += size
        self.dropped.add(place)

    def _bytes(self, operand: relax.Var | None) -> int | None:
        """The size of a tensor that may become a part, None for others."""
        if operand is None or operand not in self._tensors:
            return None
        if operand in self._outputs or operand in self._parts:
            return None
        return _size(self._tensors[operand][1])

    def _storage_of(self, result: relax.Var) -> _Joined:
        place, call = self._tensors[result]
        return _Joined(place, self._last[result], _size(call))

    def rewritten(self) -> list[relax.Binding]:
        """The bindings with the new storages before all others, and without those that nothing needs."""
        storages = self._storages()
        kept: list[relax.Binding] = []
        for place, binding in enumerate(self.bindings):
            if place in self.dropped:
                continue
            if binding.var in self._parts:
                kept += self._part(binding.var, storages)
            else:
                kept.append(binding)
        used = {variable for binding in kept for variable in variables_read(binding.value)}
        made = {id(storage): storage for storage in storages.values()}.values()
        return [
            *(self._allocation(storage) for storage in made),
            *(binding for binding in kept if operator_name(binding.value) != STORAGE or binding.var in used),
        ]

    def _part(self, variable: relax.Var, storages: dict[int, _Storage]) -> list[relax.Binding]:
        """The bindings that make ``variable`` a part of its storage.

        Kernels take tensors that begin where their memory begins, so that the offset goes into the pointer.
        """
        joined, offset = self._parts[variable]
        call = self._tensors[variable][1]
        start = tirx.IntImm(str(call.args[1].ty), offset)
        arguments = [storages[id(joined)].variable, start, *call.args[2:]]
        part = relax.Call(call.op, arguments, call.attrs, call.ty_args)
        if offset == 0:
            return [relax.VarBinding(variable, part)]
        whole = relax.Var(f"{variable.name}_part", variable.ty)
        moved = relax.op.memory.ensure_zero_offset(whole)
        return [relax.VarBinding(whole, part), relax.VarBinding(variable, moved)]

    def _storages(self) -> dict[int, _Storage]:
        """A storage for each joined tensor: the smallest of those that are free, made longer if need be."""
        everyone = {id(joined): joined for joined, _ in self._parts.values()}
        made: list[_Storage] = []
        chosen: dict[int, _Storage] = {}
        for key, joined in sorted(everyone.items(), key=lambda item: item[1].first):
            free = [storage for storage in made if storage.free_from <= joined.first]
            free.sort(key=lambda storage: (storage.size < joined.size, abs(storage.size - joined.size)))
            if not free:
                free = [_Storage(0, 0)]
                free[0].variable = relax.Var(f"joined{len(made)}", self._any_storage().var.ty)
                made.append(free[0])
            free[0].size = max(free[0].size, joined.size)
            free[0].free_from = joined.last + 1
            chosen[key] = free[0]
        return chosen

    def _any_storage(self) -> relax.Binding:
        return next(binding for binding in self.bindings if operator_name(binding.value) == STORAGE)

    def _allocation(self, storage: _Storage) -> relax.Binding:
        call = self._any_storage().value
        size = relax.ShapeExpr([tirx.IntImm("int64", storage.size)])
        return relax.VarBinding(
            storage.variable, relax.Call(call.op, [size, *call.args[1:]], call.attrs, call.ty_args)
        )


def _size(call: relax.Call) -> int:
    return size_in_bytes([as_extent(extent) for extent in call.args[2].values], str(call.args[3].value))


__all__ = ["CONCAT", "concat_in_place"]
