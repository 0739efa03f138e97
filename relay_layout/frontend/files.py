"""Reading files that a caller names."""

from pathlib import Path

from relay_layout.errors import ModelError
from topi_ext.files.whole_file import opened
from topi_ext.messages import system_reason

GIT_LFS = b"version https://git-lfs"
"""What a file begins with that only says where the real one is."""


def read_bytes(file: Path, kind: str = "model") -> bytes:
    """The content of a file of some ``kind``; ModelError where there is none to read."""
    if file.is_dir():
        raise ModelError(f"{kind} '{file}' is a directory, not a {kind} file")
    try:
        with opened(file) as content:
            return content.read()
    except OSError as error:
        raise ModelError(f"{kind} '{file}': {system_reason(error)}") from None
