"""Files and folders that processes which were killed have left behind; those of living ones are locked."""

import os
import time
from collections.abc import Callable
from contextlib import suppress

_HAS_LOCKS = os.name == "posix"
if _HAS_LOCKS:
    import fcntl

_NEW_SECONDS = 60
"""One may be so new that its process has not locked it yet."""


def lock(descriptor: int) -> None:
    """Have what is open locked until it is closed, where its file system knows locks."""
    if _HAS_LOCKS:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_left(place: str, is_ours: Callable[[str], bool], remove: Callable[[str], object]) -> None:
    """Give ``remove`` the path of each that ``is_ours`` by its name, is this user's, and is locked by nobody.

    OSError where the folder ``place`` cannot be read.
    """
    if not _HAS_LOCKS:
        return
    with os.scandir(place) as entries:
        found = [entry.path for entry in entries if is_ours(entry.name)]
    for path in found:
        with suppress(OSError):
            _remove_if_left(path, remove)


def _remove_if_left(path: str, remove: Callable[[str], object]) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if found.st_uid == os.getuid() and time.time() - found.st_mtime > _NEW_SECONDS:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(path)
    finally:
        os.close(descriptor)
