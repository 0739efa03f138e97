"""What artifacts are made of in tests, and how they are refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relay_layout.artifact import (
    Build,
    Content,
    Manifest,
    Producer,
    TensorSpec,
    read_artifact,
    write_artifact,
)
from relay_layout.errors import ArtifactError

Array = np.ndarray[Any, np.dtype[Any]]


DTYPES = (
    "float32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "int64",
    "uint64",
    "bool",
)


INPUT = TensorSpec("input", (1, 3, 224, 224), "float32", "NCHW", (0, 1, 2, 3))


LIBRARY = b"\x7fELF" + bytes(range(97))


def make_build(**changes: Any) -> Build:
    standard: dict[str, Any] = {
        "name": "wide",
        "target": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "", "features": []},
        "num_threads_hint": 2,
        "report": {"kernels": [{"name": "conv2d", "us": 12.5, "tuned": True, "record": None}]},
    }
    return Build(**{**standard, **changes})


def make_manifest(**changes: Any) -> Manifest:
    standard: dict[str, Any] = {
        "producer": Producer("0.1.0", "0.27.0"),
        "inputs": (INPUT,),
        "outputs": (TensorSpec("output", ("n", 1000), "float32"),),
        "builds": (make_build(),),
    }
    return Manifest(**{**standard, **changes})


def write(path: Path, manifest: Manifest, library: bytes, weights: Mapping[str, Array]) -> None:
    write_artifact(path, manifest, [Content(library, weights)])


def make_weights() -> dict[str, Array]:
    numbers = np.random.default_rng(0)
    arrays: dict[str, Array] = {
        dtype: numbers.integers(0, 2, (3, 5)).astype(dtype) * numbers.integers(1, 100, (3, 5)).astype(dtype)
        for dtype in DTYPES
    }
    arrays["scalar"] = np.array(2.5, "float32")
    arrays["empty"] = np.zeros((4, 0, 2), "int8")
    arrays["strided"] = np.arange(24, dtype="float32").reshape(4, 6)[::2, ::-3]
    arrays["big endian"] = np.arange(5, dtype=">i4")
    arrays["empty at the end"] = np.zeros((0,), "float32")
    return arrays


def refusal(path: Path) -> str:
    with pytest.raises(ArtifactError) as caught:
        read_artifact(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and message.count("\n") == 0
    return message
