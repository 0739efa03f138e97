"""Networks for another number of images at a time."""

from collections.abc import Mapping
from typing import Any

import tvm

from relay_layout.errors import ModelError
from relay_layout.ir import with_main
from relay_layout.relay.exporting.module import function_to_tree
from relay_layout.relay.expression import Function, to_relax_function
from relay_layout.relay.syntax import relay_types, tree
from relay_layout.relay.trees.rebuilding import bind


def change_batch(module: tvm.IRModule, axes: Mapping[Any, int], batch_size: int) -> tvm.IRModule:
    """The module whose main takes inputs with ``batch_size`` along the axes given, by variable or name.

    ModelError for an input that is not there, an axis that it lacks, and for what does not fit the batch.
    """
    main = function_to_tree(module["main"])
    wanted = {_name(key): int(axis) for key, axis in axes.items()}
    absent = wanted.keys() - {parameter.name for parameter in main.params}
    if absent:
        raise ModelError(f"ChangeBatch: main has no input '{min(absent)}'")
    replaced = {
        parameter: tree.Var(parameter.name, _with_batch(parameter, wanted[parameter.name], batch_size))
        for parameter in main.params
        if parameter.name in wanted
    }
    parameters = [replaced.get(parameter, parameter) for parameter in main.params]
    return with_main(module, to_relax_function(Function(parameters, bind(main.body, replaced))))


def _name(key: Any) -> str:
    if isinstance(key, str):
        return key
    return str(getattr(key, "name_hint", None) or key.name)


def _with_batch(parameter: tree.Var, axis: int, batch_size: int) -> relay_types.TensorType:
    kind = parameter.type
    if not isinstance(kind, relay_types.TensorType) or not 0 <= axis < len(kind.shape):
        raise ModelError(f"ChangeBatch: input '{parameter.name}' has no axis {axis}")
    return relay_types.TensorType((*kind.shape[:axis], batch_size, *kind.shape[axis + 1 :]), kind.dtype)
