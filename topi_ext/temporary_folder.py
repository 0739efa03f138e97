"""Folders for temporary files, of which a process that was killed leaves none for long."""

import errno
import os
import shutil
import tempfile
import time
import weakref
from contextlib import suppress
from functools import cache
from types import TracebackType

from topi_ext.errors import RelayLayoutError
from topi_ext.messages import system_message

_HAS_LOCKS = os.name == "posix"
if _HAS_LOCKS:
    import fcntl

PREFIX = "relay-layout-temporary-"

_NEW_SECONDS = 60
"""A folder may be so new that its process has not locked it yet."""

FOR_CODE = 16 << 20
"""Bytes for what LLVM writes, which ends the process where a disk is full."""

_FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A folder that is gone with the block or with the process, locked as long as that lives.

    The first one of a process removes those of processes that were killed. RelayLayoutError where the system
    has no place for temporary files, and at the end of a block in which it had none left.
    """

    def __init__(self, room: int = 0) -> None:
        """``room``: bytes that have to be free."""
        try:
            if room and shutil.disk_usage(tempfile.gettempdir()).free < room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), tempfile.gettempdir())
            if _HAS_LOCKS:
                _remove_left(tempfile.gettempdir())
            super().__init__(prefix=PREFIX)
        except OSError as error:
            raise _no_place(error) from None
        self._unlock = weakref.finalize(self, os.close, _locked(self.name)) if _HAS_LOCKS else lambda: None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if isinstance(error, OSError) and error.errno in _FULL:
            raise _no_place(error) from None

    def cleanup(self) -> None:
        """Remove the folder now."""
        super().cleanup()
        self._unlock()


def _no_place(error: OSError) -> RelayLayoutError:
    reason = system_message(error)
    return RelayLayoutError(
        f"there is no place for temporary files ({reason}); set $TMPDIR to a folder that takes some"
    )


def _locked(folder: str) -> int:
    """A descriptor that has the folder locked, where its file system knows locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


@cache
def _remove_left(place: str) -> None:
    """Remove this user's folders that no process has locked."""
    with os.scandir(place) as entries:
        folders = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for folder in folders:
        with suppress(OSError):
            _remove_if_left(folder)


def _remove_if_left(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if found.st_uid == os.getuid() and time.time() - found.st_mtime > _NEW_SECONDS:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
