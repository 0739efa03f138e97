"""Leave to use :mod:`topi_ext.codegen.amx`, which a process must ask Linux for."""

import ctypes
import functools
import platform

_REQUEST_PERMISSION, _TILE_DATA = 0x1023, 18
"""Linux's code of ``arch_prctl`` (ARCH_REQ_XCOMP_PERM), and its number of the registers' state."""

_ARCH_PRCTL = 158
"""Linux's system call arch_prctl on x86-64."""


@functools.cache
def may_use_amx() -> bool:
    """Asks the operating system to let this process use the registers, which it must before it does.

    False where it refuses, and where it is not Linux on x86-64.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0
