"""Code of all functions, whoever generates it."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax, topi

from relay_layout.errors import RelayLayoutError
from relay_layout.lower.library.generate import generate
from relay_layout.lower.passes import machine_passes, memory_passes
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of
from topi_ext.codegen.build import PIPELINE

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})
SHAPE = (3, 40)


def module_of(steps: int) -> tvm.IRModule:
    """A chain of functions: each adds its number, the last one calls C's library."""
    data = relax.Var("data", relax.TensorType(SHAPE, "float32"))
    with main_of(data) as builder:
        value = data
        for step in range(steps):
            value = builder.emit_te(lambda x, step=step: topi.add(x, float(step)), value)
        builder.result = builder.emit_te(topi.atan, value)
    return tvm.transform.Sequential([*memory_passes(resolve_target("native")), *machine_passes()])(
        builder.finalize()
    )


def result(executable: object, path: Path) -> np.ndarray:
    executable.export_library(str(path))  # type: ignore[attr-defined]
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
    found: np.ndarray = machine["main"](tvm.runtime.tensor(np.ones(SHAPE, "float32"))).numpy()
    return found


@pytest.mark.parametrize("steps", [1, 2, 5, 19])
def test_more_threads_generate_the_same(steps: int, tmp_path: Path) -> None:
    module = module_of(steps)
    alone, together = (tmp_path / "1.so", tmp_path / "3.so")
    found = [
        result(generate(module, TARGET, PIPELINE, threads), path)
        for threads, path in ((1, alone), (3, together))
    ]
    assert alone.read_bytes() == together.read_bytes()
    np.testing.assert_allclose(found[0], np.arctan(np.full(SHAPE, 1.0 + sum(range(steps)))), rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
def test_only_the_machine_checks_what_it_is_called_with(threads: int, tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    generate(module_of(3), TARGET, PIPELINE, threads).export_library(str(path))
    assert b"Mismatched" not in path.read_bytes()
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
    with pytest.raises(RuntimeError, match=r"shape\[0\] mismatch to specified constant"):
        machine["main"](tvm.runtime.tensor(np.ones((2, 40), "float32")))


def test_an_error_of_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(module: tvm.IRModule, *arguments: object) -> None:
        raise RuntimeError("no code")

    monkeypatch.setattr(tvm.tirx, "build", build)
    with pytest.raises(RuntimeError, match=r"^no code$"):
        generate(module_of(5), TARGET, PIPELINE, 2)


def test_no_place_for_temporary_files_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(
        RelayLayoutError, match=r"^there is no place for temporary files \(.*gone: no such file\)"
    ):
        generate(module_of(5), TARGET, PIPELINE)


def test_code_for_gpus_is_left_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """TVM keeps it in modules of their own, which objects of the host's code would lose."""
    kept = []
    monkeypatch.setattr(relax, "build", lambda module, *arguments, **options: kept.append(module))
    module = module_of(4)
    generate(module, tvm.target.Target({"kind": "cuda", "arch": "sm_80"}), PIPELINE)
    assert kept == [module]
