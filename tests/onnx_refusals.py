"""How ONNX models are refused: by one line that says what is wrong, where, and what to do."""

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser

from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx


def message_of(model: Any, **options: Any) -> str:
    """The one line with which ``from_onnx`` refuses a model, raised on its own and not out of another."""
    with pytest.raises(ModelError) as caught:
        from_onnx(model, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    message = str(caught.value)
    assert "\n" not in message
    return message


def refusal(graph: str, opset: int = 17, constants: dict[str, np.ndarray] | None = None) -> str:
    """As :func:`message_of`, without the model's name, for a graph in the syntax of ``onnx.parser``.

    ``graph`` begins with its inputs; nodes may be those of ONNX Runtime's own domain.
    """
    header = f'<ir_version: 13, opset_import: ["" : {opset}, "com.microsoft" : 1]> case'
    model = parser.parse_model(f"{header} {graph}")
    for name, array in (constants or {}).items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return message_of(model).removeprefix("ONNX model 'case': ")
