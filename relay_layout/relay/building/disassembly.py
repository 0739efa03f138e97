"""Machine code as text."""

import shutil
import subprocess
from pathlib import Path

from relay_layout.errors import InputError
from topi_ext.files.temporary_folder import TemporaryFolder

# The one of LLVM reads libraries for other processors than this one.
_PROGRAMS = ("llvm-objdump", "objdump")
_FORMATS = ("", "asm", "s")
"""What TVM's ``get_source`` takes for assembly, and for what a library has by itself."""


def assembly(library: bytes | bytearray | memoryview, fmt: str = "") -> str:
    """The instructions of a shared library, by the disassembler of this machine.

    InputError for other formats, which a library does not hold, where there is no disassembler, and where it
    cannot read the library.
    """
    if fmt not in _FORMATS:
        raise InputError(f"get_source: a library holds machine code, of which there is 'asm', not '{fmt}'")
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is None:
        raise InputError(f"get_source: needs {' or '.join(_PROGRAMS)}, and neither is on the path")
    with TemporaryFolder() as folder:
        path = Path(folder) / "network.so"
        path.write_bytes(library)
        done = subprocess.run(
            [found, "--disassemble", "--no-show-raw-insn", str(path)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    if done.returncode:
        told = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise InputError(f"get_source: {Path(found).name}: {told}")
    return done.stdout.replace(str(path), path.name)
