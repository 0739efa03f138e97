"""Functions in ONNX models: those a model brings along, and operators ONNX itself defines by others."""

from typing import TYPE_CHECKING

from relay_layout.errors import ModelError
from relay_layout.frontend.onnx_import import first_line

if TYPE_CHECKING:
    import onnx


def inlined(model: "onnx.ModelProto", label: str) -> "onnx.ModelProto":
    """The model without functions of its own; the given one where it has none."""
    if not model.functions:
        return model
    from onnx.inliner import inline_local_functions

    try:
        return inline_local_functions(model)
    except Exception as error:
        raise ModelError(f"{label}: its functions cannot be expanded: {first_line(error)}") from None
