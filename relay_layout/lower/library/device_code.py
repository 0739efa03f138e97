"""Machine code for GPUs inside shared libraries.

A machine without a GPU driver cannot make the module that TVM puts its machine code into; there TVM stores
CUDA source, to be compiled wherever it is loaded. The machine code then goes into the library beside it,
under a symbol of its own, and loading hands it to TVM in the compiler's place.
"""

import ctypes
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topi_ext.cuda.codegen.build import machine_code_of

SYMBOL = "relay_layout_device_code"
"""Bytes: for each module the SHA-256 of its source in 64 digits, the length of its code as u64, and the
code; at the end 64 zero bytes."""

_ENTRY = struct.Struct("<64sQ")


def device_code(executable: Any, arch: str) -> dict[str, bytes]:
    """The machine code for ``arch`` of every CUDA module in ``executable``, by the digest of its source."""
    return {source: cubin.code for source, cubin in machine_code_of(executable, arch).items()}


def assembly(code: Mapping[str, bytes], folder: Path) -> Path:
    """An assembly file in ``folder`` that defines :data:`SYMBOL`."""
    packed = b"".join(_ENTRY.pack(name.encode(), len(data)) + data for name, data in code.items())
    binary = folder / "device_code.bin"
    binary.write_bytes(packed + bytes(64))
    text = folder / "device_code.s"
    text.write_text(
        f'.section .rodata\n.global {SYMBOL}\n.balign 64\n{SYMBOL}:\n.incbin "{binary}"\n'
        '.section .note.GNU-stack,"",%progbits\n'
    )
    return text


def stored_code(library: Path) -> dict[str, bytes]:
    """The machine code in a shared library, by the digest of its source; none where it has no such symbol."""
    loaded = ctypes.CDLL(str(library))
    try:
        start = ctypes.addressof(ctypes.c_char.in_dll(loaded, SYMBOL))
    except ValueError:
        return {}
    found: dict[str, bytes] = {}
    while True:
        name = ctypes.string_at(start, 64)
        if not name.strip(b"\0"):
            return found
        _, size = _ENTRY.unpack(ctypes.string_at(start, _ENTRY.size))
        found[name.decode()] = ctypes.string_at(start + _ENTRY.size, size)
        start += _ENTRY.size + size
