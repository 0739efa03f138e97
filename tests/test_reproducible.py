"""A model is compiled to the same bytes again, in whichever process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from tests.onnx_nodes import Nodes  # noqa: E402

COMPILE = """
import sys
import relay_layout
relay_layout.compile(sys.argv[1], target="x86-64-v3", threads=2).save(sys.argv[2])
"""


def inception() -> Any:
    """Branches over an image of any size, whose extents kernels are given as scalars."""
    graph = Nodes(np.random.default_rng(0))

    def convolution(data: str, channels: int, kernel: int, *, stride: int = 1) -> str:
        shape = (4, channels, kernel, kernel)
        weights = graph.constant(graph.random.standard_normal(shape).astype("float32"))
        around = f"pads=[{', '.join([str(kernel // 2)] * 4)}], strides=[{stride}, {stride}]"
        return graph.node(f"Relu ({graph.node(f'Conv <{around}> ({data}, {weights})')})")

    stem = convolution("x", 3, 3, stride=2)
    pooled = graph.node(f"MaxPool <kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]> ({stem})")
    average = graph.node(f"AveragePool <kernel_shape=[3, 3], pads=[1, 1, 1, 1]> ({pooled})")
    branches = [convolution(pooled, 4, 1), convolution(pooled, 4, 3), convolution(average, 4, 1)]
    joined = graph.node(f"Concat <axis=1> ({', '.join(branches)})")
    flat = graph.node(f"Flatten ({graph.node(f'GlobalAveragePool ({joined})')})")
    return graph.model(
        f"(float[n, 3, h, w] x) => (float[n, 12, a, b] {joined}, float[n, 12] {flat})", opset=17
    )


def test_two_processes_compile_sizes_that_are_open_to_the_same_bytes(tmp_path: Path) -> None:
    onnx.save(inception(), tmp_path / "model.onnx")
    compiled = []
    for seed in ("1", "2"):
        path = tmp_path / f"{seed}.rla"
        words = [sys.executable, "-c", COMPILE, str(tmp_path / "model.onnx"), str(path)]
        subprocess.run(words, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
        compiled.append(path.read_bytes())
    assert compiled[0] == compiled[1]
