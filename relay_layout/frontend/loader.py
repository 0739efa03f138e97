"""Any kind of model to a Relax module: what a caller gave decides which importer reads it.

A file is told by its suffix (:data:`LOADERS`), a built-in network by its name, an object of ONNX or PyTorch
by its class; a Relax module is returned as it is.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from tvm import IRModule

from relay_layout import models
from relay_layout.errors import ModelError
from relay_layout.frontend.input_shapes import positive_extents, unknown_input
from relay_layout.frontend.onnx import from_onnx
from relay_layout.frontend.relay import from_relay
from relay_layout.frontend.tflite import from_tflite
from relay_layout.frontend.torch import from_torch
from relay_layout.verify import verify_module
from topi_ext.messages import NO_FILE

if TYPE_CHECKING:
    import onnx
    import torch

MAIN = "main"
"""The function that a model is."""

Model: TypeAlias = "str | os.PathLike[str] | IRModule | onnx.ModelProto | torch.export.ExportedProgram"
"""What :func:`load_model` takes: a path or a name, or a model as it is in Python."""

Shapes = Mapping[str, Sequence[int]]
Params = Mapping[str, np.ndarray] | str | os.PathLike[str]
Loader = Callable[[Path, Shapes, Params | None], IRModule]


def _with_weights(kind: str, read: Callable[..., IRModule]) -> Loader:
    """What reads a file that needs no params file."""

    def load(path: Path, input_shapes: Shapes, params: Params | None) -> IRModule:
        if params is not None:
            raise ModelError(
                f"model '{path}': {kind} holds its weights; a params file goes with Relay's files"
            )
        return read(path, input_shapes=input_shapes)

    return load


def _load_relay(path: Path, input_shapes: Shapes, params: Params | None) -> IRModule:
    return from_relay(path, params=params, input_shapes=input_shapes)


LOADERS: dict[str, Loader] = {
    ".onnx": _with_weights("an ONNX file", from_onnx),
    ".pt2": _with_weights("a .pt2 file", from_torch),
    ".tflite": _with_weights("a .tflite file", from_tflite),
    ".relay": _load_relay,
    ".txt": _load_relay,
    ".json": _load_relay,
}
"""What reads a file, by its suffix in lower case."""


_NO_MODELS = {
    ".rla": "an artifact, compiled already: relay-layout run runs it, explain takes the model or its report",
    ".html": "a report: relay-layout explain and diff read it",
    ".jsonl": "a tuning log, for --tuning-records",
    ".pte": "an ExecuTorch program, compiled already; torch.export.save writes its module as .pt2",
    **dict.fromkeys(
        (".pt", ".pth"),
        "what torch.save or torch.jit.save wrote: load it, and give relay_layout.from_torch the module with "
        "example inputs",
    ),
}
"""What other files are, by suffix."""


def load_model(
    model: Model,
    *,
    input_shapes: Shapes | None = None,
    params: Params | None = None,
) -> IRModule:
    """A Relax module from a model file, an ONNX or torch.export object, or the name of a built-in network.

    A module is returned as it is. Whatever it comes from, the layouts that it names must fit its tensors. A
    name of :func:`relay_layout.models.names` comes before a file of that name; such a network takes
    ``{"input": (N, 3, H, W)}``. For files see :func:`.from_onnx`, :func:`.from_torch`,
    :func:`.from_tflite` and :func:`.from_relay`, which takes ``params``.

    ModelError where there is no such model, it cannot be read, or ``input_shapes`` do not fit it;
    VerificationError where its layouts are inconsistent.
    """
    module = _read(model, input_shapes, params)
    if MAIN not in [variable.name_hint for variable, _ in module.functions_items()]:
        raise ModelError(f"the module has no function '{MAIN}', which is what is compiled")
    verify_module(module)
    return module


def _read(
    model: Model,
    input_shapes: Shapes | None,
    params: Params | None,
) -> IRModule:
    shapes = input_shapes or {}
    if not isinstance(shapes, Mapping):
        example = "{'input': (1, 3, 224, 224)}"
        raise ModelError(f"input_shapes maps inputs to shapes, such as {example}, but is {shapes!r}")
    if params is not None and not isinstance(model, str | os.PathLike):
        raise ModelError(
            "params can only be given with one of Relay's files; bind them to the module instead"
        )
    if isinstance(model, IRModule):
        if shapes:
            raise ModelError("input shapes cannot be given for a module, which has its own")
        return model
    if not isinstance(model, str | os.PathLike):
        return _of_object(model, shapes)
    if model in models.names():
        if params is not None:
            raise ModelError(f"model '{model}' is built in and has weights; params go with Relay's files")
        return models.to_relax(builtin_network(str(model), shapes))
    if not os.fspath(model):
        raise ModelError("the model's path is empty")
    path = Path(model)
    if not path.exists():
        raise ModelError(f"model '{path}': {NO_FILE}; built-in models are {', '.join(models.names())}")
    if path.is_dir():
        raise ModelError(f"model '{path}' is a directory, not a model file")
    suffix = path.suffix.lower()
    loader = LOADERS.get(suffix)
    if loader is not None:
        return loader(path, shapes, params)
    if suffix in _NO_MODELS:
        raise ModelError(f"model '{path}' is no model but {_NO_MODELS[suffix]}")
    raise ModelError(f"model '{path}': its suffix names no kind of model; supported is {', '.join(LOADERS)}")


def _of_object(model: Any, shapes: Shapes) -> IRModule:
    kind = type(model)
    if kind.__module__.partition(".")[0] == "onnx":
        return from_onnx(model, input_shapes=shapes)
    # A program of PyTorch's comes from a process that has imported it.
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module | torch.export.ExportedProgram):
        return from_torch(model, input_shapes=shapes)
    raise ModelError(
        f"a {kind.__name__} is no model: give the path of a file, the name of a built-in network, a Relax "
        "module, an onnx.ModelProto or a torch.export.ExportedProgram"
    )


def builtin_network(name: str, shapes: Shapes) -> models.Network:
    """The built-in network ``name`` for the extents in ``shapes`` of "input", [batch,3,H,W], where given.

    ModelError for another input, and for extents that it does not take.
    """
    for given in shapes:
        if given != "input":
            raise unknown_input(f"model '{name}'", given, ["input"])
    if not shapes:
        return models.build(name)
    extents = positive_extents(shapes["input"], f"model '{name}': input 'input'")
    text = ",".join(map(str, extents))
    if len(extents) != 4 or extents[1] != 3:
        raise ModelError(f"model '{name}': input 'input' is N,3,H,W, not {text}")
    return models.build(name, batch=extents[0], image_size=(extents[2], extents[3]))
