"""The peers of the table, and how missing ones report themselves."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relay_layout
from relay_layout.bench import peers
from relay_layout.bench.compare import ROUNDED_TOLERANCE
from relay_layout.bench.peers import OURS, PEERS, CallablePeer, PeerUnavailable, Run, find_peer
from relay_layout.errors import InputError

INPUT = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)


@pytest.mark.parametrize("name", ["openvino", "torch", pytest.param("tvm", marks=pytest.mark.slow)])
def test_peer_agrees_with_onnxruntime(name: str, convolution_model: Path) -> None:
    for needed in ("onnxruntime", name):
        if PEERS[needed].missing():
            pytest.skip(f"{needed} is not installed")
    reference, other = (
        PEERS[peer].prepare(convolution_model, 1)({"x": INPUT})() for peer in ("onnxruntime", name)
    )
    assert isinstance(other, list)
    assert PEERS[name].version() != "unknown"
    np.testing.assert_allclose(other[0], reference[0], rtol=1e-4, atol=1e-5, strict=True)


@pytest.mark.parametrize("name", ["openvino-bf16", "torch-bf16"])
def test_peer_in_bfloat16_agrees_but_for_rounding(name: str, convolution_model: Path) -> None:
    for needed in ("onnxruntime", name.removesuffix("-bf16")):
        if PEERS[needed].missing():
            pytest.skip(f"{needed} is not installed")
    reference, other = (
        find_peer(peer).prepare(convolution_model, 1)({"x": INPUT})()[0] for peer in ("onnxruntime", name)
    )
    assert other.dtype == reference.dtype
    assert np.abs(other - reference).max() / np.abs(reference).max() < ROUNDED_TOLERANCE


def test_a_missing_package_is_reported_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name, modules in (("onnxruntime", "onnxruntime"), ("torch", "torch, onnx")):
        hint = f"{name}: needs {modules}: pip install 'relay-layout[bench]'"
        assert PEERS[name].missing() == hint
        with pytest.raises(PeerUnavailable) as error:
            PEERS[name].prepare(Path("model.onnx"), 1)
        assert str(error.value) == hint


def test_torch_without_a_compiler(convolution_model: Path) -> None:
    pytest.importorskip("torch")
    from torch._inductor import config

    with config.patch({"cpp.cxx": ("no-such-compiler",)}), pytest.raises(PeerUnavailable) as error:
        PEERS["torch"].prepare(convolution_model, 1)
    assert str(error.value) == "torch: Inductor needs a compiler of C++: install g++, or set CXX"


def test_version_of_a_package_that_is_not_there() -> None:
    assert CallablePeer("nobody-has-this", lambda path, threads: None).version() == "unknown"  # type: ignore


def test_find_peer() -> None:
    assert find_peer("torch") is PEERS["torch"]
    with pytest.raises(InputError, match="unknown peer 'tensorrt': known ones are relay-layout, onnxruntime"):
        find_peer("tensorrt")
    with pytest.raises(InputError, match="peer 'no_module:peer': No module named 'no_module'"):
        find_peer("no_module:peer")


def test_the_package_imports_no_runtime() -> None:
    script = (
        "import sys, relay_layout; before = set(sys.modules); import relay_layout.bench.workers.worker; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new & {'onnx', 'onnxruntime', 'openvino', 'torch', 'tvm'}))"
    )
    root = Path(relay_layout.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


class FakeSession:
    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"y": inputs["x"] + 1, "z": inputs["x"] + 2}


def test_relay_layout_from_an_artifact(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded = []

    def load(path: Path, threads: int | None = None) -> FakeSession:
        loaded.append((path, threads))
        return FakeSession()

    monkeypatch.setattr(relay_layout, "load", load, raising=False)
    run: Run = peers.prepare_relay_layout(tmp_path / "model.artifact", 3)({"x": np.zeros(2)})
    assert [list(output) for output in run()] == [[1, 1], [2, 2]]
    assert loaded == [(tmp_path / "model.artifact", 3)]
    assert PEERS[OURS].name == "relay-layout"
