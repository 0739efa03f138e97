"""Tensors that a model keeps in other files."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from relay_layout.errors import ModelError
from relay_layout.frontend.files import GIT_LFS
from relay_layout.frontend.onnx.graphs import subgraphs, with_subgraphs
from topi_ext.messages import system_reason

if TYPE_CHECKING:
    import onnx


def check_loaded(model: "onnx.ModelProto", label: str) -> None:
    """ModelError for a model object that leaves its data in other files."""
    for tensor in _external_tensors(model):
        raise ModelError(
            f"{label}: tensor '{tensor.name}' keeps its data in the file '{_entry(tensor, 'location')}': "
            "load that first, or give the model's path"
        )


def load_external_data(model: "onnx.ModelProto", file: Path, label: str) -> None:
    """Read what a model that comes from ``file`` keeps in files beside it.

    Caches keep all files elsewhere and link to them: beside the model is also where it really lies.
    ModelError, which begins with ``label``, for data that are elsewhere, missing or too few.
    """
    homes = os.path.realpath(file.parent), os.path.dirname(os.path.realpath(file))
    for tensor in list(_external_tensors(model)):
        location = _entry(tensor, "location")
        place = f"{label}: tensor '{tensor.name}' keeps its data in the file '{location}'"
        inside = os.path.normpath(location)
        if not location or os.path.isabs(inside) or inside.startswith(".."):
            raise ModelError(f"{place}, which is not beside the model")
        path = file.parent / inside
        if not path.is_file():
            raise ModelError(f"{place}, which is missing in '{file.parent}'")
        real = os.path.realpath(path)
        if not any(os.path.commonpath([home, real]) == home for home in homes):
            raise ModelError(f"{place}, which is a link to '{real}': put the file itself beside the model")
        tensor.raw_data = _content(path, tensor, place)
        tensor.data_location = type(tensor).DEFAULT
        del tensor.external_data[:]


def _content(path: Path, tensor: "onnx.TensorProto", place: str) -> bytes:
    """A tensor's bytes; without a length they are all that follow."""
    offset, length = _number(tensor, "offset", place), _number(tensor, "length", place)
    try:
        with path.open("rb") as data:
            size = data.seek(0, os.SEEK_END)
            first, end = offset or 0, size if length is None else (offset or 0) + length
            if first <= end <= size:
                data.seek(first)
                return data.read(end - first)
            data.seek(0)
            if data.read(len(GIT_LFS)) == GIT_LFS:
                raise ModelError(f"{place}, which is a Git LFS pointer: fetch it with 'git lfs pull'")
    except OSError as error:
        raise ModelError(f"{place}, which cannot be read: {system_reason(error)}") from None
    raise ModelError(f"{place}, which is too short: it has {size} bytes, not {max(first, end)}")


def _number(tensor: "onnx.TensorProto", key: str, place: str) -> int | None:
    text = _entry(tensor, key)
    if text and not text.isdecimal():
        raise ModelError(f"{place}, and its {key} there is '{text}', which is no number of bytes")
    return int(text) if text else None


def _entry(tensor: "onnx.TensorProto", key: str) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == key), "")


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
