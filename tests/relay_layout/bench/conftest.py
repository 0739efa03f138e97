"""A small model and peers made up for the tests, which workers can import too."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PEERS_SOURCE = """
import os
import signal
import sys
import time

import numpy as np

from relay_layout.bench.peers import CallablePeer


def peer(name, run, **options):
    return CallablePeer(name, lambda path, threads: lambda inputs: lambda: run(inputs), **options)


def relu(inputs):
    return [np.maximum(inputs["x"], 0)]


def kill(inputs):
    print("about to die", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


runs = 0


def die_in_second_run(inputs):
    global runs
    runs += 1
    if runs > 1:
        os._exit(3)
    return relu(inputs)


def chatter(inputs):
    print("this is not a reply", flush=True)
    os.system("echo nor is this")
    return relu(inputs)


def refuse(inputs):
    raise RuntimeError("no such kernel\\nand more lines")


exact = peer("exact", relu)
wrong = peer("wrong", lambda inputs: [inputs["x"]])
killed = peer("killed", kill)
dying = peer("dying", die_in_second_run)
chatty = peer("chatty", chatter)
refusing = peer("refusing", refuse)
sleeping = peer("sleeping", lambda inputs: time.sleep(60))
absent = peer("absent", relu, modules=("a_package_nobody_has",))
threads = peer("threads", lambda inputs: [np.array(
    [int(os.environ["OMP_NUM_THREADS"]), int(os.environ["TVM_NUM_THREADS"])], np.float32)])
"""


@pytest.fixture
def example_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module whose attributes are peers."""
    folder = tmp_path / "peers"
    folder.mkdir()
    (folder / "example_peers.py").write_text(PEERS_SOURCE)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    yield "example_peers"
    sys.modules.pop("example_peers", None)


@pytest.fixture
def relu_model(tmp_path: Path) -> Callable[..., Path]:
    """Writes a model that is one Relu over an input `x` of the given dimensions."""
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper, save

    def write(*dimensions: int | str, name: str = "relu", data_type: int = TensorProto.FLOAT) -> Path:
        graph = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "relu",
            [helper.make_tensor_value_info("x", data_type, dimensions)],
            [helper.make_tensor_value_info("y", data_type, dimensions)],
        )
        path = tmp_path / f"{name}.onnx"
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)
        return path

    return write


@pytest.fixture
def convolution_model(tmp_path: Path) -> Path:
    """Convolution, batch norm, Relu, pooling and a classifier over an input `x` [1, 3, 16, 16]."""
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper, save

    random = np.random.default_rng(0)
    weights: dict[str, Any] = {
        "w": random.standard_normal((8, 3, 3, 3)),
        "scale": random.uniform(0.5, 1.5, 8),
        "shift": random.standard_normal(8),
        "mean": random.standard_normal(8),
        "variance": random.uniform(0.5, 1.5, 8),
        "classes": random.standard_normal((8, 5)),
        "bias": random.standard_normal(5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "classes", "bias"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()],
    )
    path = tmp_path / "small.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)
    return path
