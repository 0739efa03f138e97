"""TensorFlow Lite files run by LiteRT and as they are compiled here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relay_layout

NONE, RELU, RELU6 = 0, 1, 3
SAME, VALID = 0, 1
IMAGE = (2, 9, 7, 6)


def randoms(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype="float32")


def reference(data: bytes, inputs: Sequence[np.ndarray], *, delegates: bool = False) -> list[np.ndarray]:
    """The outputs of LiteRT, without its delegates unless they alone have the operator."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    resolvers = litert.OpResolverType
    interpreter = litert.Interpreter(
        model_content=data,
        experimental_op_resolver_type=(
            resolvers.AUTO if delegates else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        ),
        num_threads=1,
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]).copy() for detail in interpreter.get_output_details()]


def run(data: bytes, inputs: Sequence[np.ndarray], folder: Path, **options: Any) -> list[np.ndarray]:
    """The outputs of the file as it is compiled here."""
    (folder / "model.tflite").write_bytes(data)
    relay_layout.compile(folder / "model.tflite", **options).save(folder / "model.rla")
    session = relay_layout.load(folder / "model.rla")
    names = [spec.name for spec in session.inputs]
    return list(session.run(dict(zip(names, inputs, strict=True))).values())
