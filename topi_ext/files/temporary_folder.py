"""Folders for temporary files, of which a process that was killed leaves none for long."""

import errno
import os
import shutil
import tempfile
import weakref
from functools import cache, partial
from types import TracebackType

from topi_ext.errors import RelayLayoutError
from topi_ext.files.left_behind import lock, remove_left
from topi_ext.messages import system_message

_HAS_LOCKS = os.name == "posix"

PREFIX = "relay-layout-temporary-"

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
            _remove_left(tempfile.gettempdir())
            _check_room(tempfile.gettempdir(), room)
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

    def check_room(self, room: int) -> None:
        """Raises RelayLayoutError unless so many bytes are free."""
        try:
            _check_room(os.path.dirname(self.name), room)
        except OSError as error:
            raise _no_place(error) from None

    def cleanup(self) -> None:
        """Remove the folder now."""
        super().cleanup()
        self._unlock()


def _check_room(folder: str, room: int) -> None:
    if room and shutil.disk_usage(folder).free < room:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.path.abspath(folder))


def _no_place(error: OSError) -> RelayLayoutError:
    reason = system_message(error)
    return RelayLayoutError(
        f"there is no place for temporary files ({reason}); set $TMPDIR to a folder that takes some"
    )


def _locked(folder: str) -> int:
    """A descriptor that has the folder locked."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    lock(descriptor)
    return descriptor


@cache
def _remove_left(place: str) -> None:
    """Remove this user's folders that no process has locked."""
    remove_left(place, lambda name: name.startswith(PREFIX), partial(shutil.rmtree, ignore_errors=True))
