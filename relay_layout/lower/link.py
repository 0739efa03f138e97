"""Linking object files into a shared library with whatever linker the machine has."""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relay_layout.errors import TargetError
from relay_layout.lower.device_code import assembly

COMPILERS = ("cc", "gcc", "clang", "g++", "clang++")


def link_command() -> list[str]:
    """The compiler driver to link with: ``$CC``, one on the path, or the one of the package ziglang.

    Raises :class:`TargetError` where there is none.
    """
    chosen = os.environ.get("CC", "").strip()
    if chosen:
        return shlex.split(chosen)
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise TargetError(
        "linking needs a C compiler and none of "
        f"{', '.join(COMPILERS)} is installed; install one, or pip install 'relay-layout[linker]'"
    )


def link_executable(executable: Any, device_code: Mapping[str, bytes] | None = None) -> bytes:
    """The bytes of a shared library that holds ``executable`` (``tvm.relax.VMExecutable``).

    ``device_code`` is machine code for GPUs; see :mod:`relay_layout.lower.device_code`.
    """
    command = link_command()

    def link(output: str, objects: list[str], **options: Any) -> None:
        del options
        extra = [str(assembly(device_code, Path(output).parent))] if device_code else []
        words = [*command, "-shared", "-fPIC", "-o", output, *objects, *extra]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError as error:
            raise TargetError(f"linking with {command[0]} failed: {error.strerror}") from None
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise TargetError(f"linking with {command[0]} failed: {lines[0] if lines else done.returncode}")

    with tempfile.TemporaryDirectory(prefix="relay-layout-") as folder:
        path = Path(folder) / "library.so"
        executable.export_library(str(path), fcompile=link)
        return path.read_bytes()
