"""Text files that are written whole or not at all."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text; whoever reads ``path`` sees what was there before or all of it."""
    target = Path(path)
    # Beside the target, since os.replace is atomic only within one file system.
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, target)
    except OSError as error:
        # Of a disk that is full the error names no file, and the draft is nobody's.
        error.filename, error.filename2 = os.fspath(path), None
        raise
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


__all__ = ["write_whole"]
