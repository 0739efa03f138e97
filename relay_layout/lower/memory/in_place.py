"""Concatenations and slices without copies: operands are computed, and results read, in the whole tensor.

If all axes before the concatenated or sliced one have extent 1, a part is contiguous in memory. Otherwise it
is a piece of every row of the whole, and the kernels that write or read it get variants for such strided rows
(:mod:`.strided`). The memory plan changes accordingly: a tensor and its parts share one storage
(:mod:`.part_storage`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
from tvm import relax, tirx

from relay_layout.graph.uses import variables_read
from relay_layout.ir import (
    Expression,
    Extent,
    as_extent,
    bindings_of,
    calls_global,
    dtype_of,
    is_static,
    operator_name,
    shape_of,
    size_in_bytes,
    with_bindings,
    with_main,
    with_operands,
)
from relay_layout.lower.memory.aliases import Aliases
from relay_layout.lower.memory.operators import (
    STORAGE,
    TENSOR,
    definitions,
    is_known,
    may_return_operand,
    symbols,
)
from relay_layout.lower.memory.part_storage import LiveRange, Part, PartStorages, SharedStorage
from relay_layout.lower.memory.strided import Variants

CONCAT = "relay_layout.concat"
"""Attribute of functions that only concatenate their operands: the axis."""

SLICE = "relay_layout.slice"
"""Attribute of functions that copy a range along one axis: the axis, and the begin of the range."""


@dataclass(frozen=True)
class _Use:
    """The use of a tensor by a kernel: the kernel, the index of the argument, and that of the call's
    binding.
    """

    function: tvm.ir.GlobalVar
    argument: int
    call: int


def compute_in_place(module: tvm.IRModule) -> tvm.IRModule:
    """Remove calls of CONCAT functions from "main" whose operands can be parts of the result, and calls of
    SLICE functions whose result can be a part of the operand.

    Expects planned memory. The copy remains if a part is an input, a weight or an output of "main", or a part
    of two tensors; if a strided part is used by anything but kernels that index it; and in functions with
    branches.
    """
    function = module["main"]
    bindings = bindings_of(function)
    if any(isinstance(binding.value, relax.If) for binding in bindings):
        return module
    plan = _Plan(module, bindings, function)
    if not plan.dropped:
        return module
    main = with_bindings(function, plan.rewritten())
    # With the functions that rewriting made.
    return with_main(plan.variants.module(), main)


class _Plan:
    """Decides which tensors become parts of which storage, and rewrites the bindings."""

    def __init__(
        self, module: tvm.IRModule, bindings: Sequence[relax.Binding], function: relax.Function
    ) -> None:
        self.bindings = bindings
        self.dropped: set[int] = set()
        self.variants = Variants(module)
        self._parts: dict[relax.Var, Part] = {}
        self._tensors: dict[relax.Var, tuple[int, relax.Call]] = {}
        self._storage_calls: dict[relax.Var, relax.Call] = {}
        self._aliases = Aliases(bindings)
        self._root = self._aliases.root
        self._last: dict[relax.Var, int] = {}
        self._uses: dict[relax.Var, list[_Use]] = {}
        self._other_uses: set[relax.Var] = set()
        self._defined = definitions(function, bindings)
        # A tensor in a tuple, or passed to a function that returns something, may be returned with it.
        kept = [
            function.body.body,
            *(binding.value for binding in bindings if may_return_operand(binding.value)),
        ]
        self._read()
        self._outputs = {self._root(variable) for value in kept for variable in variables_read(value)}
        # In reverse order: the result of a concatenation may be an operand of a later one.
        for place in reversed(range(len(bindings))):
            call = bindings[place].value
            if calls_global(call):
                attributes = module[call.op].attrs or {}
                if CONCAT in attributes:
                    self._join(place, call, int(attributes[CONCAT]))
                elif SLICE in attributes:
                    self._slice(place, call, *map(int, attributes[SLICE]))

    def _read(self) -> None:
        for place, binding in enumerate(self.bindings):
            variable, value = binding.var, binding.value
            if operator_name(value) == STORAGE:
                self._storage_calls[variable] = value
            elif operator_name(value) == TENSOR:
                self._tensors[variable] = place, value
            for read in variables_read(value):
                self._last[self._root(read)] = place
            if variable not in self._aliases and variable not in self._tensors:
                self._use(place, value)

    def _use(self, place: int, value: Expression) -> None:
        """Record how a binding uses tensors: as arguments of kernels, or in any other way."""
        is_kernel = calls_global(value)
        for argument, operand in enumerate(value.args if isinstance(value, relax.Call) else [value]):
            if is_kernel and isinstance(operand, relax.Var):
                use = _Use(value.op, argument, place)
                self._uses.setdefault(self._root(operand), []).append(use)
            else:
                self._other_uses.update(map(self._root, variables_read(operand)))

    def _join(self, place: int, call: relax.Call, axis: int) -> None:
        """Make the operands of the concatenation at ``place`` parts of its result, if possible."""
        tensors, roots = self._tensors_of(call)
        *operands, result = roots
        if result is None or result not in self._tensors or result in self._outputs:
            return
        if len(set(operands)) != len(operands) or not all(map(self._may_be_part, operands)):
            return
        if not _is_copy(tensors):
            return
        whole = self._part_of(result)
        parts = _consecutive_parts([shape_of(tensor) or () for tensor in tensors], axis, whole)
        if parts is not None:
            self._accept(place, dict(zip(operands, parts, strict=True)) | {result: whole})

    def _slice(self, place: int, call: relax.Call, axis: int, begin: int) -> None:
        """Make the result of the slice at ``place`` a part of its operand, if possible."""
        tensors, (data, result) = self._tensors_of(call)
        if data is None or data not in self._tensors or data in self._outputs:
            return
        if not self._may_be_part(result) or not _is_copy(tensors):
            return
        shape, found = (list(shape_of(tensor) or ()) for tensor in tensors)
        before = [*found[:axis], begin, *found[axis + 1 :]]
        whole = self._part_of(data)
        parts = _consecutive_parts([before, found, shape], axis, whole)
        if parts is not None:
            self._accept(place, {result: parts[1], data: whole})

    def _tensors_of(self, call: relax.Call) -> tuple[list[Expression], list[relax.Var | None]]:
        """The tensor arguments of a kernel, and the variable that each was allocated as; scalars are left
        out.
        """
        tensors = [argument for argument in call.args if isinstance(argument.ty, relax.TensorType)]
        return tensors, [self._root(tensor) if isinstance(tensor, relax.Var) else None for tensor in tensors]

    def _part_of(self, tensor: relax.Var) -> Part:
        return self._parts.get(tensor) or Part(self._storage_of(tensor), 0)

    def _accept(self, place: int, parts: dict[Any, Part]) -> None:
        """Remove the call at ``place`` if all uses of the ``parts``, tensors of one storage, can address
        them.
        """
        storage = next(iter(parts.values())).storage
        first = min([storage.first, *(self._tensors[each][0] for each in parts)])
        if not all(self._uses_support(place, each, part) for each, part in parts.items()):
            return
        if storage.size is None and not self._are_known(storage.allocation_call, first):
            return
        self._parts |= parts
        begins = [part.offset * storage.element_bytes for part in parts.values()]
        storage.last_begin = max([storage.last_begin, *begins])
        storage.first = first
        storage.last = max([storage.last, *(self._last[each] for each in parts)])
        self.dropped.add(place)

    def _may_be_part(self, operand: relax.Var | None) -> bool:
        if operand is None or operand not in self._tensors:
            return False
        return operand not in self._outputs and operand not in self._parts

    def _uses_support(self, join: int, tensor: relax.Var, part: Part) -> bool:
        """Can all uses of a tensor, other than the call at ``join``, address it as ``part``?"""
        if part.rows is None:
            return True
        uses = [use for use in self._uses[tensor] if use.call != join]
        return tensor not in self._other_uses and all(
            self.variants.exists(use.function, use.argument, part.rows) for use in uses
        )

    def _storage_of(self, result: relax.Var) -> SharedStorage:
        place, call = self._tensors[result]
        size = _size(call) if is_known(call.args[2]) else None
        element = size_in_bytes((), str(call.args[3].value))
        return SharedStorage(place, self._last[result], size, element, self._storage_calls[call.args[0]])

    def _are_known(self, storage: relax.Call, place: int) -> bool:
        """Are all symbolic extents in the size of a storage defined before the binding at ``place``?"""
        return all(self._defined.get(symbol, place) < place for symbol in symbols([storage.args[0]]))

    def rewritten(self) -> list[relax.Binding]:
        """The bindings with the new storages, and without the removed calls and unused storages.

        Storages of static size precede all bindings, others the binding that needs them first.
        """
        shared_storages = {id(part.storage): part.storage for part in self._parts.values()}.values()
        allocations = [binding for binding in self.bindings if operator_name(binding.value) == STORAGE]
        storages = PartStorages(shared_storages, allocations, self._live_ranges())
        kept = storages.shared()
        moved = {binding.var for binding in kept}
        for place, binding in enumerate(self.bindings):
            kept += storages.allocations_at(place)
            if place in self.dropped or binding.var in moved:
                continue
            if binding.var in self._parts:
                kept += self._allocated(binding.var, storages)
            else:
                kept.append(self._called(binding))
        used = {variable for binding in kept for variable in variables_read(binding.value)}
        return [binding for binding in kept if operator_name(binding.value) != STORAGE or binding.var in used]

    def _live_ranges(self) -> dict[relax.Var, list[LiveRange]]:
        """By storage, the live ranges of the tensors in it that are no parts."""
        busy: dict[relax.Var, list[LiveRange]] = {}
        for tensor, (place, call) in self._tensors.items():
            if tensor not in self._parts:
                last = len(self.bindings) if tensor in self._outputs else self._last.get(tensor, place)
                busy.setdefault(call.args[0], []).append((place, last))
        return busy

    def _called(self, binding: relax.Binding) -> relax.Binding:
        """The binding; a kernel with strided parts among its arguments is replaced by its variant for
        these.
        """
        call = binding.value
        if not calls_global(call):
            return binding
        found = []
        for argument, operand in enumerate(call.args):
            part = self._parts.get(self._root(operand)) if isinstance(operand, relax.Var) else None
            if part is not None and part.rows is not None:
                found.append((argument, part.rows))
        if not found:
            return binding
        variant = self.variants.named(call.op, tuple(found))
        return relax.VarBinding(binding.var, relax.Call(variant, list(call.args), call.attrs, call.ty_args))

    def _allocated(self, variable: relax.Var, storages: PartStorages) -> list[relax.Binding]:
        """The bindings that allocate ``variable`` as a part of its storage.

        Kernels take tensors without an offset, so the aligned part of it is added to the data pointer.
        """
        part, call = self._parts[variable], self._tensors[variable][1]
        offset = (part.offset - part.shift) * part.storage.element_bytes
        start = tirx.IntImm(str(call.args[1].ty), offset)
        arguments = [storages.of(part.storage), start, *call.args[2:]]
        tensor = with_operands(call, arguments)
        if offset == 0:
            return [relax.VarBinding(variable, tensor)]
        whole = relax.Var(f"{variable.name}_part", variable.ty)
        moved = relax.op.memory.ensure_zero_offset(whole)
        return [relax.VarBinding(whole, tensor), relax.VarBinding(variable, moved)]


def _consecutive_parts(shapes: Sequence[Sequence[Extent]], axis: int, whole: Part) -> list[Part] | None:
    """The places of consecutive parts of a tensor along ``axis``, from its begin on.

    The last of ``shapes`` is the shape of the tensor, whose place is ``whole``; the others are those of the
    parts. None if the inner extents are symbolic, or the tensor itself has rows of another length.
    """
    *parts, total = (shape[axis:] for shape in shapes)
    if not all(map(is_static, (*parts, total))):
        return None
    length = prod(total)
    if whole.pitch and whole.run != length:
        return None
    is_one = all(extent == 1 for extent in shapes[-1][:axis])
    pitch = whole.pitch or (0 if is_one else length)
    found, offset = [], whole.offset
    for part in parts:
        run = prod(part)
        found.append(Part(whole.storage, offset, run if pitch else 0, pitch))
        offset += run
    return found


def _is_copy(tensors: Sequence[Expression]) -> bool:
    """Do all tensors have one dtype? If some were narrowed, the function also converts."""
    return len({dtype_of(tensor) for tensor in tensors}) == 1


def _size(call: relax.Call) -> int:
    return size_in_bytes([as_extent(extent) for extent in call.args[2].values], str(call.args[3].value))
