"""Reading an ONNX file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from relay_layout.errors import ModelError
from relay_layout.frontend.files import GIT_LFS, read_bytes
from relay_layout.frontend.onnx.external_data import load_external_data

if TYPE_CHECKING:
    import onnx


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
    if content.startswith(GIT_LFS):
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
    load_external_data(model, file, label)
    return model
