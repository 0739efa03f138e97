"""Concatenations without copies: what is joined is computed where the joined tensor lies.

Where all axes before the joined one have one element, the operands follow each other in memory. Elsewhere
each has a part of every row of the result, and the kernels that write and read it are made for such rows.
Planned memory is changed accordingly: a result and its operands get a storage of their own, shared with
others that are not alive at the same time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
from tvm import relax, tirx

from relay_layout.graph.uses import variables_read
from relay_layout.ir import (
    Expression,
    as_extent,
    function_attributes,
    is_static,
    operator_name,
    shape_of,
    size_in_bytes,
)
from relay_layout.lower.memory import RESHAPE, STORAGE, TENSOR, is_known
from relay_layout.lower.strided import Rows, pitched

CONCAT = "relay_layout.concat"
"""Attribute of functions that do nothing but join their operands along an axis, which it is."""

ALIGNMENT = 64
"""Bytes at multiples of which a tensor begins; one that begins elsewhere TVM would copy."""

VARIANT_OF = "relay_layout.variant_of"
"""Attribute of a function: the name of that which it is, for tensors that lie in the rows of longer ones."""


@dataclass
class _Joined:
    """A storage for a result and its operands, from the first definition of one to the last use.

    ``made_by`` is what allocates the result's; ``size`` is None where it is known at run time alone.
    """

    first: int
    last: int
    size: int | None
    element_bytes: int
    made_by: relax.Call


@dataclass
class _Storage:
    """A storage that joined tensors take turns with."""

    size: int
    free_from: int
    variable: relax.Var


@dataclass(frozen=True)
class _Part:
    """Where a tensor lies: ``offset`` elements behind the begin of a storage.

    Rows of ``run`` elements are ``pitch`` apart; both are 0 where it is all in one.
    """

    joined: _Joined
    offset: int
    run: int = 0
    pitch: int = 0

    @property
    def shift(self) -> int:
        """Elements from the last address before it that TVM takes for a tensor's."""
        return self.offset % (ALIGNMENT // self.joined.element_bytes)

    @property
    def rows(self) -> Rows | None:
        """How kernels find it; None where it is like any tensor."""
        return Rows(self.run, self.pitch, self.shift) if self.pitch or self.shift else None


@dataclass(frozen=True)
class _Use:
    """A tensor as an argument of a call of a kernel: the kernel, the argument's place, and the call's."""

    function: tvm.ir.GlobalVar
    argument: int
    call: int


def concat_in_place(module: tvm.IRModule) -> tvm.IRModule:
    """Drop the calls of CONCAT functions from "main" whose operands can be parts of the result.

    Expects planned memory. An operand that is an input, a weight or an output of "main", or that is joined
    twice, keeps the copy; so do operands apart in memory that something else than indices of kernels says
    where to find, and functions with branches.
    """
    function = module["main"]
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    if any(isinstance(binding.value, relax.If) for binding in bindings):
        return module
    plan = _Plan(module, bindings, function)
    if not plan.dropped:
        return module
    body = relax.SeqExpr([relax.BindingBlock(plan.rewritten())], function.body.body)
    main = relax.Function(list(function.params), body, function.ret_ty, function.is_pure)
    updated = plan.variants.module()
    updated.update_func(updated.get_global_var("main"), main.with_attrs(function_attributes(function)))
    return updated


class _Plan:
    """Which tensors become parts of which storage."""

    def __init__(
        self, module: tvm.IRModule, bindings: Sequence[relax.Binding], function: relax.Function
    ) -> None:
        self.bindings = bindings
        self.dropped: set[int] = set()
        self.variants = _Variants(module)
        self._parts: dict[relax.Var, _Part] = {}
        self._tensors: dict[relax.Var, tuple[int, relax.Call]] = {}
        self._storage_calls: dict[relax.Var, relax.Call] = {}
        self._aliases: dict[relax.Var, relax.Var] = {}
        self._last: dict[relax.Var, int] = {}
        self._uses: dict[relax.Var, list[_Use]] = {}
        self._held: set[relax.Var] = set()
        # Extents, and the binding that says what each is.
        self._extents = dict.fromkeys(_symbols(parameter.ty for parameter in function.params), -1)
        # What goes into a tuple may leave with it.
        kept = [
            function.body.body,
            *(binding.value for binding in bindings if isinstance(binding.value, relax.Tuple)),
        ]
        self._read()
        self._outputs = {self._root(variable) for value in kept for variable in variables_read(value)}
        # The last one first: a result may itself be joined to more.
        for place in reversed(range(len(bindings))):
            call = bindings[place].value
            if isinstance(call, relax.Call) and isinstance(call.op, tvm.ir.GlobalVar):
                attributes = module[call.op].attrs
                if attributes is not None and CONCAT in attributes:
                    self._join(place, call, int(attributes[CONCAT]))

    def _read(self) -> None:
        for place, binding in enumerate(self.bindings):
            variable, value = binding.var, binding.value
            if operator_name(value) == STORAGE:
                self._storage_calls[variable] = value
            elif operator_name(value) == TENSOR:
                self._tensors[variable] = place, value
            elif isinstance(value, relax.Var):
                self._aliases[variable] = value
            elif operator_name(value) == RESHAPE and isinstance(value.args[0], relax.Var):
                self._aliases[variable] = value.args[0]
            if isinstance(binding, relax.MatchCast):
                for symbol in _symbols([binding.ty]):
                    self._extents.setdefault(symbol, place)
            for read in variables_read(value):
                self._last[self._root(read)] = place
            if variable not in self._aliases and variable not in self._tensors:
                self._use(place, value)

    def _use(self, place: int, value: Expression) -> None:
        """Note what a binding does with tensors: the arguments of kernels, and all else."""
        is_kernel = isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar)
        for argument, operand in enumerate(value.args if isinstance(value, relax.Call) else [value]):
            if is_kernel and isinstance(operand, relax.Var):
                use = _Use(value.op, argument, place)
                self._uses.setdefault(self._root(operand), []).append(use)
            else:
                self._held.update(map(self._root, variables_read(operand)))

    def _root(self, variable: relax.Var) -> relax.Var:
        """The allocated tensor that a variable is another name or view of."""
        while variable in self._aliases:
            variable = self._aliases[variable]
        return variable

    def _join(self, place: int, call: relax.Call, axis: int) -> None:
        # Beside tensors there may be numbers, the extents of some.
        tensors = [argument for argument in call.args if isinstance(argument.ty, relax.TensorType)]
        roots = [self._root(tensor) if isinstance(tensor, relax.Var) else None for tensor in tensors]
        *operands, result = roots
        if result is None or result not in self._tensors or result in self._outputs:
            return
        if len(set(operands)) != len(operands) or not all(map(self._may_be_part, operands)):
            return
        parts = self._placed(tensors, axis, self._parts.get(result) or _Part(self._storage_of(result), 0))
        if parts is None:
            return
        found = dict(zip(operands, parts[:-1], strict=True)) | {result: parts[-1]}
        joined = parts[-1].joined
        first = min([joined.first, *(self._tensors[each][0] for each in found)])
        if not all(self._is_found(place, each, part) for each, part in found.items()):
            return
        if joined.size is None and not self._are_known(joined.made_by, first):
            return
        self._parts |= found
        joined.first = first
        joined.last = max([joined.last, *(self._last[each] for each in found)])
        self.dropped.add(place)

    def _may_be_part(self, operand: relax.Var | None) -> bool:
        if operand is None or operand not in self._tensors:
            return False
        return operand not in self._outputs and operand not in self._parts

    def _is_found(self, join: int, tensor: relax.Var, part: _Part) -> bool:
        """Can all that uses a tensor find it there? The call at ``join`` will be no more."""
        if part.rows is None:
            return True
        uses = [use for use in self._uses[tensor] if use.call != join]
        return tensor not in self._held and self.variants.exist(uses, part.rows)

    def _placed(self, tensors: Sequence[Expression], axis: int, whole: _Part) -> list[_Part] | None:
        """The parts of the operands and of the result, which lies where ``whole`` says; None where their rows
        have no length that is known, or lie in rows of another length.
        """
        shapes = [shape_of(tensor) or () for tensor in tensors]
        *outer, total = shapes[-1][:axis], shapes[-1][axis:]
        if not all(is_static(shape[axis:]) for shape in shapes):
            return None
        length = prod(total)
        is_whole = all(extent == 1 for extents in outer for extent in extents)
        if whole.pitch and whole.run != length:
            return None
        pitch = whole.pitch or (0 if is_whole else length)
        parts, offset = [], whole.offset
        for shape in shapes[:-1]:
            run = prod(shape[axis:])
            parts.append(_Part(whole.joined, offset, run if pitch else 0, pitch))
            offset += run
        return [*parts, whole]

    def _storage_of(self, result: relax.Var) -> _Joined:
        place, call = self._tensors[result]
        size = _size(call) if is_known(call.args[2]) else None
        element = size_in_bytes((), str(call.args[3].value))
        return _Joined(place, self._last[result], size, element, self._storage_calls[call.args[0]])

    def _are_known(self, storage: relax.Call, place: int) -> bool:
        """Is the size of a storage known before the binding at ``place``?"""
        symbols = {
            symbol for extent in storage.args[0].values for symbol in tirx.analysis.undefined_vars(extent)
        }
        return all(self._extents.get(symbol, place) < place for symbol in symbols)

    def rewritten(self) -> list[relax.Binding]:
        """The bindings with the new storages, and without those that nothing needs.

        Storages of a known size come before all others, the rest where the first of their tensors is made.
        """
        storages, made = self._storages()
        opened: dict[int, list[relax.Binding]] = {}
        kept: list[relax.Binding] = [self._allocation(storage) for storage in made]
        for joined in self._everyone():
            if joined.size is None:
                binding = relax.VarBinding(storages[id(joined)], joined.made_by)
                opened.setdefault(joined.first, []).append(binding)
        for place, binding in enumerate(self.bindings):
            kept += opened.get(place, [])
            if place in self.dropped:
                continue
            if binding.var in self._parts:
                kept += self._allocated(binding.var, storages)
            else:
                kept.append(self._called(binding))
        used = {variable for binding in kept for variable in variables_read(binding.value)}
        return [binding for binding in kept if operator_name(binding.value) != STORAGE or binding.var in used]

    def _called(self, binding: relax.Binding) -> relax.Binding:
        """The binding, with a kernel for rows of another length where it has one that meets such."""
        call = binding.value
        if not isinstance(call, relax.Call) or not isinstance(call.op, tvm.ir.GlobalVar):
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

    def _allocated(self, variable: relax.Var, storages: dict[int, relax.Var]) -> list[relax.Binding]:
        """The bindings that make ``variable`` a part of its storage.

        Kernels take tensors that begin where their memory begins, so that the offset goes into the pointer.
        """
        part, call = self._parts[variable], self._tensors[variable][1]
        offset = (part.offset - part.shift) * part.joined.element_bytes
        start = tirx.IntImm(str(call.args[1].ty), offset)
        arguments = [storages[id(part.joined)], start, *call.args[2:]]
        tensor = relax.Call(call.op, arguments, call.attrs, call.ty_args)
        if offset == 0:
            return [relax.VarBinding(variable, tensor)]
        whole = relax.Var(f"{variable.name}_part", variable.ty)
        moved = relax.op.memory.ensure_zero_offset(whole)
        return [relax.VarBinding(whole, tensor), relax.VarBinding(variable, moved)]

    def _everyone(self) -> list[_Joined]:
        return list({id(part.joined): part.joined for part in self._parts.values()}.values())

    def _storages(self) -> tuple[dict[int, relax.Var], list[_Storage]]:
        """The variable of each joined tensor's storage, and the storages of known sizes that they share.

        That is the smallest of those that are free, made longer if need be.
        """
        made: list[_Storage] = []
        chosen: dict[int, relax.Var] = {}
        kind = next(iter(self._storage_calls)).ty
        for joined in sorted(self._everyone(), key=lambda joined: joined.first):
            if joined.size is None:
                chosen[id(joined)] = relax.Var(f"joined_when_run{len(chosen)}", kind)
                continue
            size = joined.size
            free = [storage for storage in made if storage.free_from <= joined.first]
            free.sort(key=lambda storage: (storage.size < size, abs(storage.size - size)))
            if not free:
                free = [_Storage(0, 0, relax.Var(f"joined{len(made)}", kind))]
                made.append(free[0])
            free[0].size = max(free[0].size, size)
            free[0].free_from = joined.last + 1
            chosen[id(joined)] = free[0].variable
        return chosen, made

    def _allocation(self, storage: _Storage) -> relax.Binding:
        call = next(iter(self._storage_calls.values()))
        size = relax.ShapeExpr([tirx.IntImm("int64", storage.size)])
        return relax.VarBinding(
            storage.variable, relax.Call(call.op, [size, *call.args[1:]], call.attrs, call.ty_args)
        )


