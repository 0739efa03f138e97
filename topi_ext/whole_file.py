"""Files that are written whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def replaced(path: str | os.PathLike[str], mode: int | None = None) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of ``path`` when the block ends without an error.

    Whoever opens ``path`` sees what was there before or all of it, and upon an error nothing is left of the
    new one. Through a link, what it points at is replaced. ``mode`` are its permissions, by default those of
    new files. OSError, naming ``path``, where it cannot be written, and where it is a directory or a device;
    one of the block that names another file stays as it is.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    # Beside the target, since os.replace is atomic only within one file system.
    draft = os.path.join(folder, f".relay-layout-{os.urandom(8).hex()}.tmp")
    try:
        _check_place(target, folder)
        with open(draft, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(draft, mode)
        os.replace(draft, target)
    except OSError as error:
        # Of a disk that is full the error names no file, and the draft's name says nothing.
        if error.filename in (None, draft):
            error.filename, error.filename2 = os.fspath(path), None
        raise
    finally:
        with suppress(OSError):
            os.unlink(draft)
    _sync_folder(folder)


def _check_place(target: str, folder: str) -> None:
    """Raises OSError for what nothing is written in the place of; a device or a pipe would be gone."""
    if os.path.isdir(target):
        raise OSError(errno.EISDIR, "it is a directory")
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if not os.path.isdir(folder):
        shown = folder if folder.isprintable() else repr(folder)
        raise OSError(errno.ENOENT, f"the folder {shown} does not exist")


def _sync_folder(folder: str) -> None:
    # Some file systems cannot do it, and the file itself is complete by now.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
