"""Relay's text, JSON and params files to Relax modules."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from tvm import IRModule

from relay_layout.environment.one_at_a_time import one_at_a_time
from relay_layout.errors import ModelError
from relay_layout.frontend.files import read_bytes
from relay_layout.frontend.input_shapes import positive_extents, unknown_input
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import (
    Call,
    Function,
    Module,
    TensorType,
    Var,
    read_json,
    read_params,
    read_text,
)


@one_at_a_time
def from_relay(
    source: str | os.PathLike[str],
    *,
    params: Mapping[str, np.ndarray] | str | os.PathLike[str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> IRModule:
    """The Relax module of a file with Relay text (``.relay``, ``.txt``) or JSON (``.json``).

    ``params`` are values for parameters of main, by name, or a file that Relay's ``save_param_dict`` wrote;
    they become constants. ``input_shapes`` fill in dimensions that are unknown (``?``) in the file. A value
    that one file has and the other has not is an error, as is anything that cannot be read: ModelError of one
    line with the place.
    """
    path = Path(source)
    label = f"model '{path}'"
    data = read_bytes(path)
    module = read_json(data, str(path)) if path.suffix.lower() == ".json" else read_text(data, str(path))
    module = _with_shapes(module, input_shapes or {}, label)
    return from_tree(module, load_params(params), name=str(path))


def load_params(
    params: Mapping[str, np.ndarray] | str | os.PathLike[str] | None,
) -> Mapping[str, np.ndarray]:
    """Parameters by name: as they are given, or read from a file. ModelError if it cannot be read."""
    if params is None:
        return {}
    if isinstance(params, str | os.PathLike):
        path = Path(params)
        return read_params(read_bytes(path, "params"), str(path))
    return {name: np.asarray(value) for name, value in params.items()}


def _with_shapes(module: Module, shapes: Mapping[str, Sequence[int]], label: str) -> Module:
    """The module with given extents where its parameters have unknown ones."""
    main = module.functions.get("main")
    if not shapes or main is None:
        return module
    names = [parameter.name for parameter in main.params]
    for name in shapes:
        if name not in names:
            raise unknown_input(label, name, names)
    changed = {
        parameter: Var(parameter.name, _settled(parameter, shapes[parameter.name], label))
        for parameter in main.params
        if parameter.name in shapes
    }
    body = _substituted(main, changed)
    return Module({**module.functions, "main": body}, module.metadata)


def _settled(parameter: Var, given: Sequence[int], label: str) -> TensorType:
    place = f"{label}: input '{parameter.name}'"
    extents = positive_extents(given, place)
    kind = parameter.type
    if not isinstance(kind, TensorType):
        raise ModelError(f"{place} is no tensor with a type, so no shape can be given for it")
    fits = len(kind.shape) == len(extents) and all(
        fixed in (None, wanted) for fixed, wanted in zip(kind.shape, extents, strict=True)
    )
    if not fits:
        fixed = ",".join(kind.written_shape)
        raise ModelError(f"{place} has the shape {fixed} in the file, not {','.join(map(str, extents))}")
    return TensorType(extents, kind.dtype)


def _substituted(main: Function, changed: Mapping[Var, Var]) -> Function:
    """Main with parameters of other types: a call of the old one, which then takes the types as given."""
    fresh = tuple(changed.get(parameter, Var(parameter.name, parameter.type)) for parameter in main.params)
    return replace(main, params=fresh, body=Call(main, fresh), ret_type=None)
