"""Linking object files into a shared library with whatever linker the machine has."""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from relay_layout.errors import TargetError
from relay_layout.lower.library.device_code import assembly
from topi_ext.files.temporary_folder import FOR_CODE, TemporaryFolder
from topi_ext.messages import system_reason
from topi_ext.threads import AMX, COMPILING, LINKING

COMPILERS = ("cc", "gcc", "clang", "g++", "clang++")

_ALONE = "-nostdlib"
"""Without a system root there are no startup files and no headers; a library of kernels needs none."""

_ANDROID = "-linux-android"
_ANDROID_LEVELS = range(24, 40)
"""Versions of Android that an NDK may name a driver for; a library for one runs on later ones."""

_PACKAGED = ["-m", "ziglang", "cc"]
_INSTALL = "install one, or pip install 'relay-layout[linker]'"


def link_command(triple: str = "") -> list[str]:
    """The compiler driver to link with: ``$CC``, one on the path, or the one of the package ziglang.

    For another machine than this one, of a ``triple`` such as ``aarch64-linux-gnu``: ``$CROSS_CC``, the cross
    compiler of GCC, clang with LLVM's linker, or the package; for Android ``$CROSS_CC`` or the NDK's clang
    on the path. Raises :class:`TargetError` where there is none.
    """
    chosen = os.environ.get("CROSS_CC" if triple else "CC", "").strip()
    if chosen:
        return shlex.split(chosen)
    if triple:
        return _android_command(triple) if triple.endswith(_ANDROID) else _cross_command(triple)
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    if _is_packaged():
        return [sys.executable, *_PACKAGED]
    raise TargetError(
        f"linking needs a C compiler and none of {', '.join(COMPILERS)} is installed; {_INSTALL}"
    )


def _cross_command(triple: str) -> list[str]:
    if shutil.which(f"{triple}-gcc"):
        return [f"{triple}-gcc"]
    if shutil.which("clang") and shutil.which("ld.lld"):
        return ["clang", f"--target={triple}", "-fuse-ld=lld", _ALONE]
    if _is_packaged():
        return [sys.executable, *_PACKAGED, "-target", triple]
    raise TargetError(
        f"linking for {triple} needs {triple}-gcc, or clang with ld.lld, and neither is installed; {_INSTALL}"
    )


def _android_command(triple: str) -> list[str]:
    """Libraries there need those of the system by name, so that it takes a driver that knows them."""
    for level in _ANDROID_LEVELS:
        if shutil.which(f"{triple}{level}-clang"):
            return [f"{triple}{level}-clang"]
    raise TargetError(
        f"linking for {triple} needs the clang of Android's NDK; put its folder bin on the path, or its name "
        f"into $CROSS_CC, such as {triple}{_ANDROID_LEVELS[0]}-clang"
    )


def _is_packaged() -> bool:
    return importlib.util.find_spec("ziglang") is not None


def link_executable(
    executable: Any,
    triple: str = "",
    device_code: Mapping[str, bytes] | None = None,
    *,
    amx: bool = False,
) -> bytes:
    """The bytes of a shared library that holds ``executable`` (``tvm.relax.VMExecutable``).

    Its parallel loops have threads of their own (:mod:`topi_ext.threads`), or those of TVM's pool where the
    driver has no system root to compile for. ``triple`` is as for :func:`link_command`, ``device_code``
    machine code for GPUs; see :mod:`relay_layout.lower.library.device_code`. ``amx``: its kernels may
    use the registers of :mod:`topi_ext.codegen.amx`.
    """
    command = link_command(triple)

    def link(output: str, objects: list[str], **options: Any) -> None:
        folder = Path(output).parent
        extra = [str(assembly(device_code, folder))] if device_code else []
        if _ALONE not in command:
            threads = folder / "threads.o"
            threads.write_bytes(_threads(tuple(command), triple, amx))
            extra += [str(threads), *LINKING]
        _drive([*command, "-shared", "-fPIC", "-o", output, *objects, *extra], triple)

    with TemporaryFolder(FOR_CODE) as folder:
        path = Path(folder) / "library.so"
        executable.export_library(str(path), fcompile=link, workspace_dir=folder)
        return path.read_bytes()


@cache
def _threads(command: tuple[str, ...], triple: str, amx: bool) -> bytes:
    """The object file of threads, made once for each driver, as that takes longer than linking."""
    with TemporaryFolder(FOR_CODE) as folder:
        path = Path(folder) / "threads.o"
        _drive([*command, *([AMX] if amx else []), *COMPILING, "-o", str(path)], triple)
        return path.read_bytes()


def _drive(words: list[str], triple: str) -> None:
    """Run a compiler driver; TargetError with what it complains of."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise TargetError(f"linking with {words[0]} failed: {system_reason(error)}") from None
    if done.returncode != 0:
        reason = _reason(done.stderr, triple) or done.returncode
        raise TargetError(f"linking with {words[0]} failed: {reason}")


def _reason(messages: str, triple: str) -> str:
    """What a driver complains of first, on one line."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    reason = next((line for line in lines if "error:" in line), lines[0] if lines else "")
    if ".h: No such file" in reason:
        package = "libc6-dev-arm64-cross" if triple == "aarch64-linux-gnu" else "libc6-dev"
        reason += f"; install the C library's headers for that compiler, {package} on Debian"
    return reason