Tensors = tuple[tuple[int, Rows], ...]
"""The places of tensors among a kernel's arguments, and their rows."""


class _Variants:
    """The kernels of a module for tensors that lie in the rows of longer ones."""

    def __init__(self, module: tvm.IRModule) -> None:
        self._module = module
        self._builder = relax.BlockBuilder(module)
        self._made: dict[tuple[str, Tensors], tirx.PrimFunc | None] = {}
        self._named: dict[tuple[str, Tensors], tvm.ir.GlobalVar] = {}

    def exist(self, uses: Iterable[_Use], rows: Rows) -> bool:
        """Are there kernels for a tensor's rows wherever it is used?"""
        return all(self._kernel(use.function, ((use.argument, rows),)) is not None for use in uses)

    def named(self, function: tvm.ir.GlobalVar, tensors: Tensors) -> tvm.ir.GlobalVar:
        """The kernel for all of these rows at once, which is to become one of the module's."""
        key = str(function.name_hint), tensors
        if key not in self._named:
            kernel = self._kernel(function, tensors)
            assert kernel is not None
            self._named[key] = self._builder.add_func(
                kernel.with_attr(VARIANT_OF, key[0]), f"{key[0]}_in_rows"
            )
        return self._named[key]

    def module(self) -> tvm.IRModule:
        """The module with all that were named."""
        return self._builder.get()

    def _kernel(self, function: tvm.ir.GlobalVar, tensors: Tensors) -> tirx.PrimFunc | None:
        key = str(function.name_hint), tensors
        if key not in self._made:
            kernel = self._module[function]
            for argument, rows in tensors:
                kernel = pitched(kernel, argument, rows) if isinstance(kernel, tirx.PrimFunc) else None
            self._made[key] = kernel
        return self._made[key]


def _symbols(kinds: Iterable[Any]) -> set[tirx.Var]:
    """The symbols in the extents of tensors and shapes."""
    found: set[tirx.Var] = set()
    for kind in kinds:
        shape = getattr(kind, "shape", kind)
        for extent in getattr(shape, "values", None) or ():
            if not isinstance(as_extent(extent), int):
                found.update(tirx.analysis.undefined_vars(extent))
    return found


def _size(call: relax.Call) -> int:
    return size_in_bytes([as_extent(extent) for extent in call.args[2].values], str(call.args[3].value))


__all__ = ["CONCAT", "VARIANT_OF", "concat_in_place"]
