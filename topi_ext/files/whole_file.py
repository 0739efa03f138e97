"""Files that are read to their end, or written whole or not at all."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import BinaryIO

from topi_ext.files.left_behind import lock, remove_left

_DRAFT = re.compile(r"\.relay-layout-[0-9a-f]{16}\.tmp")


def opened(path: str | os.PathLike[str]) -> BinaryIO:
    """A file to read. OSError where it cannot be, and for a device, which may have no end."""
    if stat.S_ISCHR(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is a device, not a file", os.fspath(path))
    return open(path, "rb")


@contextmanager
def replaced(path: str | os.PathLike[str], mode: int | None = None) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of ``path`` when the block ends without an error.

    Whoever opens ``path`` sees what was there before or all of it, and upon an error nothing is left of the
    new one. Through a link, what it points at is replaced. ``mode`` are its permissions, by default those of
    new files. OSError, naming ``path``, where it cannot be written, and where it is a directory or a device;
    one of the block that names another file stays as it is.

    What a process that was killed left of its own in that folder is removed by the next one that writes
    there, once it is a minute old.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    # Beside the target, since os.replace is atomic only within one file system.
    draft = os.path.join(folder, f".relay-layout-{os.urandom(8).hex()}.tmp")
    try:
        _check_place(target, folder)
        _remove_left(folder)
        with open(draft, "xb") as file:
            lock(file.fileno())
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


@cache
def _remove_left(folder: str) -> None:
    # One may write to a folder that one must not list.
    with suppress(OSError):
        remove_left(folder, lambda name: _DRAFT.fullmatch(name) is not None, os.unlink)


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
