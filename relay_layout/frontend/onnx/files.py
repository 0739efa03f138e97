"""Reading an ONNX file, with the data it keeps in other files."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from relay_layout.errors import ModelError
from relay_layout.frontend.files import read_bytes
from relay_layout.frontend.onnx.graphs import subgraphs, with_subgraphs

if TYPE_CHECKING:
    import onnx

_GIT_LFS = b"version https://git-lfs"


def require_onnx() -> None:
    """ModelError without the onnx package."""
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise ModelError("reading ONNX needs the onnx package: pip install 'relay-layout[onnx]'") from None


def read_model(path: str | os.PathLike[str]) -> "onnx.ModelProto":
    """The model in a file with its external data; ModelError where it cannot be read or is damaged."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx import ModelProto

    file = Path(path)
    label = f"model '{file}'"
    content = read_bytes(file)
    if not content:
        raise ModelError(f"{label} is empty")
    if content.startswith(_GIT_LFS):
        raise ModelError(f"{label} is a Git LFS pointer, not the model itself: fetch it with 'git lfs pull'")
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise ModelError(
            f"{label} is not a readable ONNX file ({len(content)} bytes): "
            "truncated, damaged or of another format"
        ) from None
    if not model.HasField("graph"):
        raise ModelError(f"{label} is not a readable ONNX file ({len(content)} bytes): it holds no graph")
    _load_external_data(model, file.parent, label)
    return model


def check_loaded(model: "onnx.ModelProto", label: str) -> None:
    """ModelError for a model object that leaves its data in other files."""
    for tensor in _external_tensors(model):
        raise ModelError(
            f"{label}: tensor '{tensor.name}' keeps its data in the file '{_location(tensor)}': "
            "load that first, or give the model's path"
        )


def _load_external_data(model: "onnx.ModelProto", folder: Path, label: str) -> None:
    from onnx.external_data_helper import load_external_data_for_tensor

    for tensor in list(_external_tensors(model)):
        location = _location(tensor)
        place = f"{label}: tensor '{tensor.name}' keeps its data in the file '{location}'"
        inside = os.path.normpath(location)
        if not location or os.path.isabs(inside) or inside.startswith(".."):
            raise ModelError(f"{place}, which is not beside the model")
        if not (folder / inside).is_file():
            raise ModelError(f"{place}, which is missing in '{folder}'")
        try:
            load_external_data_for_tensor(tensor, str(folder))
        except Exception:
            raise ModelError(f"{place}, which cannot be read or is too short") from None
        tensor.data_location = type(tensor).DEFAULT
        del tensor.external_data[:]


def _location(tensor: "onnx.TensorProto") -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def _external_tensors(model: "onnx.ModelProto") -> Iterator["onnx.TensorProto"]:
    functions = [node for function in model.functions for node in function.node]
    nodes = list(with_subgraphs([*model.graph.node, *functions]))
    for graph in (model.graph, *(graph for node in nodes for graph in subgraphs(node))):
        tensors = [*graph.initializer, *_parts(graph.sparse_initializer)]
        yield from (tensor for tensor in tensors if tensor.data_location == tensor.EXTERNAL)
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        tensors = [attribute.t, *attribute.tensors, *_parts([attribute.sparse_tensor])]
        yield from (tensor for tensor in tensors if tensor.data_location == tensor.EXTERNAL)


def _parts(sparse: Iterable["onnx.SparseTensorProto"]) -> Iterator["onnx.TensorProto"]:
    for tensor in sparse:
        yield from (tensor.values, tensor.indices)
