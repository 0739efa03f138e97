"""CUDA source to machine code with nvcc or NVRTC, ahead of time: nothing here needs a GPU or its driver."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm_ffi

from topi_ext.cuda.codegen.nvrtc import Nvrtc, compile_with, find_nvrtc, first_error
from topi_ext.errors import CudaError
from topi_ext.files.temporary_folder import TemporaryFolder

# What the callback raises goes through TVM, which gives back as they were only the exceptions that it knows.
tvm_ffi.register_error(CudaError)

CALLBACK = "tvm_callback_cuda_compile"
"""The function that TVM asks for the machine code of a module's CUDA source."""

_MODE = "TVM_CUDA_COMPILE_MODE"
"""The environment's word for one compiler alone, TVM's."""

_FLAGS = ("-O3", "-std=c++17", "-Xptxas=-v")


@dataclass(frozen=True)
class Resources:
    """What a kernel takes of a multiprocessor: registers per thread, bytes of static shared memory, and the
    bytes per thread of local memory that it keeps arrays (``stack``) and spilled registers in."""

    registers: int
    shared: int
    stack: int
    spill_stores: int
    spill_loads: int


@dataclass(frozen=True)
class Cubin:
    """Machine code of one architecture, and what each of its kernels takes; ``serialized`` where the compiler
    could not let products by wgmma run on and waits for each.
    """

    code: bytes
    resources: Mapping[str, Resources]
    serialized: bool = False

    @property
    def spilled(self) -> int:
        """Bytes per thread of registers that its kernels keep in local memory."""
        return sum(used.spill_stores for used in self.resources.values())


def find_nvcc() -> Path | None:
    """nvcc of ``$CUDA_HOME`` or ``$CUDA_PATH``, on the path, or in /usr/local; the newest where there are
    more.
    """
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    found = [Path(home) / "bin" / "nvcc" for home in homes]
    on_path = shutil.which("nvcc")
    found += [Path(on_path)] if on_path else []
    found += sorted(Path("/usr/local").glob("cuda*/bin/nvcc"), key=_version, reverse=True)
    return next((path for path in found if path.exists()), None)


def find_compiler() -> Path | Nvrtc | None:
    """nvcc, or NVRTC where there is none; by ``TVM_CUDA_COMPILE_MODE``, "nvcc" or "nvrtc", that one alone."""
    mode = os.environ.get(_MODE)
    nvcc = find_nvcc() if mode != "nvrtc" else None
    return nvcc if nvcc is not None or mode == "nvcc" else find_nvrtc()


def _version(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.parts[-3])]


def code_architecture(source: str, arch: str) -> str:
    """What a source is compiled for: "sm_90a", which runs on every sm_90 and on nothing newer, where
    wgmma is in it, and otherwise ``arch``.
    """
    return f"{arch}a" if arch == "sm_90" and "wgmma." in source else arch


def compile_cubin(source: str, arch: str) -> Cubin:
    """Machine code for ``arch`` ("sm_80"); CudaError as of :func:`compile_source`."""
    code, log = compile_source(source, arch, "cubin")
    return Cubin(code, parse_resources(log), _SERIALIZED in log)


def compile_source(source: str, arch: str, kind: str) -> tuple[bytes, str]:
    """A source as "cubin" or "ptx" for ``arch`` ("sm_80"), and what the compiler said.

    Raises CudaError with the compiler's first error, and where there is no compiler.
    """
    compiler = find_compiler()
    if compiler is None:
        only = {"nvcc": "nvcc is not", "nvrtc": "NVRTC is not"}.get(os.environ.get(_MODE, ""))
        problem = (
            f"{only} installed, and {_MODE} asks for it" if only else "neither nvcc nor NVRTC is installed"
        )
        raise CudaError(
            f"{problem}; install the CUDA toolkit, set CUDA_HOME to where it is, or "
            "install relay-layout[nvrtc]"
        )
    return _compile_by(compiler, source, arch, kind)


@lru_cache(maxsize=256)
def _compile_by(compiler: Path | Nvrtc, source: str, arch: str, kind: str) -> tuple[bytes, str]:
    code = code_architecture(source, arch)
    if isinstance(compiler, Nvrtc):
        return compile_with(compiler, source, code, kind)
    with TemporaryFolder() as folder:
        text, result = Path(folder) / "kernels.cu", Path(folder) / f"kernels.{kind}"
        text.write_text(source)
        words = [str(compiler), f"-arch={code}", f"-{kind}", *_FLAGS, "-o", str(result), str(text)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CudaError(f"nvcc for {arch}: {first_error(done.stderr)}")
        return result.read_bytes(), done.stderr


_SERIALIZED = "wgmma.mma_async instructions are serialized"

_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for .*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
    r".*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)


def parse_resources(log: str) -> dict[str, Resources]:
    """What ``ptxas -v`` says of each kernel, by name."""
    found = {}
    for entry in _ENTRY.finditer(log):
        shared = re.search(r"(\d+) bytes smem", entry["rest"])
        found[entry["name"]] = Resources(
            int(entry["registers"]),
            int(shared[1]) if shared else 0,
            int(entry["stack"]),
            int(entry["stores"]),
            int(entry["loads"]),
        )
    return found


def digest(source: str) -> str:
    """The name under which machine code of ``source`` is kept."""
    return hashlib.sha256(source.encode()).hexdigest()


@contextmanager
def machine_code(known: Mapping[str, bytes], arch: str | None = None) -> Iterator[None]:
    """Within this, TVM takes machine code from ``known``, by :func:`digest` of the source.

    What is not there is compiled for ``arch``; without one it is an error (CudaError).
    """
    previous = tvm_ffi.get_global_func(CALLBACK, allow_missing=True)

    def compiled(code: Any) -> bytes:
        source = code.decode() if isinstance(code, bytes) else str(code)
        found = known.get(digest(source))
        if found is not None:
            return found
        if arch is None:
            raise CudaError("the machine code of a CUDA module is missing; compile the artifact again")
        return compile_cubin(source, arch).code

    tvm_ffi.register_global_func(CALLBACK, compiled, override=True)
    try:
        yield
    finally:
        if previous is not None:
            tvm_ffi.register_global_func(CALLBACK, previous, override=True)
