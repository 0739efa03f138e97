"""Machine code from NVRTC, and where it is found. What compiles needs its library and no GPU."""

import ctypes
import sys
from pathlib import Path

import pytest
from test_machine_code import BULK, FAMILIES, bulk_source, source_of

from topi_ext.cuda.codegen.nvcc import code_architecture, parse_resources
from topi_ext.cuda.codegen.nvrtc import Nvrtc, compile_with, find_nvrtc
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.errors import CudaError

needs_nvrtc = pytest.mark.skipif(find_nvrtc() is None, reason="NVRTC is not installed")


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without NVRTC, as far as the environment goes."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [])
    return monkeypatch


@pytest.mark.parametrize(
    ("library", "header"),
    [
        ("nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cu13/include/cuda_fp16.h"),
        ("nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvidia/cuda_runtime/include/cuda_fp16.h"),
    ],
)
def test_the_wheels_of_each_cuda_are_found(
    library: str, header: str, tmp_path: Path, nowhere: pytest.MonkeyPatch
) -> None:
    for name in (library, header, f"{library}.1", library.replace("libnvrtc", "libnvrtc-builtins")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    nowhere.setattr(sys, "path", [str(tmp_path)])
    found = find_nvrtc()
    assert found is not None
    assert (found.library, found.headers) == (tmp_path / library, ((tmp_path / header).parent,))


def test_a_library_without_headers_is_not_taken(tmp_path: Path, nowhere: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libnvrtc.so.13").write_bytes(b"")
    nowhere.setenv("CUDA_HOME", str(tmp_path))
    found = find_nvrtc()
    assert found is None or found.library.parent != tmp_path / "lib64"


def test_built_in_functions_are_loaded_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC opens them by name, and what lies beside it is not among the system's libraries."""
    names = ["libnvrtc-builtins.so.13.0", "libnvrtc.so.13"]
    for name in (*names, "libcudart.so.13"):
        (tmp_path / name).write_bytes(b"")
    loaded: list[str] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda path: loaded.append(Path(path).name))
    with pytest.raises(AttributeError):
        compile_with(Nvrtc(tmp_path / names[1], ()), "", "sm_90", "cubin")
    assert loaded == names


def check(source: str) -> None:
    nvrtc = find_nvrtc()
    assert nvrtc is not None
    code, log = compile_with(nvrtc, source, code_architecture(source, "sm_90"), "cubin")
    assert code.startswith(b"\x7fELF")
    resources = parse_resources(log)
    assert resources
    assert all(used.registers > 0 and used.spill_stores == 0 for used in resources.values())


@needs_nvrtc
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_compiles(family: str) -> None:
    check(source_of(family, MULTIPROCESSORS["sm_90"]))


@needs_nvrtc
@pytest.mark.parametrize("dtype", BULK)
def test_bulk_copies_compile(dtype: str) -> None:
    """With tensor maps as parameters."""
    check(bulk_source(dtype))


@needs_nvrtc
def test_ptx_is_text_and_a_mistake_is_one_line() -> None:
    nvrtc = find_nvrtc()
    assert nvrtc is not None
    ptx, _ = compile_with(nvrtc, 'extern "C" __global__ void f(int* p) { *p = 1; }', "sm_90", "ptx")
    assert ".target sm_90" in ptx.decode()
    assert b"\0" not in ptx
    with pytest.raises(CudaError, match=r'^NVRTC for sm_80: .*error: identifier "nothing" is undefined$'):
        compile_with(nvrtc, 'extern "C" __global__ void f(int* p) { *p = nothing; }', "sm_80", "cubin")
