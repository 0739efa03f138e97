"""CUDA source to machine code with NVRTC, NVIDIA's compiler as a library, for machines without nvcc.

It comes with the wheels ``nvidia-cuda-nvrtc`` and ``nvidia-cuda-runtime`` (the headers), which PyTorch with
CUDA brings too, and with the CUDA toolkit. The interface is that of NVIDIA's manual "NVRTC".
"""

import ctypes
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from topi_ext.errors import CudaError

_HEADERS = {
    "cuda/std/cstdint": """#pragma once
namespace cuda { namespace std {
using uint8_t = unsigned char; using uint16_t = unsigned short; using uint32_t = unsigned int;
using uint64_t = unsigned long; using int8_t = signed char; using int16_t = short; using int32_t = int;
using int64_t = long;
} }
""",
    "cuda/std/type_traits": """#pragma once
namespace cuda { namespace std {
template <bool V> struct truth { static constexpr bool value = V; };
template <class A, class B> struct is_same : truth<false> {};
template <class A> struct is_same<A, A> : truth<true> {};
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <class A> struct is_floating_point : truth<is_same_v<A, float> || is_same_v<A, double>> {};
template <class A> struct is_signed : truth<(A(-1) < A(0))> {};
template <class A> struct is_unsigned : truth<(A(-1) > A(0))> {};
template <class A> struct is_integral : truth<false> {};
template <> struct is_integral<bool> : truth<true> {};
template <> struct is_integral<char> : truth<true> {};
template <> struct is_integral<signed char> : truth<true> {};
template <> struct is_integral<unsigned char> : truth<true> {};
template <> struct is_integral<short> : truth<true> {};
template <> struct is_integral<unsigned short> : truth<true> {};
template <> struct is_integral<int> : truth<true> {};
template <> struct is_integral<unsigned int> : truth<true> {};
template <> struct is_integral<long> : truth<true> {};
template <> struct is_integral<unsigned long> : truth<true> {};
template <> struct is_integral<long long> : truth<true> {};
template <> struct is_integral<unsigned long long> : truth<true> {};
template <bool V, class A = void> struct enable_if {};
template <class A> struct enable_if<true, A> { using type = A; };
template <bool V, class A, class B> struct conditional { using type = A; };
template <class A, class B> struct conditional<false, A, B> { using type = B; };
} }
""",
}
"""What TVM's source includes of CUDA's C++ library, which the wheels of the compiler are without."""

_WMMA = "nvcuda"
"""In sources that need the header of wmma; TVM includes it, which a third wheel has, for ``mma.sync`` too."""

_TENSOR_MAP = "struct CUtensorMap { alignas(128) unsigned long long opaque[16]; };\n"
"""As the driver's header has it, which TVM includes for nvcc alone, and which itself includes C's."""

_NAME = re.compile(r"libnvrtc\.so\.(\d+)")


@dataclass(frozen=True)
class Nvrtc:
    """A library, and the folders of CUDA's headers for it."""

    library: Path
    headers: tuple[Path, ...]


def find_nvrtc() -> Nvrtc | None:
    """NVRTC of ``$CUDA_HOME`` or ``$CUDA_PATH``, of the wheels in Python's path, or in /usr/local; the newest
    where there are more. None where it or its headers are missing.
    """
    for library in _libraries():
        # Of CUDA 12 each wheel has a folder of its own, of CUDA 13 all share one.
        roots = [library.parents[1], library.parents[2] / "cuda_runtime", *library.parents[2:4]]
        folders = [root / "include" for root in roots if (root / "include" / "cuda_fp16.h").exists()]
        if folders:
            return Nvrtc(library, tuple(folders))
    return None


def _libraries() -> Iterator[Path]:
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    wheels = [Path(entry) / "nvidia" for entry in sys.path if entry]
    places = [*((home, "lib*") for home in homes), *((wheel, "*/lib") for wheel in wheels)]
    for root, folders in (*places, (Path("/usr/local"), "cuda*/lib*")):
        found = [path for path in root.glob(f"{folders}/libnvrtc.so.*") if _NAME.fullmatch(path.name)]
        yield from sorted(found, key=lambda path: -int(_NAME.fullmatch(path.name)[1]))  # type: ignore[index]


def compile_with(nvrtc: Nvrtc, source: str, arch: str, kind: str) -> tuple[bytes, str]:
    """Machine code ("cubin") or PTX text ("ptx") for ``arch`` ("sm_80"), and what the compiler says.

    CudaError with its first error.
    """
    library = _loaded(nvrtc.library)
    headers = _HEADERS if _WMMA in source else {**_HEADERS, "mma.h": ""}
    source = _TENSOR_MAP + source if "CUtensorMap" in source else source
    names, texts = (_strings(values) for values in (headers.keys(), headers.values()))
    program = ctypes.c_void_p()
    made = library.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"kernels.cu", len(headers), texts, names
    )
    if made:
        raise CudaError(f"NVRTC {nvrtc.library} takes no program (error {made})")
    try:
        architecture = arch if kind == "cubin" else arch.replace("sm_", "compute_")
        words = [f"--gpu-architecture={architecture}", "-std=c++17", "--ptxas-options=-v"]
        words += [f"--include-path={folder}" for folder in nvrtc.headers]
        failed = library.nvrtcCompileProgram(program, len(words), _strings(words))
        log = _taken(library, program, "ProgramLog").rstrip(b"\0").decode()
        if failed:
            raise CudaError(f"NVRTC for {arch}: {first_error(log)}")
        code = _taken(library, program, kind.upper())
        return code.rstrip(b"\0") if kind == "ptx" else code, log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def first_error(log: str) -> str:
    """The first line of a compiler's report that says what is wrong; the report's end where none does."""
    lines = [line for line in log.splitlines() if "error" in line.lower()]
    return lines[0] if lines else log.strip()[-200:]


@cache
def _loaded(path: Path) -> ctypes.CDLL:
    try:
        # A compiler of CUDA 13 finds its wheel's built-in functions only where they are loaded already.
        for builtins in sorted(path.parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(builtins))
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CudaError(f"NVRTC cannot be loaded: {error}") from None


def _strings(values: Iterable[str]) -> "ctypes.Array[ctypes.c_char_p]":
    encoded = [value.encode() for value in values]
    return (ctypes.c_char_p * len(encoded))(*encoded)


def _taken(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    if getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)):
        raise CudaError(f"NVRTC gives no {what} of this program")
    data = ctypes.create_string_buffer(size.value)
    if getattr(library, f"nvrtcGet{what}")(program, data):
        raise CudaError(f"NVRTC gives no {what} of this program")
    return data.raw
