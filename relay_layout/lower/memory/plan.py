"""The memory of intermediate results as planned: which tensor lies where, and from when to when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from relay_layout.artifact.functions import DESTINATIONS, WORKSPACE
from relay_layout.graph.uses import variables_read
from relay_layout.ir import (
    as_extent,
    bindings_of,
    calls_global,
    input_count,
    operator_name,
    result_of,
    size_in_bytes,
)
from relay_layout.lower.memory.aliases import Aliases
from relay_layout.lower.memory.operators import STORAGE, TENSOR


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor, or the place of a joined one, from call ``first`` to call ``last``; sizes in bytes."""

    shape: tuple[int, ...]
    dtype: str
    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class PlannedStorage:
    """One allocation of ``bytes``, and the tensors that take turns in it."""

    bytes: int
    tensors: tuple[PlannedTensor, ...]


def planned_memory(module: tvm.IRModule) -> list[PlannedStorage]:
    """The storages of a module whose workspace is lifted, outputs last; calls are counted over "main".

    Tensors of extents that are only known at run time are not among them.
    """
    main = module["main"]
    uses = _uses(main)
    inputs = input_count(main)
    destinations, workspace = module[DESTINATIONS], module[WORKSPACE]
    given = main.params[inputs : inputs + len(_fields(destinations))]
    passed = main.params[len(main.params) - len(_fields(workspace)) :]
    return [*_storages(workspace, passed, uses), *_storages(destinations, given, uses)]


def _storages(
    function: relax.Function, parameters: Sequence[relax.Var], uses: Mapping[relax.Var, tuple[int, int]]
) -> list[PlannedStorage]:
    """The storages of a function that makes tensors for these ``parameters`` of "main"."""
    storages: dict[relax.Var, int] = {}
    placed: dict[relax.Var, tuple[relax.Var, PlannedTensor]] = {}
    bindings = bindings_of(function)
    aliases = Aliases(bindings)
    for binding in bindings:
        variable, call = binding.var, binding.value
        operator = operator_name(call)
        if operator == STORAGE:
            storages[variable] = as_extent(call.args[0].values[0])
        elif operator == TENSOR:
            placed[variable] = call.args[0], _tensor(call)
    spans: dict[relax.Var, tuple[int, int]] = {}
    for parameter, variable in zip(parameters, _fields(function), strict=True):
        root = aliases.root(variable)
        if parameter in uses:
            first, last = uses[parameter]
            known = spans.get(root, (first, last))
            spans[root] = min(first, known[0]), max(last, known[1])
    found: dict[relax.Var, list[PlannedTensor]] = {variable: [] for variable in storages}
    for variable, (storage, tensor) in placed.items():
        if variable in spans:
            first, last = spans[variable]
            found[storage].append(
                PlannedTensor(tensor.shape, tensor.dtype, tensor.offset, tensor.bytes, first, last)
            )
    return [PlannedStorage(storages[variable], tuple(found[variable])) for variable in storages]


def _uses(main: relax.Function) -> dict[relax.Var, tuple[int, int]]:
    """The first and the last call of a kernel that reads or writes each variable, views included."""
    spans: dict[relax.Var, tuple[int, int]] = {}
    bindings = bindings_of(main)
    aliases = Aliases(bindings)
    calls = 0
    for binding in bindings:
        value = binding.value
        if binding.var in aliases:
            continue
        for variable in variables_read(value):
            root = aliases.root(variable)
            spans[root] = spans.get(root, (calls, calls))[0], calls
        calls += calls_global(value)
    for variable in variables_read(main.body.body):
        root = aliases.root(variable)
        spans[root] = spans.get(root, (calls, calls))[0], max(0, calls - 1)
    return spans


def _tensor(call: relax.Call) -> PlannedTensor:
    shape = tuple(as_extent(extent) for extent in call.args[2].values)
    dtype = str(call.args[3].value)
    return PlannedTensor(shape, dtype, as_extent(call.args[1].value), size_in_bytes(shape, dtype), 0, 0)


def _fields(function: relax.Function) -> Sequence[relax.Var]:
    """The variables that a function that makes tensors gives, in order."""
    return list(result_of(function).fields)
