"""Reading the compiler's report, and standing in for it."""

from pathlib import Path

import pytest
import tvm_ffi

from topi_ext.cuda.codegen import nvcc
from topi_ext.cuda.codegen.nvcc import (
    CALLBACK,
    Resources,
    code_architecture,
    compile_cubin,
    digest,
    find_compiler,
    machine_code,
    parse_resources,
)
from topi_ext.cuda.codegen.nvrtc import Nvrtc
from topi_ext.errors import CudaError

LOG = """ptxas info    : Compiling entry function 'first_kernel' for 'sm_80'
ptxas info    : Function properties for first_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 72 registers, used 1 barriers, 384 bytes cmem[0]
ptxas info    : Compiling entry function 'second_kernel' for 'sm_80'
ptxas info    : Function properties for second_kernel
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 4096 bytes smem, 384 bytes cmem[0]
"""


def test_resources_by_kernel() -> None:
    assert parse_resources(LOG) == {
        "first_kernel": Resources(72, 0, 0, 0, 0),
        "second_kernel": Resources(255, 4096, 16, 8, 12),
    }


def test_without_a_compiler_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TVM_CUDA_COMPILE_MODE", raising=False)
    monkeypatch.setattr(nvcc, "find_compiler", lambda: None)
    with pytest.raises(CudaError) as raised:
        compile_cubin("", "sm_80")
    assert str(raised.value) == (
        "neither nvcc nor NVRTC is installed; install the CUDA toolkit, set CUDA_HOME to where it is, or "
        "install relay-layout[nvrtc]"
    )


@pytest.mark.parametrize(("mode", "name"), [("nvcc", "nvcc"), ("nvrtc", "NVRTC")])
def test_a_compiler_that_the_environment_asks_for_is_named(
    mode: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", mode)
    monkeypatch.setattr(nvcc, "find_compiler", lambda: None)
    problem = f"^{name} is not installed, and TVM_CUDA_COMPILE_MODE asks for it; install the CUDA toolkit"
    with pytest.raises(CudaError, match=problem):
        compile_cubin("", "sm_80")


def test_another_compiler_compiles_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compilers = [Nvrtc(Path(name), ()) for name in ("old", "new")]
    asked: list[Nvrtc] = []

    def compiled(compiler: Nvrtc, source: str, arch: str, kind: str) -> tuple[bytes, str]:
        asked.append(compiler)
        return b"code", ""

    monkeypatch.setattr(nvcc, "compile_with", compiled)
    for compiler in (*compilers, *compilers):
        monkeypatch.setattr(nvcc, "find_compiler", lambda found=compiler: found)
        compile_cubin("__global__ void of_two_compilers() {}", "sm_80")
    assert asked == compilers


def test_nvrtc_is_for_machines_without_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = Nvrtc(tmp_path / "libnvrtc.so.13", ())
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: tmp_path / "nvcc")
    monkeypatch.setattr(nvcc, "find_nvrtc", lambda: library)
    monkeypatch.delenv("TVM_CUDA_COMPILE_MODE", raising=False)
    assert find_compiler() == tmp_path / "nvcc"
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvrtc")
    assert find_compiler() == library
    monkeypatch.delenv("TVM_CUDA_COMPILE_MODE")
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: None)
    assert find_compiler() == library
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvcc")
    assert find_compiler() is None


@pytest.mark.parametrize(
    ("source", "arch", "expected"),
    [
        ("wgmma.fence.sync.aligned;", "sm_90", "sm_90a"),
        ("mma.sync.aligned", "sm_90", "sm_90"),
        ("mma.sync.aligned", "sm_80", "sm_80"),
    ],
)
def test_wgmma_is_in_code_for_one_architecture_alone(source: str, arch: str, expected: str) -> None:
    assert code_architecture(source, arch) == expected


@pytest.mark.skipif(nvcc.find_nvcc() is None, reason="nvcc is not installed")
def test_a_mistake_in_the_source_is_one_line() -> None:
    with pytest.raises(CudaError, match=r'^nvcc for sm_80: .*error: identifier "nothing" is undefined$'):
        compile_cubin('extern "C" __global__ void f(int* p) { *p = nothing; }', "sm_80")


def test_stored_machine_code_takes_the_compilers_place() -> None:
    before = tvm_ffi.get_global_func(CALLBACK)
    with machine_code({digest("source"): b"code"}):
        callback = tvm_ffi.get_global_func(CALLBACK)
        assert bytes(callback("source")) == b"code"
        with pytest.raises(CudaError, match=r"^the machine code of a CUDA module is missing; compile"):
            callback("another source")
    assert tvm_ffi.get_global_func(CALLBACK).same_as(before)
