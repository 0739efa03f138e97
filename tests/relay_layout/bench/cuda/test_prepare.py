"""What is made before a GPU is touched, in processes of their own. Needs a compiler of CUDA and no GPU."""

import os
from pathlib import Path

import numpy as np
import pytest

from relay_layout.bench.cuda import prepare as cuda_prepare
from relay_layout.bench.cuda.prepare import Case, Prepared, layer_code, reference
from relay_layout.errors import ModelError
from relay_layout.models import Network, NetworkBuilder
from topi_ext.cuda.codegen.nvcc import find_compiler
from topi_ext.cuda.workload import GemmConvolution

WORK = GemmConvolution(32, 4, 4, 8, 8, (1, 1), (1, 1), (0,) * 4, (1, 1), 1, "float16")
ROOT = Path(__file__).parents[4]


def nothing(model: str = "nothing", precision: str = "fp16") -> Case:
    return Case(model, 1, precision, "cuda-sm_90")


def small(name: str, *, batch: int) -> Network:
    """Two outputs."""
    builder = NetworkBuilder(name)
    image = builder.input("input", (batch, 3, 5, 5))
    first = builder.relu(builder.convolution(image, "first", 4, 3), "relu")
    return builder.build({"one": first, "two": builder.add(first, first, "sum")})


def test_a_reference_has_the_outputs_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(cuda_prepare, "build", small)
    with np.load(reference("small", 2, tmp_path)) as found:
        one, two = (found[name] for name in found.files)
    assert one.shape == (2, 4, 3, 3)
    assert one.any()
    np.testing.assert_array_equal(two, 2 * one)


def test_what_does_not_compile_is_an_error_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    prepared = Prepared(tmp_path, workers=1)
    try:
        prepared.start([nothing()], [])
        prepared.wait(60, print)
        with pytest.raises(ModelError, match="unknown built-in network 'nothing'"):
            prepared.artifact(nothing(), 0)
    finally:
        prepared.close()
    assert capsys.readouterr().out.startswith("prepared 1 of 1 in ")


def crash(*arguments: object) -> None:
    os._exit(1)


def test_a_process_that_crashes_takes_nothing_else_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    prepared = Prepared(tmp_path, workers=1)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(cuda_prepare, "reference", crash)
            prepared.start([], [("first", 1)])
        prepared.start([nothing()], [])
        with pytest.raises(ChildProcessError):
            prepared.reference("first", 1, 60)
        with pytest.raises(ModelError, match="unknown built-in network 'nothing'"):
            prepared.artifact(nothing(), 60)
    finally:
        prepared.close()


@pytest.mark.skipif(find_compiler() is None, reason="neither nvcc nor NVRTC is installed")
def test_the_machine_code_of_a_layer_is_by_its_source() -> None:
    (code,) = layer_code(WORK, nothing()).values()
    assert code.startswith(b"\x7fELF")
