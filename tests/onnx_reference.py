"""ONNX Runtime as the reference, exact on every processor."""

from os import PathLike

import onnxruntime

EXACT_PRODUCTS = "session.x64quantprecision"
"""Without it, products of uint8 and int8 saturate at 16 bits on processors that have AVX2 and no VNNI."""


def reference_session(
    model: bytes | str | PathLike[str], options: onnxruntime.SessionOptions | None = None
) -> onnxruntime.InferenceSession:
    """A session on the CPU whose integer products are exact; what is wrong it raises, and logs nothing."""
    options = options or onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry(EXACT_PRODUCTS, "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
