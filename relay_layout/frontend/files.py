"""Reading files that a caller names."""

from pathlib import Path

from relay_layout.errors import ModelError


def read_bytes(file: Path, kind: str = "model") -> bytes:
    """The content of a file of some ``kind``; ModelError where there is none to read."""
    if file.is_dir():
        raise ModelError(f"{kind} '{file}' is a directory, not a {kind} file")
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{kind} '{file}': no such file") from None
    except OSError as error:
        raise ModelError(f"{kind} '{file}' cannot be read: {error.strerror}") from None
